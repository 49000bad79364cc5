"""Logging to Weights & Biases, imported only where it is chosen."""

from __future__ import annotations

from typing import Any

import wandb
from lightning.pytorch.loggers import WandbLogger


class QuietWandb(WandbLogger):
    """Offline unless told otherwise, and silent: no banner, no question for an account."""

    def __init__(self, offline: bool = True, **settings: Any) -> None:
        # Before `wandb.init`, whose own settings come too late to silence what it says about its
        # arguments.
        wandb.setup(wandb.Settings(silent=True, mode="offline" if offline else "online"))
        super().__init__(offline=offline, **settings)

    def close(self) -> None:
        """End the W&B run; otherwise the next run of a sweep would go on in this one."""
        self.experiment.finish()
