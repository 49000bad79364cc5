"""Training until a task is learned: a constant rate, and a decay that begins when it is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from posbench.core.settings import TrainingConfig
from posbench.core.task import Task
from posbench.core.training import DECAYS, Curve, Training
from posbench.core.transformer import Transformer

Points = Sequence[Mapping[str, float]]
"""The validations of a training so far, as `Curve` keeps them."""


class UntilLearned(Training):
    r"""A training whose rate is constant after warm-up until its task is learned, and then decays.

    The decay begins at step s, the first validation that is the last of `until.validations` in a
    row with a proficiency of at least `until.score`, and takes

        D = max(decay_fraction * s, until.least_decay)

    steps, so that the training ends after s + D. In its step t, counted from 0, the rate is that
    of the warm-up or `DECAYS[decay]((s + D - t) / D)`, whichever is smaller. A training that has
    not learned its task begins its decay at the last validation from which this ends within
    `steps`; see `latest`.

    All of it follows from the validations so far. A checkpoint has them, so that a training that
    is resumed before, at or after s goes on bit for bit.
    """

    def __init__(self, model: Transformer, task: Task, settings: TrainingConfig, seed: int) -> None:
        super().__init__(model, task, settings, seed)
        self.asked = settings
        self.begun: int | None = None
        """The step at which the decay has begun. From then on `settings` have the steps that there
        will be, and the curve ends with a validation after the last of them.
        """

    def configure_optimizers(self) -> Any:
        found = super().configure_optimizers()
        # A function and no method: of a method torch would keep the attributes in checkpoints.
        found["lr_scheduler"]["scheduler"].lr_lambdas = [lambda step: self.rate(step)]
        return found

    def rate(self, step: int) -> float:
        """The share of the learning rate in a step, counted from 0."""
        warm = min((step + 1) / (self.asked.warmup_steps + 1), 1.0)
        if self.begun is None:
            return warm
        end = self.settings.total_steps
        left = min((end - step) / (end - self.begun), 1.0)
        return min(warm, DECAYS[self.asked.decay](left))

    def on_train_start(self) -> None:
        self.look()

    def on_train_batch_end(self, outputs: Any, batch: Any, batch_idx: int) -> None:
        """Look at the validation of this step, if there was one. Lightning asks the curve first."""
        self.look()
        if self.begun is not None and self.trainer.global_step >= self.settings.total_steps:
            self.trainer.should_stop = True

    def look(self) -> None:
        """Begin the decay, once the curve says so."""
        if self.begun is not None:
            return
        [curve] = (each for each in self.trainer.callbacks if isinstance(each, Curve))  # type: ignore[attr-defined]
        self.begun = decay_begun(self.asked, curve.points)
        if self.begun is not None:
            steps = last_step(self.asked, self.begun)
            self.settings = replace(self.asked, steps=steps, steps_scale=1.0)


def decay_begun(settings: TrainingConfig, points: Points) -> int | None:
    """The step of the validation at which the decay of a training began; None: it has not."""
    until, last, in_a_row = settings.until, latest(settings), 0
    assert until is not None
    for point in points:
        in_a_row = in_a_row + 1 if point["score"] >= until.score else 0
        if in_a_row >= until.validations or point["step"] >= last:
            return int(point["step"])
    return None


def last_step(settings: TrainingConfig, begun: int) -> int:
    """The steps of a training whose decay began after `begun` of them."""
    assert settings.until is not None
    return begun + max(round(settings.decay_fraction * begun), settings.until.least_decay)


def latest(settings: TrainingConfig) -> int:
    """The last validation at which a decay may begin, so that it ends within the steps allowed."""
    step = settings.total_steps - settings.total_steps % settings.validate_every
    while last_step(settings, step) > settings.total_steps:
        step -= settings.validate_every
    return step


def ended(settings: TrainingConfig, points: Points) -> bool:
    """Whether a training with this curve has made its last step."""
    begun = decay_begun(settings, points)
    return begun is not None and points[-1]["step"] >= last_step(settings, begun)
