"""Language: a random text with statistics of its own, measured by its loss.

arXiv 2108.12409 measures the same on WikiText.
"""

import functools
from dataclasses import replace

import numpy as np

from posbench.core.streams import stream_seed
from posbench.core.task import FIRST_SYMBOL, Answers, Batch, assemble, require
from posbench.tasks.symbols import Symbols


class Language(Symbols):
    r"""Texts of a Markov chain whose transition table is the same for every text.

    Each symbol depends on the `order` symbols before it. The table of conditional probabilities
    is the same for every text: each row is drawn once from a symmetric Dirichlet distribution,
    which a small `concentration` makes peaked. The prompt is empty, and all of the n + `order`
    symbols are to be predicted; EOS is not, because nothing announces it.

    Examples, order 1 with n = 2 and order 2 with n = 3:
        BOS SEP a b d EOS
        BOS SEP c a b d a EOS

    What counts is the loss $\ell$, in nats per symbol. The score is the explained share of what can
    be known, $(\ln V - \ell) / (\ln V - H)$, clipped to -1 and 1: V is `num_symbols` and H the
    entropy of the source, which is the least possible loss. The last few symbols are enough to
    predict a text, so nothing need be carried far: an encoding that forgets the distant past does
    well here, and badly where something must be looked up.
    """

    measure = "share of the source explained"

    def __init__(self, num_symbols: int = 16, order: int = 2, concentration: float = 0.1) -> None:
        super().__init__(num_symbols)
        require(
            order >= 1,
            f"task.order is how many symbols the next depends on, at least 1; got {order}",
        )
        require(concentration > 0, f"task.concentration must be positive; got {concentration}")
        require(
            num_symbols ** (order + 1) <= MOST_ENTRIES,
            f"task.num_symbols={num_symbols} and task.order={order} give a table of "
            f"{num_symbols ** (order + 1)} entries, more than {MOST_ENTRIES}: lower either",
        )
        self.order = order
        self.source = Source.drawn(num_symbols, order, concentration)

    def sample(self, rng: np.random.Generator, n: int, batch_size: int) -> Batch:
        x = FIRST_SYMBOL + self.source.sample(rng, n + self.order, batch_size)
        empty = np.zeros((batch_size, 0), int)
        batch = assemble(empty, x, np.ones_like(x, bool), np.full_like(x, -1))
        asked = batch.answer.copy()
        asked[:, -1] = False
        return replace(batch, answer=asked)

    def total_length(self, n: int) -> int:
        return n + self.order + 3

    def answer_length(self, n: int) -> int:
        return n + self.order

    def chance(self, n: int) -> float:
        return 0.0

    def max_distance(self, n: int) -> int:
        # The query is at the latest symbol of the context.
        return self.order - 1

    def least_loss(self, n: int) -> float:
        """The least possible loss, nats per symbol: H, and slightly more for the first symbols."""
        return self.source.entropy(n + self.order) / (n + self.order)

    def score(self, batch: Batch, answers: Answers) -> float:
        """The share of the source that is explained: 0 for a guess, below it for worse ones."""
        n = batch.tokens.shape[1] - self.total_length(0)
        guess = float(np.log(self.num_symbols))
        return float(np.clip((guess - answers.mean_loss) / (guess - self.least_loss(n)), -1, 1))


MOST_ENTRIES = 2**18


class Source:
    """A stationary Markov chain of order `order`.

    `table` [V^order, V] holds the probability of the next symbol after each context. A context is
    read as a number with base V, with the latest symbol as its last digit.
    """

    def __init__(self, table: np.ndarray, order: int) -> None:
        self.table = table
        self.order = order
        self.cumulative = table.cumsum(1)
        self.num_contexts, self.num_symbols = table.shape
        self.stationary = self._stationary()

    @classmethod
    @functools.cache
    def drawn(cls, num_symbols: int, order: int, concentration: float) -> "Source":
        seed = stream_seed("language", num_symbols, order, f"{concentration:g}")
        rows = np.random.default_rng(seed).dirichlet(
            np.full(num_symbols, concentration), num_symbols**order
        )
        # A little of the uniform distribution makes every text possible: no context is a dead end.
        return cls(0.99 * rows + 0.01 / num_symbols, order)

    def _stationary(self) -> np.ndarray:
        """The distribution of contexts, [V^order], that one step leaves unchanged."""
        share = np.full(self.num_contexts, 1 / self.num_contexts)
        while True:
            # A step forgets a context's oldest symbol and makes the new one its latest.
            after = (
                (share[:, None] * self.table)
                .reshape(self.num_symbols, -1, self.num_symbols)
                .sum(0)
                .reshape(-1)
            )
            if np.abs(after - share).max() < 1e-14:
                return after / after.sum()
            share = after

    def sample(self, rng: np.random.Generator, length: int, batch_size: int) -> np.ndarray:
        """Texts [batch, length], `length` at least `order`.

        They start from the stationary distribution.
        """
        context = rng.choice(self.num_contexts, batch_size, p=self.stationary)
        text = np.empty((batch_size, length), int)
        for place in range(self.order):
            text[:, place] = (
                context // self.num_symbols ** (self.order - 1 - place) % self.num_symbols
            )
        for place in range(self.order, length):
            later = rng.random((batch_size, 1)) > self.cumulative[context]
            # The sum of the probabilities may fall short of 1.
            text[:, place] = np.minimum(later.sum(1), self.num_symbols - 1)
            context = (context * self.num_symbols + text[:, place]) % self.num_contexts
        return text

    def entropy(self, length: int) -> float:
        """The entropy of a text, in nats: its first `order` symbols, then H for each later one."""
        start = -(self.stationary * np.log(self.stationary)).sum()
        each = -(self.stationary[:, None] * self.table * np.log(self.table)).sum()
        return float(start + (length - self.order) * each)
