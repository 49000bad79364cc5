"""What a model can do at a length, text by text, and the file in which each text is kept."""

from __future__ import annotations

import json
import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from posbench.base.content_hash import content_hash
from posbench.base.disk import read_text, write_json
from posbench.base.errors import ConfigError
from posbench.core.extension import Extension
from posbench.pretrained.measuring import Answering
from posbench.pretrained.mounting import Mounted
from posbench.pretrained.reading import continuations
from posbench.statistics.aggregates import quantile, wilson

LOSS = "loss"
LAST = 64
"""Tokens of a text whose loss is compared, and as many before them where little is seen."""
LARGEST = 100_000_000
"""Bytes of a file of texts."""


@dataclass(frozen=True)
class Point:
    """What the model does at one length, with its 95 percent interval."""

    length: int
    value: float
    low: float  # NaN of a single sample that is neither right nor wrong
    high: float
    samples: int


class Ability(ABC):
    """Something that a model can do at a length, larger where it does it better."""

    name: str
    node: dict[str, Any]  # all that its samples depend on, beside the model and its extension

    @abstractmethod
    def samples(self, length: int, text: int) -> list[float]:
        """Those of one text."""

    @abstractmethod
    def point(self, length: int, samples: Sequence[float]) -> Point:
        """The mean over samples of all texts."""


@dataclass
class ShareAnswered(Ability):
    """The share of answers that greedy decoding gives, with Wilson's interval."""

    asking: Answering
    mounted: Mounted
    extension: Extension

    @property
    def name(self) -> str:  # type: ignore[override]
        return self.asking.name

    @property
    def node(self) -> dict[str, Any]:  # type: ignore[override]
        return self.asking.node

    def samples(self, length: int, text: int) -> list[float]:
        found = self.asking.found(self.mounted, self.extension, length, text)
        return [float(each.answer.exact) for each in found]

    def point(self, length: int, samples: Sequence[float]) -> Point:
        return share(length, round(sum(samples)), len(samples))


def share(length: int, right: int, of: int) -> Point:
    """A share with the interval of Wilson 1927, as the boards of pretrained models have it."""
    return Point(length, right / of, *wilson(right, of), of)


@dataclass
class LossOfTheLast(Ability):
    """How much the text before helps the last tokens of texts, in nats a token.

        mean over texts of (loss after 64 tokens - loss after all that precede)

    The tokens are the same at every length, so that texts are no source of difference. The interval
    is that of Student's t over texts.
    """

    tokens: Sequence[int]
    before: Sequence[int]
    mounted: Mounted
    extension: Extension
    name: str = LOSS
    _little: dict[int, float] = field(default_factory=dict)

    @property
    def node(self) -> dict[str, Any]:  # type: ignore[override]
        return {"tokens": content_hash([list(self.before), list(self.tokens)]), "last": LAST}

    def samples(self, length: int, text: int) -> list[float]:
        if text not in self._little:
            self._little[text] = self._loss(text, 2 * LAST)
        return [self._little[text] - self._loss(text, length)]

    def point(self, length: int, samples: Sequence[float]) -> Point:
        mean, count = float(np.mean(samples)), len(samples)
        half = math.nan
        if count > 1:
            half = float(quantile(count) * np.std(samples, ddof=1) / math.sqrt(count))
        return Point(length, mean, mean - half, mean + half, count)

    def _loss(self, text: int, length: int) -> float:
        """The mean loss of the last tokens of a text of so many, nats."""
        end = len(self.tokens) - text * LAST
        given = [*self.before, *self.tokens[end - length + len(self.before) : end]]
        self.mounted.extension = self.extension
        return -float(np.mean(continuations(self.mounted, given, length).log_likelihood[-LAST:]))


# -- texts that were measured ----------------------------------------------------------------------


NOT_TEXTS = (AttributeError, KeyError, OSError, TypeError, ValueError, RecursionError)
"""What is raised for a file that does not hold them."""


@dataclass(frozen=True)
class MeasuredText:
    """The samples of one text, and how long they took."""

    samples: list[float]
    seconds: float


class KeptTexts:
    """The texts that were measured under some settings, by their length.

    The file is written whole after each text, and other settings have another file. A search that
    was stopped goes on there, and one of more texts or of longer ones adds to it.
    """

    def __init__(self, folder: Path, name: str, settings: dict[str, Any]) -> None:
        self.path = folder / f"{name}-{content_hash(settings)[:8]}.json"
        self._settings = settings
        self._texts: dict[int, list[MeasuredText]] = {}
        if self.path.exists():
            self._read()

    def _read(self) -> None:
        try:
            found = json.loads(read_text(self.path, LARGEST))
            settings = found["settings"]
            self._texts = {
                int(length): [MeasuredText(**each) for each in texts]
                for length, texts in found["texts"].items()
            }
        except NOT_TEXTS as error:
            raise ConfigError(
                f"{self.path} cannot be read as texts of an earlier search ({error}): move it away"
            ) from None
        if settings != json.loads(json.dumps(self._settings)):
            raise ConfigError(
                f"{self.path} has texts that were measured with other settings, and they are not "
                "mixed: move it away, or name another folder, results_dir="
            )

    @property
    def lengths(self) -> list[int]:
        return sorted(self._texts)

    def at(self, length: int) -> list[MeasuredText]:
        """The texts of a length, in the order of their numbers."""
        return self._texts.get(length, [])

    def add(self, length: int, text: MeasuredText) -> None:
        self._texts.setdefault(length, []).append(text)
        kept = {str(each): [vars(one) for one in self._texts[each]] for each in self.lengths}
        write_json({"settings": self._settings, "texts": kept}, self.path)
