"""The contract of a task: a generator of token sequences with a difficulty length n.

Every sequence reads `BOS prompt SEP answer EOS`; the model is given all tokens but the last and
predicts the answer and EOS. Tasks use numpy alone, so that tokens are the same on every device and
with every version of torch.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar, NamedTuple

import numpy as np

from posbench.base.errors import ConfigError
from posbench.core.streams import stream_seed

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


@dataclass(frozen=True)
class Answers:
    """What one pass says about the tokens that a batch asks for. All arrays are [batch, n], where
    n is the total length less one: the token at t + 1 is predicted at t.
    """

    asked: np.ndarray  # bool
    right: np.ndarray  # bool, False where nothing is asked
    losses: np.ndarray  # float32, nats, 0 where nothing is asked
    ends: np.ndarray  # bool, the end of a sequence, where it is asked for

    @property
    def sequences(self) -> np.ndarray:
        """[batch], every answer token right, the end of the sequence among them."""
        return (self.right == self.asked).all(1)

    @property
    def mean_loss(self) -> float:
        return float(self.losses[self.asked].mean())

    @property
    def without_end(self) -> np.ndarray:
        """[batch], every answer token right, wherever the model would have stopped."""
        return (self.right | self.ends | ~self.asked).all(1)

    @property
    def correct_prefix(self) -> np.ndarray:
        """[batch], the share of the answer before its first wrong token."""
        wrong_before = (self.asked & ~self.right).cumsum(1) > 0
        return (self.asked & ~wrong_before).sum(1) / self.asked.sum(1)

    @property
    def symbols(self) -> np.ndarray:
        """The answer symbols, the ends left out, in order: which of them are right, [tokens]."""
        return self.right[self.asked & ~self.ends]


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
    gate: ClassVar[float] = 0.95
    """The `proficiency` at the training length with which the task counts as learned."""
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
        """The expected `score` of guessing at random, knowing the format."""

    @abstractmethod
    def max_distance(self, n: int) -> int:
        """The largest distance, in tokens, from a query to the source of the token it predicts."""

    def score(self, batch: Batch, answers: Answers) -> float:
        """How well these sequences are answered: 1 is perfect, and guessing gives `chance`.

        This is the sequence accuracy unless a task has something better. A score may be below that
        of guessing, and is at least -1.
        """
        return float(answers.sequences.mean())

    def proficiency(self, batch: Batch, answers: Answers) -> float:
        """The number that must pass `gate` at the training length: the score, for most tasks."""
        return self.score(batch, answers)

    def tested(self, n: int, trained: int) -> Sequence[int]:
        """The lengths that a test of length n draws, in a training of lengths up to `trained`.

        They are n alone, unless the length itself is the answer.
        """
        return (n,)

    def tests(self, n: int, trained: int, num_samples: int, *stream: str | int) -> list[Batch]:
        """The test of length n: a batch for each length in `tested`."""
        each = self.tested(n, trained)
        share = max(1, num_samples // len(each))
        return [self.batch(length, share, *stream, length) for length in each]

    def num_positions(self, n: int) -> int:
        """The number of positions the model sees: the largest plus one."""
        return self.total_length(n) - 1

    def longest(self, n: int, trained: int) -> int:
        """The positions of the longest sequence in a test of length n."""
        return max(self.num_positions(length) for length in self.tested(n, trained))

    def nearest(self, positions: float, start: int) -> int:
        """The length n whose `num_positions` are nearest to `positions`, looked for from `start`.

        ConfigError where the task has no sequences as long as that.
        """
        n, step = start, 1 if self.num_positions(start) < positions else -1
        while n + step >= 1 and self.num_positions(n) != positions:
            if step * (positions - self.num_positions(n + step)) < 0:
                return min(n, n + step, key=lambda each: abs(self.num_positions(each) - positions))
            n += step
        return n

    def batch(self, n: int, batch_size: int, *stream: str | int) -> Batch:
        """`sample` as a pure function of the named stream, e.g. `(seed, "train", step)`."""
        return self.sample(np.random.default_rng(stream_seed(*stream)), n, batch_size)


class Summed(NamedTuple):
    """Tokens that were asked for, summed."""

    tokens: int
    nats: float  # their losses in all
    right: int


class PairedTask(Task):
    """A task whose tests ask for the same tokens at every length: only what comes before them
    grows. So two lengths, and two methods, are compared token by token.

    Tokens of one text depend on each other, so intervals are over texts.
    """

    @abstractmethod
    def texts(self, num_samples: int, *stream: str | int) -> list[str]:
        """The name of the text that each sequence of `tests` is from, at every length the same."""

    def by_text(self, answers: Answers, texts: Sequence[str]) -> dict[str, Summed]:
        """The sums over all tokens of each text; `texts` has one for each sequence."""
        names, index = np.unique(np.array(texts), return_inverse=True)
        tokens, nats, right = (
            np.bincount(index, values.astype(float).sum(1))
            for values in (answers.asked, answers.losses, answers.right)
        )
        return {
            str(name): Summed(int(tokens[place]), float(nats[place]), int(right[place]))
            for place, name in enumerate(names)
        }


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
    # BOS is before the prompt, so every source moves by one.
    origin[:, start:-1] = np.where(predicted & (source >= 0), source + 1, -1)
    segments = np.zeros(shape, np.int64)
    segments[:, start:] = 1
    return Batch(tokens, asked, origin, segments)


def require(condition: bool, sentence: str) -> None:
    """Raise `ConfigError(sentence)` unless the condition holds."""
    if not condition:
        raise ConfigError(sentence)
