"""What torch keeps on a disk: written whole, and read from its bytes."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import lightning as L
import torch
from lightning.pytorch.plugins.io import TorchCheckpointIO

from posbench.base.disk import atomically, damaged, read_bytes, reading

THREADS = "threads"
"""Where a checkpoint says with how many threads of torch it was made."""


def loaded(path: Path) -> Any:
    """What torch has saved in a file, on the CPU. Unreadable where it is not that, or where the
    machine does not say.

    The bytes are read first, so that an error of the disk cannot be taken for one of the file.
    """
    with reading(path):
        saved = io.BytesIO(read_bytes(path))
        try:
            return torch.load(saved, weights_only=True, map_location="cpu")
        except (OSError, MemoryError):
            raise
        except Exception as error:  # whatever a damaged file makes torch raise
            if "allocate memory" in str(error):
                raise
            raise damaged(path, type(error).__name__) from None


def remaining(path: Path) -> dict[str, Any] | None:
    """The state in a checkpoint; None if there is none, Unreadable if it is damaged."""
    with reading(path):
        if not path.exists():
            return None
    state = loaded(path)
    if (
        not isinstance(state, dict)
        or not {"global_step", "state_dict", "callbacks"} <= state.keys()
    ):
        raise damaged(path, "it is no checkpoint")
    return state


def with_threads(state: dict[str, Any]) -> dict[str, Any]:
    """A checkpoint that says how many threads it was made with: sums depend on that."""
    return state | {THREADS: torch.get_num_threads()}


class CheckpointKeeper(L.Callback):
    """Makes Lightning write and read the checkpoints of a training as this module does."""

    def setup(self, trainer: L.Trainer, pl_module: L.LightningModule, stage: str) -> None:
        trainer.strategy.checkpoint_io = WholeCheckpoints()


class WholeCheckpoints(TorchCheckpointIO):
    """Writes what `posbench.core.training.Checkpoint` then renames."""

    def save_checkpoint(
        self, checkpoint: dict[str, Any], path: Any, storage_options: Any = None
    ) -> None:
        """Write it whole, under a name of this call alone."""
        with atomically(Path(path)) as beside:
            torch.save(with_threads(checkpoint), beside)

    def load_checkpoint(self, path: Any, *_: Any, **__: Any) -> dict[str, Any]:
        found: dict[str, Any] = loaded(Path(path))
        return found
