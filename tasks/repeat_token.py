"""Repeat a token as often as the prompt does (variant 1 of copying in arXiv 2305.19466)."""

import numpy as np

from posbench.task import FIRST_SYMBOL, Batch, assemble
from posbench.tasks.symbols import Rearranged


class RepeatToken(Rearranged):
    """The prompt is one symbol, drawn from `num_symbols`, n times; the answer is the prompt.

    Examples, n = 3 and n = 5:
        BOS b b b SEP b b b EOS
        BOS a a a a a SEP a a a a a EOS

    There is nothing to look up: the task is to count, and to stop. All sequences of one length
    have the same count, so mostly all of them are right or none, and scores jump between
    lengths and between seeds.
    """

    def __init__(self, num_symbols: int = 16) -> None:
        super().__init__(num_symbols)

    def sample(self, rng: np.random.Generator, n: int, batch_size: int) -> Batch:
        x = np.repeat(rng.integers(FIRST_SYMBOL, self.vocab_size, (batch_size, 1)), n, 1)
        return assemble(x, x, np.ones_like(x, bool), np.broadcast_to(np.arange(n), x.shape))

    def chance(self, n: int) -> float:
        return 1 / self.num_symbols  # knowing the format, you repeat one guess

    def max_distance(self, n: int) -> int:
        return n
