"""The k-th symbol from either end: position alone says which it is."""

from abc import abstractmethod

import numpy as np

from posbench.core.task import FIRST_SYMBOL, Batch, assemble, require
from posbench.tasks.symbols import OneSymbol


class Kth(OneSymbol):
    """Base of both tasks.

    k is a setting, never a token, because an index would be a new symbol at every new length.
    """

    def __init__(self, k: int = 5, num_symbols: int = 16) -> None:
        super().__init__(num_symbols)
        require(k >= 1, f"task.k counts symbols from 1 on; got {k}")
        self.k = k

    @abstractmethod
    def place(self, n: int) -> int:
        """The index, in a prompt of n + k symbols, of the symbol asked for."""

    def sample(self, rng: np.random.Generator, n: int, batch_size: int) -> Batch:
        x = rng.integers(FIRST_SYMBOL, self.vocab_size, (batch_size, n + self.k))
        place = np.full((batch_size, 1), self.place(n))
        return assemble(x, np.take_along_axis(x, place, 1), np.ones((batch_size, 1), bool), place)

    def total_length(self, n: int) -> int:
        return n + self.k + 4

    def max_distance(self, n: int) -> int:
        return n + self.k - self.place(n)


class KthFromStart(Kth):
    """The answer is the k-th symbol of the prompt.

    The prompt has n + k symbols, drawn from `num_symbols`.

    Examples, k = 2 with n = 1 and k = 3 with n = 2:
        BOS c a b SEP a EOS
        BOS b b d a c SEP d EOS

    The source is always at the same place, so a longer prompt puts the query farther from it.
    """

    def place(self, n: int) -> int:
        return self.k - 1


class KthFromEnd(Kth):
    """The answer is the k-th symbol of the prompt, counted from its end.

    The prompt has n + k symbols, drawn from `num_symbols`.

    Examples, k = 2 with n = 1 and k = 3 with n = 2:
        BOS c a b SEP a EOS
        BOS b b d a c SEP d EOS

    The source is k tokens before the query at every length, so a relative encoding has nothing to
    extrapolate and an absolute one has.
    """

    def place(self, n: int) -> int:
        return n
