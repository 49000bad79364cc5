"""The logger that is chosen for a run: one of this package, another of Lightning, or none; and what
it is told of single steps.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import lightning as L
import torch

from posbench.config.building import build
from posbench.records.record import Record
from posbench.running.loggers import metrics
from posbench.running.loggers.metrics import About, Teller


def run_logger(node: Mapping[str, Any], about: About, logs: Path) -> RunLogger:
    """The logger that a configuration chooses, in a folder of the run; nothing is written yet.

    ConfigError if its library is not there.
    """
    if not node:
        return RunLogger()
    folder = logs / about.group / f"seed={about.names['seed']}"
    logger = build({"save_dir": str(folder), "name": about.title} | dict(node), "logger")
    kind = TellerLogger if isinstance(logger, Teller) else LightningLogger
    return kind(logger, about, folder)


class RunLogger:
    """None is chosen, and nothing is logged."""

    @property
    def for_training(self) -> list[Any]:
        """The loggers to which a training sends its curve."""
        return []

    def begin(self, settings: Mapping[str, Any], say: Callable[[str], None]) -> None:
        """Open the run, which has these settings."""

    def record(self, record: Record) -> None:
        """Log the tests of the run, which is complete now."""

    def close(self, say: Callable[[str], None]) -> None:
        """End the run."""


class LightningLogger(RunLogger):
    """A logger that has steps and numbers alone, as Lightning's own."""

    def __init__(self, logger: Any, about: About, folder: Path) -> None:
        self.logger, self.about, self.folder = logger, about, folder

    @property
    def for_training(self) -> list[Any]:
        return [self.logger]

    def begin(self, settings: Mapping[str, Any], say: Callable[[str], None]) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        self.logger.log_hyperparams(self.about.config(settings))

    def record(self, record: Record) -> None:
        for length, values in metrics.tests(record):
            self.logger.log_metrics(values, step=length)
        self._write()

    def _write(self) -> None:
        self.logger.save()
        self.logger.finalize("success")


class TellerLogger(LightningLogger):
    """A logger of this package."""

    def begin(self, settings: Mapping[str, Any], say: Callable[[str], None]) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        self.logger.begin(self.about, say)
        super().begin(settings, say)

    def record(self, record: Record) -> None:
        self.logger.log_record(record)
        self._write()

    def close(self, say: Callable[[str], None]) -> None:
        self.logger.close()
        if self.logger.kept:
            say(self.logger.kept)


class StepMetrics(L.Callback):
    """Logs every tenth step: its loss, learning rate, norm of the gradient and tokens a second.

    It reads what is there, so a training is the same with and without it.
    """

    def __init__(self) -> None:
        self.rate = self.norm = 0.0
        self.tokens, self.since = 0, time.perf_counter()

    def on_train_start(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        self.tokens, self.since = 0, time.perf_counter()

    def on_before_optimizer_step(
        self,
        trainer: L.Trainer,
        pl_module: L.LightningModule,
        optimizer: torch.optim.Optimizer,
    ) -> None:
        if (trainer.global_step + 1) % metrics.EVERY == 0:
            gradients = [each.grad for each in pl_module.parameters() if each.grad is not None]
            self.norm = torch.nn.utils.get_total_norm(gradients).item()
            self.rate = optimizer.param_groups[0]["lr"]

    def on_train_batch_end(
        self, trainer: L.Trainer, pl_module: L.LightningModule, outputs: Any, batch: Any, *_: Any
    ) -> None:
        self.tokens += batch.tokens.numel()
        step = trainer.global_step
        if step % metrics.EVERY:
            return
        loss = outputs["loss"].item()  # the device is done with the step then
        now = time.perf_counter()
        speed, self.tokens, self.since = self.tokens / (now - self.since), 0, now
        values = (loss, self.rate, self.norm, speed)
        for logger in trainer.loggers:
            logger.log_metrics(dict(zip(metrics.OF_STEPS, values, strict=True)), step=step)
