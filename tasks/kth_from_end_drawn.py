"""The k-th symbol from the end, where every prompt says its own k.

The task with one k for all sequences is `posbench.tasks.kth.KthFromEnd`.
"""

import numpy as np

from posbench.core.task import FIRST_SYMBOL, Batch, assemble, require
from posbench.tasks.symbols import Symbols


class KthFromEndDrawn(Symbols):
    """The answer is the k-th symbol from the end of a string, and the prompt ends with k.

    The string has n + `largest_k` symbols, drawn from `num_symbols`. After it comes k, which is
    drawn from 1 to `largest_k` and has a symbol of its own for every value.

    Examples, k up to 2 with n = 1 and k up to 3 with n = 2:
        BOS c a b 2 SEP a EOS
        BOS b b d a c 1 SEP c EOS

    The source is k + 1 tokens before the query at every length. With one k for all sequences, as in
    `kth_from_end`, a model needs one offset, and two convolutions of four tokens reach an offset of
    five by their construction. Here it needs `largest_k` offsets, and has to choose by what it
    reads. Every k occurs in training, so no length brings a new symbol.
    """

    def __init__(self, largest_k: int = 12, num_symbols: int = 16) -> None:
        super().__init__(num_symbols)
        require(largest_k >= 1, f"task.largest_k counts symbols from 1 on; got {largest_k}")
        self.largest_k = largest_k
        self.vocab_size += largest_k

    def sample(self, rng: np.random.Generator, n: int, batch_size: int) -> Batch:
        x = rng.integers(0, self.num_symbols, (batch_size, n + self.largest_k))
        k = rng.integers(1, self.largest_k + 1, (batch_size, 1))
        place = x.shape[1] - k
        prompt = FIRST_SYMBOL + np.concatenate((x, self.num_symbols + k - 1), 1)
        answer = np.take_along_axis(prompt, place, 1)
        return assemble(prompt, answer, np.ones_like(answer, bool), place)

    def total_length(self, n: int) -> int:
        return n + self.largest_k + 5

    def answer_length(self, n: int) -> int:
        return 1

    def chance(self, n: int) -> float:
        """One of the symbols, each as likely: $1 / V$ with V = `num_symbols`."""
        return 1 / self.num_symbols

    def max_distance(self, n: int) -> int:
        # SEP is the query, and k is between it and the string.
        return self.largest_k + 1
