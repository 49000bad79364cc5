"""The interface of an extension: a change to a trained encoding that lets it reach further."""

from __future__ import annotations

import itertools
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from posbench.base.errors import ConfigError, IllegalExtension
from posbench.core.encoding import EncodingStack, PositionEncoding, declares
from posbench.core.frequencies import Frequencies
from posbench.core.settings import TrainingConfig
from posbench.core.task import Task


@dataclass(frozen=True)
class FineTuning:
    """Further training that an extension asks for, relative to the training before it."""

    steps: float  # as a share of the training's steps
    multiple: float  # of the positions of the longest training sequence: gives the longest here
    learning_rate: float  # as a share of the training's learning rate

    def __post_init__(self) -> None:
        for name in ("steps", "multiple", "learning_rate"):
            if not 0 < getattr(self, name) < float("inf"):
                raise ConfigError(
                    f"{name} of the fine-tuning is a factor of that of the training and must be "
                    f"positive, got {getattr(self, name)}"
                )

    def settings(self, training: TrainingConfig, task: Task) -> TrainingConfig:
        """The settings of the further training, derived from the first training's.

        Lengths run from the shortest in training to the new longest, the first tenth of the steps
        warms up, and nothing stops it early.
        """
        steps = max(1, round(self.steps * training.steps))
        low, high = training.lengths
        longest = task.nearest(self.multiple * task.num_positions(high), high)
        return replace(
            training,
            min_length=low,
            max_length=max(low, longest),
            length_scale=1.0,
            packing=round(self.multiple * training.packing),
            stop_at=None,
            steps=steps,
            learning_rate=self.learning_rate * training.learning_rate,
            warmup_steps=round(0.1 * steps * training.steps_scale),
        )


@dataclass(frozen=True)
class EarlyFineTuning(FineTuning):
    """Further training that begins where the training before it was after a share of its steps.

    What it does then is as if it began at the end: the budget is a share of all steps.
    """

    start: float = 0.5  # as a share of the steps that the training made

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 < self.start < 1:
            raise ConfigError(
                "start is the share of the training after which the fine-tuning begins, above 0 "
                f"and below 1, got {self.start}"
            )

    def begins(self, training: TrainingConfig, made: int) -> int:
        """The step at which it begins, where the training has made so many.

        ConfigError if that lies in the decay: a shorter training with a constant rate would then
        not come by the same weights. Where the decay begins once the task is learned, which nobody
        knows before, it begins there at the latest.
        """
        step, constant = max(1, round(self.start * made)), training.constant_steps(made)
        if training.until is not None:
            return min(step, constant)
        if step > constant:
            raise ConfigError(
                f"start={self.start:g} of the training is step {step}, and its learning rate falls "
                f"from step {constant} on: choose at most {math.floor(100 * constant / made) / 100}"
            )
        return step


class Extension(ABC):
    """Changes a trained encoding: the new encoding shares the weights of the old.

    Lengths are counts of positions: the largest position in training, or in the test at hand, plus
    one; never the task's n. A test's length is always the whole of prompt and answer, so that an
    extension does the same under teacher forcing and in greedy decoding, token by token.

    `needs`        the handle the encoding must offer, "" for none
    `method_class` the kind of result it gives: rows are compared within their class
    `changes`      False only for direct extrapolation, the base for all comparisons
    `is_identity`  outputs at the training length equal the base's, bit for bit: declared here,
                   measured by the conformance suite
    `scale_policy` how it follows the length of a test: "none" (not by a factor), "fixed" (one
                   factor at every length, also at the training length) or "per test length"
    `finetuning`   training that continues with the new encoding before a test, None for none
    `retrained`    the multiples at which a model is trained from the start, () for none
    """

    needs: str = ""
    method_class: str = "zero-shot"
    changes: bool = True
    scale_policy: str = "none"
    finetuning: FineTuning | None = None
    retrained: tuple[float, ...] = ()

    @property
    def is_identity(self) -> bool:
        return True

    @property
    def trains(self) -> bool:
        """Whether it trains beyond the training that all extensions share."""
        return self.finetuning is not None or bool(self.retrained)

    @abstractmethod
    def apply(
        self, encoding: PositionEncoding, train_positions: int, test_positions: int
    ) -> PositionEncoding:
        """The encoding for a test of `test_positions`, after training on `train_positions`."""

    def part(self, stack: EncodingStack) -> EncodingStack:
        """The layers that it may change: all, unless a wrapper chooses some."""
        return stack

    def extend(
        self, stack: EncodingStack, train_positions: int, test_positions: int
    ) -> EncodingStack:
        """`apply` on every layer that has the needed handle; IllegalExtension if none has it."""
        if self.needs and self.needs not in stack.handles:
            raise IllegalExtension(
                f"{type(self).__name__} needs {self.needs}, which this encoding does not have"
            )
        return stack.replaced(
            [
                self.apply(layer, train_positions, test_positions)
                if not self.needs or self.needs in layer.handles
                else layer
                for layer in stack
            ]
        )


class Scaled(Extension):
    r"""An extension by a factor s.

    If `scale` is set, it is s for every length, so the model changes at the training length too. If
    it is left out (null), $s = \max(1, L'/L)$ for each test length L', and nothing changes at the
    training length L. Both are common in practice, and they are different rows.
    """

    def __init__(self, scale: float | None = None) -> None:
        if scale is not None and scale < 1:
            raise ConfigError(
                "scale is the factor of extension, at least 1 (or null for one a length), got "
                f"{scale}"
            )
        self.scale = scale

    @property
    def is_identity(self) -> bool:
        return self.scale is None or self.scale == 1

    @property
    def scale_policy(self) -> str:  # type: ignore[override]
        return "per test length" if self.scale is None else "fixed"

    def scale_at(self, train_positions: int, test_positions: int) -> float:
        """The factor s for a test of `test_positions`."""
        return self.scale if self.scale is not None else max(1.0, test_positions / train_positions)


class FrequencyExtension(Scaled):
    r"""An extension $\theta'_m = \theta_m / \lambda_m$ with an optional factor on cos and sin."""

    needs = "frequencies"

    @abstractmethod
    def stretch(
        self, frequencies: Frequencies, train_positions: int, scale: float
    ) -> tuple[float, ...]:
        r"""The factors $\lambda_m$, m = 0..K-1."""

    def magnitude(self, train_positions: int, scale: float) -> float:
        """The factor on every cosine and sine; 1 for most extensions."""
        return 1.0

    def apply(
        self, encoding: PositionEncoding, train_positions: int, test_positions: int
    ) -> PositionEncoding:
        frequencies: Frequencies = encoding.frequencies  # type: ignore[assignment]  # promised by the handle
        scale = self.scale_at(train_positions, test_positions)
        stretch = self.stretch(frequencies, train_positions, scale)
        return encoding.variant(
            frequencies=frequencies.stretched(stretch, self.magnitude(train_positions, scale))
        )


class ExtensionWrapper(Extension):
    """An extension around another, with something added that does not change the encoding.

    It declares what the inner extension declares, unless its class says otherwise.
    """

    def __init__(self, extension: Extension) -> None:
        self.extension = extension
        for name in ("needs", "changes", "method_class", "scale_policy"):
            if not declares(type(self), ExtensionWrapper, name):
                setattr(self, name, getattr(extension, name))

    @property
    def is_identity(self) -> bool:
        return self.extension.is_identity

    def apply(
        self, encoding: PositionEncoding, train_positions: int, test_positions: int
    ) -> PositionEncoding:
        return self.extension.apply(encoding, train_positions, test_positions)

    def part(self, stack: EncodingStack) -> EncodingStack:
        return self.extension.part(stack)

    def extend(
        self, stack: EncodingStack, train_positions: int, test_positions: int
    ) -> EncodingStack:
        return self.extension.extend(stack, train_positions, test_positions)


@dataclass(frozen=True)
class Trial:
    """One candidate of a search, and its loss on the validation length."""

    settings: dict[str, Any]
    extension: Extension
    loss: float


class Searched(ExtensionWrapper):
    """An extension whose settings are chosen on a validation length that is no test length.

    `extension` has the default settings and is the first candidate. `budget` counts candidates,
    and is the same for all extensions to be compared. `multiple` is the validation length in
    multiples of the training length.
    """

    method_class = "tuned"

    def __init__(self, extension: Extension, budget: int = 24, multiple: float = 3.0) -> None:
        super().__init__(extension)
        if budget < 1:
            raise ConfigError(
                "budget is the number of candidates, the default among them, at least 1, got "
                f"{budget}"
            )
        if not multiple > 1:
            raise ConfigError(
                f"multiple is that of the validation length and must exceed 1, got {multiple}"
            )
        self.budget = budget
        self.multiple = multiple

    @abstractmethod
    def candidates(
        self, stack: EncodingStack, train_positions: int, rng: np.random.Generator
    ) -> Iterator[tuple[dict[str, Any], Extension]]:
        """Settings and extension of each candidate but the default; the iterator may be endless."""

    def trials(
        self,
        stack: EncodingStack,
        train_positions: int,
        rng: np.random.Generator,
        loss: Callable[[Extension], float],
    ) -> list[Trial]:
        """The default and random candidates, at most `budget` in all, sorted from best to worst."""
        others = itertools.islice(self.candidates(stack, train_positions, rng), self.budget - 1)
        found = [
            Trial(settings, each, loss(each))
            for settings, each in itertools.chain([({}, self.extension)], others)
        ]
        return sorted(found, key=rank)


def rank(trial: Trial) -> float:
    """What trials are sorted by: the loss; one that is no number comes last."""
    return float("inf") if math.isnan(trial.loss) else trial.loss
