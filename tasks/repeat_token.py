"""Repeat a token as often as the prompt does (variant 1 of copying in arXiv 2305.19466)."""

from collections.abc import Sequence

import numpy as np

from posbench.core.task import FIRST_SYMBOL, Batch, assemble
from posbench.tasks.symbols import Rearranged


class RepeatToken(Rearranged):
    """The answer is the prompt, which is one symbol n times.

    The prompt is one symbol, drawn from `num_symbols`, n times; the answer is the prompt.

    Examples, n = 3 and n = 5:
        BOS b b b SEP b b b EOS
        BOS a a a a a SEP a a a a a EOS

    There is nothing to look up: the task is to count, and to stop. All sequences of one length
    have the same count, so mostly all of them are right or none. A test of length n therefore asks
    for every count from .88 n to 1.12 n (rounded), and at the training length for those from .88 n
    up to n, because no larger one was trained. Each count is asked for with every symbol: a test
    enumerates its sequences, and the number of samples does not matter to it. Of more than
    `MOST_COUNTS` counts (none up to n = 162), as many are taken at even steps.
    """

    version = 2
    MOST_COUNTS = 40

    def __init__(self, num_symbols: int = 16) -> None:
        super().__init__(num_symbols)

    def sample(self, rng: np.random.Generator, n: int, batch_size: int) -> Batch:
        return repeated(rng.integers(FIRST_SYMBOL, self.vocab_size, batch_size), n)

    def tested(self, n: int, trained: int) -> Sequence[int]:
        """The counts near n, ascending."""
        # The lowest count in whole hundredths: .88 n as a float may be just above a whole number.
        low, high = (-(-88 * n // 100), n) if n == trained else (round(0.88 * n), round(1.12 * n))
        steps = min(high - low, self.MOST_COUNTS - 1)
        return [low + (high - low) * step // max(steps, 1) for step in range(steps + 1)]

    def tests(self, n: int, trained: int, num_samples: int, *stream: str | int) -> list[Batch]:
        """Each count with each symbol, once; nothing is drawn, so `num_samples` is ignored."""
        symbols = np.arange(FIRST_SYMBOL, self.vocab_size)
        return [repeated(symbols, count) for count in self.tested(n, trained)]

    def chance(self, n: int) -> float:
        return 1 / self.num_symbols  # knowing the format, you repeat one guess

    def max_distance(self, n: int) -> int:
        return n


def repeated(symbols: np.ndarray, n: int) -> Batch:
    """A sequence for each symbol, n times."""
    x = np.repeat(symbols[:, None], n, 1)
    return assemble(x, x, np.ones_like(x, bool), np.broadcast_to(np.arange(n), x.shape))
