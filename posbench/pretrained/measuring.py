"""A mounted model is measured on one text at one length under one extension."""

from __future__ import annotations

import math
import time
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from posbench.base.errors import ConfigError
from posbench.config.provenance import content_hash
from posbench.core.extension import Extension
from posbench.core.streams import stream_seed
from posbench.pretrained.mounting import Mounted
from posbench.pretrained.reading import Answer, answers, continuations
from posbench.pretrained.text_tasks import Pieces, Text, TextTask


@dataclass(frozen=True)
class Found:
    """One sample: a question and its answer, or a text that the model went on with.

    `place` is where a token's source is in the text, or the token itself, from 0 to 1 for each
    token; None where there is no one place. `within` says whether the source of a token is no
    farther than any distance in training; None where there is no source.
    """

    number: int  # among the samples of its task; a seed of the boards
    answer: Answer
    place: list[float] | None
    within: list[bool] | None
    cpu_seconds: float

    @property
    def log_likelihood(self) -> float:
        """The mean over tokens, in nats."""
        return math.fsum(self.answer.log_likelihood) / len(self.answer.log_likelihood)


class Measurement(ABC):
    """Something to measure, by its name. `by` says what the places of its tokens are of."""

    name: str
    by: str
    measure: str
    version: int
    chance: float
    node: dict[str, Any]  # as records keep it

    @abstractmethod
    def numbers(self, text: int) -> list[int]:
        """The numbers of the samples that a text gives."""

    @abstractmethod
    def found(
        self, mounted: Mounted, extension: Extension, length: int, text: int, stream: str = "test"
    ) -> list[Found]:
        """The samples of one text, the same for every extension."""


def target(cls: type) -> str:
    return f"{cls.__module__}.{cls.__qualname__}"


@dataclass(frozen=True)
class Answering(Measurement):
    """A task of questions after a text."""

    name: str
    task: TextTask
    pieces: Pieces
    questions: int
    chat: bool = False

    by = "depth"

    @property
    def measure(self) -> str:  # type: ignore[override]
        return self.task.measure

    @property
    def version(self) -> int:  # type: ignore[override]
        return self.task.version

    @property
    def chance(self) -> float:  # type: ignore[override]
        return self.task.chance

    @property
    def node(self) -> dict[str, Any]:  # type: ignore[override]
        asked = {"questions": self.questions, "chat": self.chat}
        return {"_target_": target(type(self.task))} | vars(self.task) | asked

    def numbers(self, text: int) -> list[int]:
        return [text * self.questions + each for each in range(self.asked)]

    @property
    def asked(self) -> int:
        """Questions of a text: those that were wanted, or one where the task has no more."""
        return len(self.task.story(self.questions, np.random.default_rng(0)).asked)

    def text(self, length: int, number: int, stream: str = "test") -> Text:
        words = () if stream == "test" else (stream,)
        rng = np.random.default_rng(stream_seed(number, "pretrained", self.name, length, *words))
        return self.task.text(self.pieces, length, self.questions, rng)

    def found(
        self, mounted: Mounted, extension: Extension, length: int, text: int, stream: str = "test"
    ) -> list[Found]:
        told = self.text(length, text, stream)
        mounted.extension = extension
        asked = [(each.asked, each.answer) for each in told.questions]
        before = time.process_time()
        given = answers(mounted, told.shared, asked, length)
        seconds = (time.process_time() - before) / len(given)
        found = []
        for number, question, answer in zip(self.numbers(text), told.questions, given, strict=True):
            count = len(question.answer)
            near = question.distance is not None and question.distance < mounted.train_positions
            found.append(
                Found(
                    number,
                    answer,
                    None if question.depth is None else [question.depth] * count,
                    None if question.distance is None else [near] * count,
                    seconds,
                )
            )
        return found


@dataclass(frozen=True)
class Perplexity(Measurement):
    """How likely each token of a file is, by its position; a sample is a stretch of the file.

    Stretches follow one another from the start of the file, for every length anew.
    """

    name: str
    file: Path
    tokens: Sequence[int]
    before: Sequence[int]  # what the tokenizer puts before any text

    by = "position"
    measure = "share of next tokens that are the likeliest"
    version = 1
    chance = 0.0

    @classmethod
    def of(cls, file: Path, tokenizer: Any) -> Perplexity:
        try:
            text = file.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise ConfigError(
                f"text={file} cannot be read as UTF-8 text ({error}): name a text file"
            ) from None
        pieces = Pieces(tokenizer)
        return cls("perplexity", file, pieces(text), pieces.before)

    @property
    def node(self) -> dict[str, Any]:  # type: ignore[override]
        return {
            "_target_": target(type(self)),
            "file": self.file.name,
            "tokens": content_hash(list(self.tokens)),
        }

    def numbers(self, text: int) -> list[int]:
        return [text]

    def found(
        self, mounted: Mounted, extension: Extension, length: int, text: int, stream: str = "test"
    ) -> list[Found]:
        size = length - len(self.before)
        # Validation counts from the end of the file, so that no test sees it before.
        start = text * size if stream == "test" else len(self.tokens) - (text + 1) * size
        if start < 0 or start + size > len(self.tokens):
            raise ConfigError(
                f"text={self.file} has {len(self.tokens)} tokens, and {text + 1} stretches of "
                f"{size} need {(text + 1) * size}: give a longer file, fewer texts or shorter "
                "lengths"
            )
        tokens = [*self.before, *self.tokens[start : start + size]]
        mounted.extension = extension
        before = time.process_time()
        answer = continuations(mounted, tokens, length)
        seconds = time.process_time() - before
        places = [each / mounted.train_positions for each in range(1, length)]
        return [Found(text, answer, places, None, seconds)]
