"""Reverse: repeat a string of random symbols backwards.

The task is from arXiv 2305.19466, and is Reverse String in arXiv 2207.02098.
"""

import numpy as np

from posbench.core.task import FIRST_SYMBOL, Batch, assemble
from posbench.tasks.symbols import Rearranged


class Reverse(Rearranged):
    """The answer is the prompt backwards.

    Symbols are drawn with replacement from `num_symbols`.

    Examples, n = 3 and n = 5:
        BOS c a b SEP b a c EOS
        BOS b b d a c SEP c a d b b EOS

    Each answer token lies two tokens farther from its source than the one before.
    """

    def __init__(self, num_symbols: int = 26) -> None:
        super().__init__(num_symbols)

    def sample(self, rng: np.random.Generator, n: int, batch_size: int) -> Batch:
        x = rng.integers(FIRST_SYMBOL, self.vocab_size, (batch_size, n))
        return assemble(
            x, x[:, ::-1], np.ones_like(x, bool), np.broadcast_to(np.arange(n)[::-1], x.shape)
        )

    def max_distance(self, n: int) -> int:
        return max(2 * n - 1, 1)
