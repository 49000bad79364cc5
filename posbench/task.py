"""The contract of a task: a generator of token sequences with a difficulty length n.

Every sequence reads `BOS prompt SEP answer EOS`; the model is given all tokens but the last and
predicts the answer and EOS. Tasks use numpy alone, so that tokens are the same on every device and
with every version of torch.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from posbench.errors import ConfigError
from posbench.streams import stream_seed

PAD, BOS, SEP, EOS, MARK, NOISE = range(6)
FIRST_SYMBOL = 8
"""Data symbols begin here; smaller tokens are special (6 and 7 are free for your own tasks)."""


@dataclass(frozen=True)
class Batch:
    """Sequences of one length. All arrays are [batch, total_length]."""

    tokens: np.ndarray  # int64
    answer: np.ndarray  # bool, the tokens to be predicted: answer symbols and EOS
    source: np.ndarray  # int64, where in the sequence an answer token comes from; -1: no one place
    segments: np.ndarray  # int64, 0 for the prompt with BOS and SEP, 1 for the answer with EOS
    ids: Mapping[str, np.ndarray] = field(default_factory=dict)  # int64, by kind: see `Task.ids`

    def part(self, rows: slice) -> Batch:
        """The sequences in `rows`."""
        ids = {kind: values[rows] for kind, values in self.ids.items()}
        return Batch(
            self.tokens[rows], self.answer[rows], self.source[rows], self.segments[rows], ids
        )


class Task(ABC):
    """A rule that turns a prompt into an answer. Subclasses state it, with two worked examples.

    `version` goes up with every change that alters a generated token; the leaderboard
    never mixes versions.
    """

    version: ClassVar[int] = 1
    ids: ClassVar[frozenset[str]] = frozenset()
    """The kinds of position ids that the task supplies.

    Every task has the "index" of a token. Others are "coupled", where corresponding tokens share an
    id, and "within", which is 1, 2, 3, ... inside a number or string and 0 outside.
    """
    measure: ClassVar[str] = "sequence accuracy"
    """What `score` measures, for headings."""
    vocab_size: int
    """The number of tokens, including special ones: the size of the model's embedding."""

    @abstractmethod
    def sample(self, rng: np.random.Generator, n: int, batch_size: int) -> Batch:
        """Draw `batch_size` sequences of difficulty length n."""

    @abstractmethod
    def total_length(self, n: int) -> int:
        """The number of tokens in a sequence, including BOS and EOS."""

    @abstractmethod
    def answer_length(self, n: int) -> int:
        """The number of tokens to be predicted, without EOS."""

    @abstractmethod
    def chance(self, n: int) -> float:
        """The sequence accuracy of guessing every answer symbol at random, knowing the format."""

    @abstractmethod
    def max_distance(self, n: int) -> int:
        """The largest distance, in tokens, from a query to the source of the token it predicts."""

    def score(self, n: int, sequence_accuracy: float, loss: float) -> float:
        """How well length n is solved, from 0 to 1.

        This is the sequence accuracy unless a task has something better. `loss` is the mean
        cross-entropy, in nats, of the tokens asked for.
        """
        return sequence_accuracy

    def num_positions(self, n: int) -> int:
        """The number of positions the model sees: the largest plus one."""
        return self.total_length(n) - 1

    def batch(self, n: int, batch_size: int, *stream: str | int) -> Batch:
        """`sample` as a pure function of the named stream, e.g. `(seed, "train", step)`."""
        return self.sample(np.random.default_rng(stream_seed(*stream)), n, batch_size)


def assemble(
    prompt: np.ndarray, answer: np.ndarray, predicted: np.ndarray, source: np.ndarray
) -> Batch:
    """Build `BOS prompt SEP answer EOS` from arrays [batch, ...].

    `predicted` marks the answer tokens that the model is asked for (queries are not). For those,
    `source` gives the index in `prompt` that they repeat, or -1.
    """
    start = prompt.shape[1] + 2
    shape = len(prompt), start + answer.shape[1] + 1
    tokens = np.empty(shape, np.int64)
    tokens[:, 0], tokens[:, start - 1], tokens[:, -1] = BOS, SEP, EOS
    tokens[:, 1 : start - 1], tokens[:, start:-1] = prompt, answer
    asked = np.zeros(shape, bool)
    asked[:, start:-1], asked[:, -1] = predicted, True
    origin = np.full(shape, -1, np.int64)
    # BOS stands before the prompt, so every source moves by one.
    origin[:, start:-1] = np.where(predicted & (source >= 0), source + 1, -1)
    segments = np.zeros(shape, np.int64)
    segments[:, start:] = 1
    return Batch(tokens, asked, origin, segments)


def require(condition: bool, sentence: str) -> None:
    """Raise `ConfigError(sentence)` unless the condition holds."""
    if not condition:
        raise ConfigError(sentence)
