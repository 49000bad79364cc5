"""Reverse: repeat a string of random symbols backwards (arXiv 2305.19466; Reverse String of arXiv 2207.02098)."""

import numpy as np

from posbench.task import FIRST_SYMBOL, Batch, Task, assemble, require


class Reverse(Task):
    """The answer is the prompt from its end to its start. Symbols are drawn with replacement from `num_symbols`.

    Examples, n = 3 and n = 5:
        BOS c a b SEP b a c EOS
        BOS b b d a c SEP c a d b b EOS

    Each answer token lies two tokens further from its source than the one before.
    """

    def __init__(self, num_symbols: int = 26) -> None:
        require(num_symbols >= 2, f"task.num_symbols must be at least 2; got {num_symbols}")
        self.num_symbols = num_symbols
        self.vocab_size = FIRST_SYMBOL + num_symbols

    def sample(self, rng: np.random.Generator, n: int, batch_size: int) -> Batch:
        x = rng.integers(FIRST_SYMBOL, self.vocab_size, (batch_size, n))
        return assemble(x, x[:, ::-1], np.ones_like(x, bool), np.broadcast_to(np.arange(n)[::-1], x.shape))

    def total_length(self, n: int) -> int:
        return 2 * n + 3

    def answer_length(self, n: int) -> int:
        return n

    def chance(self, n: int) -> float:
        return float(self.num_symbols) ** -n

    def max_distance(self, n: int) -> int:
        return max(2 * n - 1, 1)
