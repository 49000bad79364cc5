"""The curve of each replica, and when it ends."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

import lightning as L

from posbench.base.errors import Diverged
from posbench.core.training import Curve, Training
from posbench.running.replicas.trainings import Replicas


class OwnCurve(Curve):
    """The curve of one replica; of the time that passes it counts its share."""

    def __init__(self, training: Training, replicas: Replicas) -> None:
        super().__init__(training, lambda point: None)
        self.replicas = replicas

    def state_dict(self) -> dict[str, Any]:
        cpu, wall = self.cpu_seconds, self.wall_seconds
        state = super().state_dict()
        count = len(self.replicas.active)
        self.cpu_seconds = state["cpu"] = cpu + (self.cpu_seconds - cpu) / count
        self.wall_seconds = state["wall"] = wall + (self.wall_seconds - wall) / count
        return state


Ended = Callable[[int, OwnCurve, Diverged | None], None]
"""(index, curve, why its loss is no number) -> None, called when a replica has ended."""


class Curves(L.Callback):
    """The curve of each replica. One that has reached `stop_at` or diverged leaves the others."""

    def __init__(
        self, replicas: Replicas, ended: Ended, report: Callable[[dict[str, float]], None]
    ) -> None:
        self.replicas, self.ended, self.report = replicas, ended, report
        self.curves = [OwnCurve(training, replicas) for training in replicas.trainings]

    def on_train_start(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        for curve in self.curves:
            curve.on_train_start(trainer, curve.training)

    def on_train_batch_end(
        self, trainer: L.Trainer, pl_module: L.LightningModule, outputs: Any, *_: Any
    ) -> None:
        first, leaving = self.curves[self.replicas.active[0]], []
        before = len(first.points)
        for index in self.replicas.active:
            curve = self.curves[index]
            # What a curve sees of a trainer, but that its end is not that of the others.
            seen: Any = SimpleNamespace(
                global_step=trainer.global_step,
                precision_plugin=trainer.precision_plugin,
                loggers=[],
                should_stop=False,
            )
            diverged = None
            try:
                curve.on_train_batch_end(seen, curve.training, {"loss": outputs["each"][index]})
            except Diverged as error:
                diverged = error
            if seen.should_stop or diverged is not None:
                leaving.append((index, diverged))
        if len(first.points) > before:
            self.report(first.points[-1])
        if leaving:
            self.leave(leaving)
        trainer.should_stop = not self.replicas.active

    def leave(self, leaving: Sequence[tuple[int, Diverged | None]]) -> None:
        """End some replicas; the time so far is first shared with those that go on."""
        for index in self.replicas.active:
            self.curves[index].state_dict()
        for index, diverged in leaving:
            self.replicas.release(index)
            self.ended(index, self.curves[index], diverged)

    def state_dict(self) -> dict[str, Any]:
        return {str(index): self.curves[index].state_dict() for index in self.replicas.active}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        for index, curve in enumerate(self.curves):
            curve.load_state_dict(state[str(index)])
