"""In-context language: every text has statistics of its own, to be learned from the text itself.

arXiv 2402.11004 trains on such chains, and describes how transformers come to count pairs.
"""

from dataclasses import replace

import numpy as np

from posbench.core.task import FIRST_SYMBOL, Answers, Batch, assemble, require
from posbench.tasks.symbols import Symbols


class InContextLanguage(Symbols):
    r"""Texts of a Markov chain whose transition table is drawn anew for every text.

    Each symbol depends on the one before it, by a table of conditional probabilities that is
    drawn anew for every text: its rows come from a symmetric Dirichlet distribution, which a small
    `concentration` makes peaked. The first symbol is any of `num_symbols` with the same
    probability. The prompt is empty, and all n symbols are to be predicted; EOS is not, because
    nothing announces it.

    Examples, n = 5 and n = 8:
        BOS SEP a d a d b EOS
        BOS SEP c c b a c c c b EOS

    Who does not know the table can do no better than Bayes, who counts: after a, the symbol b has
    the probability $(N_{ab} + \alpha) / (N_a + V \alpha)$, where $N_{ab}$ is how often b followed a
    so far, $N_a$ the sum of these, $\alpha$ the concentration and V `num_symbols`. All of the past
    is of use, and the more of it the better.

    What counts is the loss $\ell$, in nats per symbol. The score is
    $(\ell_w - \ell) / (\ell_w - \ell_B)$, clipped to -1 and 1: $\ell_B$ is the loss of Bayes, and
    $\ell_w$ that of Bayes with a window, who counts only the last `window` symbols before the
    query. By default that is a quarter of the longest training text, 48. Both are computed on the
    texts that the model was tested on. So 0 is the best that can be done with the near past, and
    1 the best there is.
    """

    measure = "share of what the far past tells"
    gate = 0.90

    def __init__(self, num_symbols: int = 16, concentration: float = 0.1, window: int = 12) -> None:
        super().__init__(num_symbols)
        require(concentration > 0, f"task.concentration must be positive; got {concentration}")
        require(
            window >= 1,
            "task.window is how many symbols the score takes to be the near past, at least 1; got "
            f"{window}",
        )
        self.concentration = concentration
        self.window = window

    def sample(self, rng: np.random.Generator, n: int, batch_size: int) -> Batch:
        text = np.empty((batch_size, n), int)
        text[:, 0] = rng.integers(0, self.num_symbols, batch_size)
        counts = Counts(batch_size, self.num_symbols)
        # No table is drawn: the probability of a symbol, averaged over all tables that the text so
        # far leaves open, is that of Bayes. Texts drawn by it have exactly the distribution of
        # those that follow tables, and no row can underflow.
        for place in range(1, n):
            before = text[:, place - 1]
            cumulative = (counts.after(before) + self.concentration).cumsum(1)
            later = rng.random((batch_size, 1)) * cumulative[:, -1:] >= cumulative
            text[:, place] = later.sum(1)
            counts.add(before, text[:, place])
        x, empty = FIRST_SYMBOL + text, np.zeros((batch_size, 0), int)
        batch = assemble(empty, x, np.ones_like(x, bool), np.full_like(x, -1))
        asked = batch.answer.copy()
        asked[:, -1] = False
        return replace(batch, answer=asked)

    def total_length(self, n: int) -> int:
        require(n >= 1, f"a text must have a symbol, so n must be at least 1; got {n}")
        return n + 3

    def answer_length(self, n: int) -> int:
        return n

    def chance(self, n: int) -> float:
        """The score of Bayes with a window. A blind guess has less than that."""
        return 0.0

    def max_distance(self, n: int) -> int:
        # This is from the last symbol but one to the first, which begins the first pair to count.
        return max(n - 2, 0)

    def score(self, batch: Batch, answers: Answers) -> float:
        """The share of what the past beyond the window tells; 0 where it tells nothing."""
        near, all_of_it = self.reference(batch, self.window), self.reference(batch)
        return share(answers.mean_loss, near, all_of_it)

    def proficiency(self, batch: Batch, answers: Answers) -> float:
        """The share of all that the text tells: 0 for a guess, 1 for Bayes."""
        guess = float(np.log(self.num_symbols))
        return share(answers.mean_loss, guess, self.reference(batch))

    def reference(self, batch: Batch, window: int | None = None) -> float:
        """The mean loss of Bayes on these texts, nats per symbol.

        With a window, only the last `window` symbols before a query are counted, besides the
        query's own.
        """
        return float(self.surprise(batch, window).mean())

    def surprise(self, batch: Batch, window: int | None = None) -> np.ndarray:
        """What Bayes loses at each symbol, [batch, n], in nats."""
        text = batch.tokens[:, 2:-1] - FIRST_SYMBOL
        counts = Counts(len(text), self.num_symbols)
        lost = np.full(text.shape, np.log(self.num_symbols))
        for place in range(1, text.shape[1]):
            before, symbol = text[:, place - 1], text[:, place]
            seen = counts.after(before)
            found = np.take_along_axis(seen, symbol[:, None], 1)[:, 0]
            lost[:, place] = np.log(seen.sum(1) + self.num_symbols * self.concentration)
            lost[:, place] -= np.log(found + self.concentration)
            counts.add(before, symbol)
            if window is not None and place > window:
                counts.add(text[:, place - window - 1], text[:, place - window], -1)
        return lost


class Counts:
    """How often each symbol followed each other, in each of several texts."""

    def __init__(self, batch_size: int, num_symbols: int) -> None:
        self.pairs = np.zeros((batch_size, num_symbols, num_symbols), int)
        self.texts = np.arange(batch_size)

    def after(self, before: np.ndarray) -> np.ndarray:
        """How often each symbol followed the one in `before`, [batch, V]."""
        return self.pairs[self.texts, before]

    def add(self, before: np.ndarray, symbol: np.ndarray, times: int = 1) -> None:
        self.pairs[self.texts, before, symbol] += times


def share(loss: float, chance: float, best: float) -> float:
    """Where a loss lies between that of chance, 0, and the best, 1; clipped to -1 and 1."""
    if chance <= best:
        return 0.0
    return float(np.clip((chance - loss) / (chance - best), -1, 1))
