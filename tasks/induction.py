"""Induction: which symbol followed the mark before? (arXiv 2312.00752, 2209.11895)."""

import numpy as np

from posbench.core.task import FIRST_SYMBOL, MARK, Batch, assemble
from posbench.tasks.symbols import OneSymbol


class Induction(OneSymbol):
    """One symbol of the prompt follows a mark; the mark comes again, and the answer is that symbol.

    MARK and a symbol after it are at a random place among n symbols. MARK is given again, and
    the answer is that symbol. All symbols are drawn with replacement from the same `num_symbols`.

    Examples, n = 2 and n = 4:
        BOS a MARK b c SEP MARK b EOS
        BOS c b MARK c a a SEP MARK c EOS
    """

    def __init__(self, num_symbols: int = 16) -> None:
        super().__init__(num_symbols)

    def sample(self, rng: np.random.Generator, n: int, batch_size: int) -> Batch:
        prompt = rng.integers(FIRST_SYMBOL, self.vocab_size, (batch_size, n + 2))
        place = rng.integers(0, n + 1, (batch_size, 1))
        np.put_along_axis(prompt, place, MARK, 1)
        answer = np.concatenate(
            (np.full((batch_size, 1), MARK), np.take_along_axis(prompt, place + 1, 1)), 1
        )
        predicted = np.broadcast_to([False, True], answer.shape)
        return assemble(prompt, answer, predicted, np.repeat(place + 1, 2, 1))

    def total_length(self, n: int) -> int:
        return n + 7

    def max_distance(self, n: int) -> int:
        return n + 2
