"""Sort: repeat random symbols in their order.

The task is from arXiv 2305.19466, and is Bucket Sort in arXiv 2207.02098.
"""

import functools
import math

import numpy as np

from posbench.task import FIRST_SYMBOL, Batch, assemble
from posbench.tasks.symbols import Rearranged


class Sort(Rearranged):
    """The answer is the prompt, sorted. Symbols are drawn with replacement from `num_symbols`.

    Examples, n = 3 and n = 5:
        BOS c a b SEP a b c EOS
        BOS b d a b c SEP a b b c d EOS

    It does not matter where a symbol stands, but it does matter how often it occurs.
    """

    def __init__(self, num_symbols: int = 16) -> None:
        super().__init__(num_symbols)

    def sample(self, rng: np.random.Generator, n: int, batch_size: int) -> Batch:
        x = rng.integers(FIRST_SYMBOL, self.vocab_size, (batch_size, n))
        order = x.argsort(1, kind="stable")
        return assemble(x, np.take_along_axis(x, order, 1), np.ones_like(x, bool), order)

    def chance(self, n: int) -> float:
        """The probability that two draws of n symbols hold every symbol equally often."""
        return agreement(n, self.num_symbols)

    def max_distance(self, n: int) -> int:
        return max(2 * n - 1, 1)


@functools.cache
def agreement(n: int, symbols: int) -> float:
    """The probability that two draws of n from `symbols` symbols are equal up to order."""
    agree = np.ones(n + 1)  # entry j: for j draws from the first symbol alone
    # Add a symbol at a time: both draws hold it k times, and their other j - k symbols agree.
    for size in range(2, symbols + 1):

        def both(j: int, k: int, share: float = 1 / size) -> float:
            return (math.comb(j, k) * share**k * (1 - share) ** (j - k)) ** 2

        agree = np.array(
            [sum(both(j, k) * agree[j - k] for k in range(j + 1)) for j in range(n + 1)]
        )
    return float(agree[n])
