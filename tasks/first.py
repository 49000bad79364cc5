"""First: the prompt's first symbol. A smoke test that nearly everything solves at any length."""

import numpy as np

from posbench.core.task import FIRST_SYMBOL, Batch, assemble
from posbench.tasks.symbols import OneSymbol


class First(OneSymbol):
    """The answer is the first symbol of the prompt.

    The answer is the first of n + 1 symbols, drawn with replacement from `num_symbols`.

    Examples, n = 2 and n = 4:
        BOS c a b SEP c EOS
        BOS b b d a c SEP b EOS
    """

    def __init__(self, num_symbols: int = 16) -> None:
        super().__init__(num_symbols)

    def sample(self, rng: np.random.Generator, n: int, batch_size: int) -> Batch:
        x = rng.integers(FIRST_SYMBOL, self.vocab_size, (batch_size, n + 1))
        return assemble(x, x[:, :1], np.ones((batch_size, 1), bool), np.zeros((batch_size, 1), int))

    def total_length(self, n: int) -> int:
        return n + 5

    def max_distance(self, n: int) -> int:
        return n + 1
