"""Sort: repeat random symbols in their order.

The task is from arXiv 2305.19466, and is Bucket Sort in arXiv 2207.02098.
"""

import functools
import math

import numpy as np

from posbench.core.task import FIRST_SYMBOL, Batch, assemble
from posbench.tasks.symbols import Rearranged


class Sort(Rearranged):
    """The answer is the prompt, sorted.

    Symbols are drawn with replacement from `num_symbols`.

    Examples, n = 3 and n = 5:
        BOS c a b SEP a b c EOS
        BOS b d a b c SEP a b b c d EOS

    It does not matter where a symbol is, but it does matter how often it occurs.
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
    r"""The probability that two draws of n from `symbols` symbols are equal up to order.

    If every symbol occurs k times with the Poisson probability $p_k$ of a mean
    $\lambda = n / V$, then given that the total is n, the counts are those of a draw. So the sum
    over all counts of the squared probability of a draw is that of $\prod p_k^2$, which is a
    V-fold convolution, divided by the squared probability of the total.
    """
    mean = max(n, 1) / symbols
    of_one = poisson(mean, n) ** 2
    agree = of_one
    for _ in range(symbols - 1):
        agree = np.convolve(agree, of_one)[: n + 1]
    return float(agree[n] / poisson(mean * symbols, n)[n] ** 2)


def poisson(mean: float, most: int) -> np.ndarray:
    """The Poisson probabilities of 0, 1, ..., `most`."""
    logs = [k * math.log(mean) - mean - math.lgamma(k + 1) for k in range(most + 1)]
    return np.exp(logs)
