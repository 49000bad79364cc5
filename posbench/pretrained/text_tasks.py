"""Tasks of the suite as text, in the lengths of a model's own tokenizer.

Filler is made of sentences of ours, so that no text has to be had. A sample is built from pieces
that are tokenized apart and joined as tokens, so that its length is exact.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from posbench.errors import ConfigError

FILLER = (
    "The road goes past the mill.",
    "Rain fell on the roof all night.",
    "A boat lies at the pier.",
    "Someone has left the gate open.",
    "The bread is still warm.",
    "Two birds sit on the fence.",
    "The train was late again.",
    "Snow covers the far hills.",
)


@dataclass(frozen=True)
class Sample:
    """A prompt and its answer in tokens. `depth` is where the source stands: 0 start, 1 end."""

    prompt: list[int]
    answer: list[int]
    depth: float

    @property
    def tokens(self) -> list[int]:
        return self.prompt + self.answer


class TextTask(ABC):
    """Samples of any number of tokens."""

    def sample(self, tokenizer: Any, length: int, depth: float, rng: np.random.Generator) -> Sample:
        """One of exactly `length` tokens, the answer included."""
        start = [] if tokenizer.bos_token_id is None else [tokenizer.bos_token_id]
        room, pieces = length - len(start), _Pieces(tokenizer)
        return self._fill(start, room, depth, pieces, rng)

    @abstractmethod
    def _fill(
        self,
        start: list[int],
        room: int,
        depth: float,
        pieces: _Pieces,
        rng: np.random.Generator,
    ) -> Sample: ...


class _Pieces:
    """Text to tokens, piece by piece."""

    def __init__(self, tokenizer: Any) -> None:
        self.tokenizer = tokenizer

    def __call__(self, text: str) -> list[int]:
        return list(self.tokenizer(text, add_special_tokens=False).input_ids)

    def filler(self, count: int, rng: np.random.Generator) -> list[int]:
        """`count` tokens of sentences in random order; the first may have lost its beginning."""
        found: list[int] = []
        while len(found) < count:
            found = self(f"{FILLER[rng.integers(len(FILLER))]}\n") + found
        return found[len(found) - count :]


def _joined(
    start: list[int],
    head: list[int],
    lines: Sequence[list[int]],
    question: list[int],
    answer: list[int],
    source: int,
) -> Sample:
    """The lines between head and question; `source` is the index of the one that answers."""
    prompt = start + head + [token for line in lines for token in line] + question
    before = len(start) + len(head) + sum(len(line) for line in lines[:source])
    return Sample(prompt, answer, before / max(len(prompt) - 1, 1))


def _room(free: int, room: int) -> int:
    if free < 0:
        raise ConfigError(
            f"a sample needs {room - free} tokens and has {room}: choose longer lengths"
        )
    return free


class Passkey(TextTask):
    """A number of five digits is said once, in filler, and asked for at the end (arXiv
    2305.16300, in words and filler of ours).
    """

    def _fill(
        self,
        start: list[int],
        room: int,
        depth: float,
        pieces: _Pieces,
        rng: np.random.Generator,
    ) -> Sample:
        key = str(rng.integers(10_000, 100_000))
        head = pieces("Somewhere in this text is a secret number. Keep it in mind.\n")
        needle = pieces(f"The secret number is {key}.\n")
        question = pieces("What is the secret number? The secret number is")
        answer = pieces(f" {key}")
        fixed = sum(map(len, (head, needle, question, answer)))
        free = _room(room - fixed, room)
        before = round(depth * free)
        lines = [pieces.filler(before, rng), needle, pieces.filler(free - before, rng)]
        return _joined(start, head, lines, question, answer, 1)


class KeyValueRetrieval(TextTask):
    """Lines of a key and a value, as many as there is room for; one key is asked for (arXiv
    2307.03172, with short keys so that short prompts hold many).
    """

    def _fill(
        self,
        start: list[int],
        room: int,
        depth: float,
        pieces: _Pieces,
        rng: np.random.Generator,
    ) -> Sample:
        head = pieces("Each line has a name and its number.\n")
        numbers = rng.permutation(9_000)[:2] + 1_000
        key, value = (str(number) for number in numbers)
        needle = pieces(f"N{key}: {value}\n")
        question = pieces(f"The number of N{key} is")
        answer = pieces(f" {value}")
        free = _room(room - sum(map(len, (head, needle, question, answer))), room)
        others: list[list[int]] = []
        while True:
            other = rng.integers(1_000, 10_000, 2)
            if str(other[0]) == key:
                continue
            line = pieces(f"N{other[0]}: {other[1]}\n")
            if len(line) > free:
                break
            free -= len(line)
            others.append(line)
        place = round(depth * len(others))
        lines = [pieces.filler(free, rng), *others[:place], needle, *others[place:]]
        return _joined(start, head, lines, question, answer, place + 1)


TASKS: dict[str, TextTask] = {"passkey": Passkey(), "key_value_retrieval": KeyValueRetrieval()}
