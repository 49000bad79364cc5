"""Selective copy: repeat the symbols that are among noise (arXiv 2312.00752, 2403.17844)."""

import numpy as np

from posbench.core.task import FIRST_SYMBOL, NOISE, Batch, assemble, require
from posbench.tasks.symbols import Symbols


class SelectiveCopy(Symbols):
    """The answer is the few symbols that are scattered among noise, in their order.

    `num_data` symbols are scattered over n + `num_data` places, and NOISE fills the others;
    the answer is the symbols in their order. n counts the noise, so the answer keeps its length
    while the prompt grows.

    Examples, 2 symbols with n = 3 and 3 symbols with n = 4:
        BOS . b . . a SEP b a EOS
        BOS c . a . . . c SEP c a c EOS
    """

    def __init__(self, num_data: int = 6, num_symbols: int = 16) -> None:
        require(
            num_data >= 1,
            f"task.num_data is the number of symbols to copy, at least 1; got {num_data}",
        )
        super().__init__(num_symbols)
        self.num_data = num_data

    def sample(self, rng: np.random.Generator, n: int, batch_size: int) -> Batch:
        cells = n + self.num_data
        x = rng.integers(FIRST_SYMBOL, self.vocab_size, (batch_size, self.num_data))
        # The sorted places of a random subset: the smallest of `cells` random keys choose it.
        places = np.sort(rng.random((batch_size, cells)).argsort(1)[:, : self.num_data], 1)
        prompt = np.full((batch_size, cells), NOISE)
        np.put_along_axis(prompt, places, x, 1)
        return assemble(prompt, x, np.ones_like(x, bool), places)

    def total_length(self, n: int) -> int:
        return n + 2 * self.num_data + 3

    def answer_length(self, n: int) -> int:
        return self.num_data

    def chance(self, n: int) -> float:
        return float(self.num_symbols) ** -self.num_data

    def max_distance(self, n: int) -> int:
        # If all noise follows the symbols, every query is this far from its source.
        return n + self.num_data
