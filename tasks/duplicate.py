"""Duplicate: repeat a string of random symbols twice (Duplicate String of arXiv 2207.02098)."""

import numpy as np

from posbench.core.task import FIRST_SYMBOL, Batch, assemble
from posbench.tasks.symbols import Symbols


class Duplicate(Symbols):
    """The answer is the prompt twice.

    Symbols are drawn with replacement from `num_symbols`.

    Examples, n = 2 and n = 3:
        BOS c a SEP c a c a EOS
        BOS b b d SEP b b d b b d EOS

    Both copies count the prompt as their source, although the second could be read off the first;
    the copies differ in where to stop.
    """

    def __init__(self, num_symbols: int = 26) -> None:
        super().__init__(num_symbols)

    def sample(self, rng: np.random.Generator, n: int, batch_size: int) -> Batch:
        x = rng.integers(FIRST_SYMBOL, self.vocab_size, (batch_size, n))
        answer = np.concatenate((x, x), 1)
        return assemble(
            x,
            answer,
            np.ones_like(answer, bool),
            np.broadcast_to(np.tile(np.arange(n), 2), answer.shape),
        )

    def total_length(self, n: int) -> int:
        return 3 * n + 3

    def answer_length(self, n: int) -> int:
        return 2 * n

    def chance(self, n: int) -> float:
        return float(self.num_symbols) ** -n

    def max_distance(self, n: int) -> int:
        return 2 * n
