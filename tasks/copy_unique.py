"""Copy without repeats: every symbol of the string occurs once.

This is copying with unique tokens in arXiv 2310.16028.
"""

import math

import numpy as np

from posbench.base.errors import ConfigError
from posbench.core.task import FIRST_SYMBOL, Batch, assemble
from posbench.tasks.symbols import Rearranged


class CopyUnique(Rearranged):
    """The answer is the prompt, in which no symbol repeats.

    The answer is the prompt, whose symbols are drawn without replacement from `num_symbols`.

    Examples, n = 3 and n = 5:
        BOS c a b SEP c a b EOS
        BOS b e d a c SEP b e d a c EOS

    At every length it is enough to look a symbol up and step on. `num_symbols` must be at least the
    n of the longest test; ConfigError otherwise.
    """

    def __init__(self, num_symbols: int = 64) -> None:
        super().__init__(num_symbols)

    def sample(self, rng: np.random.Generator, n: int, batch_size: int) -> Batch:
        self._fits(n)
        x = FIRST_SYMBOL + rng.random((batch_size, self.num_symbols)).argsort(1)[:, :n]
        return assemble(x, x, np.ones_like(x, bool), np.broadcast_to(np.arange(n), x.shape))

    def total_length(self, n: int) -> int:
        self._fits(n)
        return super().total_length(n)

    def chance(self, n: int) -> float:
        return 1 / math.perm(self.num_symbols, n)

    def max_distance(self, n: int) -> int:
        return n

    def _fits(self, n: int) -> None:
        if n > self.num_symbols:
            raise ConfigError(
                f"{n} symbols without a repeat cannot be drawn from "
                f"task.num_symbols={self.num_symbols}: raise it to the longest test, which is "
                "evaluation.longest times the positions of training, or lower training.max_length"
            )
