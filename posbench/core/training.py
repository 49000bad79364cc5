"""Training: one model, a stream of batches, and checkpoints from which it resumes bit for bit."""

from __future__ import annotations

import math
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import FrameType
from typing import Any

import lightning as L
import numpy as np
import torch
from torch.utils.data import DataLoader, IterableDataset

from posbench.base.errors import Diverged, Terminated
from posbench.core.batches import training_batch
from posbench.core.scoring import Inputs, answers, inputs, loss
from posbench.core.settings import TrainingConfig
from posbench.core.streams import stream_seed
from posbench.core.task import Batch, Task
from posbench.core.transformer import Transformer

DECAYS: dict[str, Callable[[float], float]] = {
    "linear": lambda left: left,
    "cosine": lambda left: (1 - math.cos(math.pi * left)) / 2,
}
"""The share of the learning rate, as a function of the share of the decay that is left."""


class Training(L.LightningModule):
    """AdamW with warm-up, a constant rate and a decay, on the batches of `training_batch`."""

    def __init__(self, model: Transformer, task: Task, settings: TrainingConfig, seed: int) -> None:
        super().__init__()
        self.model = model
        self.task = task
        self.settings = settings
        self.seed = seed

    def train_dataloader(self) -> DataLoader:
        return DataLoader(Batches(self), batch_size=None)

    def transfer_batch_to_device(
        self, batch: Inputs, device: torch.device, dataloader_idx: int
    ) -> Inputs:
        return batch.to(device)

    def training_step(self, batch: Inputs, batch_idx: int) -> torch.Tensor:
        # Seeds dropout: a resumed training drops what an uninterrupted one would have dropped.
        torch.manual_seed(stream_seed(self.seed, "train", "step", self.global_step))
        return loss(self.model, batch)

    def configure_optimizers(self) -> Any:
        s = self.settings
        optimizer = torch.optim.AdamW(
            self.model.parameters(),
            lr=s.learning_rate,
            betas=(s.beta1, s.beta2),
            weight_decay=s.weight_decay,
        )
        decay_steps = max(s.decay_fraction * s.total_steps, 1)

        def rate(step: int) -> float:
            left = min(1.0, (s.total_steps - step) / decay_steps)
            return min((step + 1) / (s.warmup_steps + 1), DECAYS[s.decay](left))

        schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, rate)
        return {"optimizer": optimizer, "lr_scheduler": {"scheduler": schedule, "interval": "step"}}

    def batch(self, step: int) -> Inputs:
        """The training batch of a step, a pure function of (seed, step)."""
        batch = training_batch(self.task, self.settings, self.seed, step)
        return inputs(
            batch,
            self.model.encodings,
            stream_seed(self.seed, "train", "positions", step),
            training=True,
        )

    def validation(self) -> list[tuple[Batch, Inputs]]:
        """Held-out sequences of the training length, as batches and as the model takes them."""
        n, count = self.settings.lengths[1], self.settings.validation_samples
        positions = stream_seed(self.seed, "validation", "positions")
        batches = self.task.tests(n, n, count, self.seed, "validation")
        return [(batch, inputs(batch, self.model.encodings, positions)) for batch in batches]


class Batches(IterableDataset):
    """The batches still to come.

    They start at the trainer's step, so that a resumed run sees the same data.
    """

    AT_ONCE = 8
    """Batches made in a row: one made alone, between two steps, takes twice as long, because every
    cache is full of weights.
    """

    def __init__(self, training: Training) -> None:
        self.training = training

    def __iter__(self) -> Iterator[Inputs]:
        steps = range(self.training.trainer.global_step, self.training.settings.total_steps)
        for start in range(0, len(steps), self.AT_ONCE):
            yield from self.made(steps[start : start + self.AT_ONCE])

    def made(self, steps: Sequence[int]) -> list[Inputs]:
        return [self.training.batch(step) for step in steps]


class Curve(L.Callback):
    """Records loss and in-distribution score every `validate_every` steps, and the time spent.

    The score is the task's proficiency. The training stops once it reaches `stop_at`, if that is
    set; Diverged is raised if a loss is no longer finite. The curve is part of the checkpoint, so
    that a resumed run has the same curve as an uninterrupted one.
    """

    def __init__(self, training: Training, report: Callable[[dict[str, float]], None]) -> None:
        self.training = training
        self.report = report
        self.points: list[dict[str, float]] = []
        self.losses: list[torch.Tensor] = []
        self.cpu_seconds = self.wall_seconds = 0.0
        self._tick()

    def on_train_start(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        validation = self.training.validation()
        self.validation = [(batch, data.to(pl_module.device)) for batch, data in validation]
        self.losses = [value.to(pl_module.device) for value in self.losses]
        self._tick()

    def on_train_batch_end(
        self, trainer: L.Trainer, pl_module: L.LightningModule, outputs: Any, *_: Any
    ) -> None:
        self.losses.append(outputs["loss"].detach())
        step, settings = trainer.global_step, self.training.settings
        if step % settings.validate_every and step != settings.total_steps:
            return
        mean = torch.stack(self.losses).mean().item()
        self.losses.clear()
        held_out = self._validated(trainer, pl_module)
        if not math.isfinite(mean + held_out["validation_loss"]):
            raise Diverged(
                f"the loss became {mean + held_out['validation_loss']} within the last "
                f"{settings.validate_every} steps before step {step}: "
                f"lower training.learning_rate={settings.learning_rate} or training.gradient_clip"
            )
        point = {"step": step, "loss": mean, **held_out}
        self.points.append(point)
        for logger in trainer.loggers:
            log_point(logger, point)
        self.report(point)
        if settings.stop_at is not None and point["score"] >= settings.stop_at:
            trainer.should_stop = True

    def _validated(self, trainer: L.Trainer, pl_module: L.LightningModule) -> dict[str, float]:
        pl_module.eval()
        task, model = self.training.task, self.training.model
        with trainer.precision_plugin.forward_context():  # in the precision of the training
            found = [(batch, answers(model, data, batch)) for batch, data in self.validation]
        pl_module.train()
        losses = np.concatenate([each.losses[each.asked] for _, each in found])
        sizes = [len(batch.tokens) for batch, _ in found]
        reached = np.average([task.proficiency(*each) for each in found], weights=sizes)
        return {"validation_loss": float(losses.mean()), "score": float(reached)}

    def _tick(self) -> None:
        self.cpu_start, self.wall_start = time.process_time(), time.perf_counter()

    def state_dict(self) -> dict[str, Any]:
        self.cpu_seconds += time.process_time() - self.cpu_start
        self.wall_seconds += time.perf_counter() - self.wall_start
        self._tick()
        losses = [value.item() for value in self.losses]
        return {
            "points": self.points,
            "losses": losses,
            "cpu": self.cpu_seconds,
            "wall": self.wall_seconds,
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.points = state["points"]
        self.losses = [torch.tensor(value) for value in state["losses"]]
        self.cpu_seconds, self.wall_seconds = state["cpu"], state["wall"]


def log_point(logger: Any, point: dict[str, float]) -> None:
    """Log a point of the curve under the names that dashboards show."""
    names = {
        "loss": "train/loss",
        "validation_loss": "validation/loss",
        "score": "validation/score",
    }
    logger.log_metrics(
        {shown: point[name] for name, shown in names.items()}, step=int(point["step"])
    )


class Checkpoint(L.Callback):
    """Writes `path` every `every` steps, and when SIGTERM or Ctrl-C arrives.

    A signal then stops the training with Terminated. It is only noted when it arrives and obeyed at
    the end of the step, because in the middle of an optimiser step half of the weights are already
    the next step's. The file is written under a temporary name beside `path` and renamed:
    Lightning's own writer goes through the system's temporary folder, and a move across file
    systems is not atomic.
    """

    def __init__(self, path: Path, every: int) -> None:
        self.path = path
        self.every = every
        self.received: int | None = None
        self.before: dict[int, Any] = {}

    def _note(self, signum: int, frame: FrameType | None) -> None:
        if self.received is not None and signum == signal.SIGINT:
            raise Terminated(signum)  # a second Ctrl-C does not wait
        self.received = signum

    def __enter__(self) -> Checkpoint:
        if threading.current_thread() is threading.main_thread():
            for signum in (signal.SIGTERM, signal.SIGINT):
                self.before[signum] = signal.signal(signum, self._note)
        return self

    def __exit__(self, *_: object) -> None:
        for signum, handler in self.before.items():
            signal.signal(signum, handler)

    def on_train_batch_end(self, trainer: L.Trainer, *_: Any) -> None:
        if self.received is not None or trainer.global_step % self.every == 0:
            self.save(trainer)
        if self.received is not None:
            raise Terminated(self.received)

    def save(self, trainer: L.Trainer) -> None:
        beside = self.path.with_suffix(f".{os.getpid()}.tmp")
        try:
            trainer.save_checkpoint(beside)
            os.replace(beside, self.path)
        finally:
            beside.unlink(missing_ok=True)  # what a full disk took of it


def fit(
    training: Training,
    checkpoint: Path,
    accelerator: str,
    checkpoint_every: int,
    loggers: list[Any],
    callbacks: list[L.Callback],
    report: Callable[[dict[str, float]], None],
) -> Curve:
    """Train to the end, resuming from `checkpoint` if it exists, and return the curve."""
    curve = Curve(training, report)
    with Checkpoint(checkpoint, checkpoint_every) as saver:
        trainer = L.Trainer(
            accelerator=accelerator,
            devices=1,
            precision=training.settings.precision,
            max_steps=training.settings.total_steps,
            gradient_clip_val=training.settings.gradient_clip,
            logger=loggers or False,
            # The curve comes first, so that a checkpoint holds the point of its own step.
            callbacks=[curve, *callbacks, saver],
            enable_checkpointing=False,
            enable_progress_bar=False,
            enable_model_summary=False,
            num_sanity_val_steps=0,
            log_every_n_steps=training.settings.validate_every,
            default_root_dir=checkpoint.parent,
        )
        trainer.fit(
            training, ckpt_path=checkpoint if checkpoint.exists() else None, weights_only=True
        )
    curve.state_dict()  # adds the time since the last checkpoint
    return curve
