"""Missing duplicate: which symbol does one of two copies lack? (arXiv 2207.02098, 2305.16843)."""

import numpy as np

from posbench.core.task import FIRST_SYMBOL, MARK, Batch, assemble
from posbench.tasks.symbols import OneSymbol


class MissingDuplicate(OneSymbol):
    """The prompt is a string twice, with one symbol of one copy missing; the answer is that symbol.

    The prompt is a string of n + 1 symbols, twice, with MARK in place of one symbol of either
    copy. The answer is that symbol. Symbols are drawn with replacement from `num_symbols`.

    Examples, n = 1 and n = 2:
        BOS b a MARK a SEP b EOS
        BOS a MARK b a a b SEP a EOS

    The source lies n + 1 tokens before or after the mark, a distance that grows with the length.
    Counting gives it as well: only the missing symbol is there an odd number of times.
    """

    def __init__(self, num_symbols: int = 16) -> None:
        super().__init__(num_symbols)

    def sample(self, rng: np.random.Generator, n: int, batch_size: int) -> Batch:
        x = rng.integers(FIRST_SYMBOL, self.vocab_size, (batch_size, n + 1))
        prompt = np.concatenate((x, x), 1)
        place = rng.integers(0, 2 * (n + 1), (batch_size, 1))
        answer = np.take_along_axis(prompt, place, 1)
        np.put_along_axis(prompt, place, MARK, 1)
        return assemble(
            prompt, answer, np.ones((batch_size, 1), bool), (place + n + 1) % (2 * (n + 1))
        )

    def total_length(self, n: int) -> int:
        return 2 * n + 6

    def max_distance(self, n: int) -> int:
        return 2 * (n + 1)
