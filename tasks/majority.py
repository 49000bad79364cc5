"""Majority: which of two symbols is more frequent? A smoke test that needs no position."""

import numpy as np

from posbench.core.task import FIRST_SYMBOL, Batch, Task, assemble


class Majority(Task):
    """The answer is the more frequent of two symbols.

    The answer is the more frequent of two symbols in a prompt of 2 n + 1, so there are no ties.

    Examples, n = 1 and n = 2:
        BOS a b b SEP b EOS
        BOS b a a b a SEP a EOS
    """

    def __init__(self) -> None:
        self.vocab_size = FIRST_SYMBOL + 2

    def sample(self, rng: np.random.Generator, n: int, batch_size: int) -> Batch:
        x = rng.integers(0, 2, (batch_size, 2 * n + 1))
        answer = (x.sum(1, keepdims=True) > n).astype(int)
        return assemble(
            FIRST_SYMBOL + x,
            FIRST_SYMBOL + answer,
            np.ones_like(answer, bool),
            np.full((batch_size, 1), -1),
        )

    def total_length(self, n: int) -> int:
        return 2 * n + 5

    def answer_length(self, n: int) -> int:
        return 1

    def chance(self, n: int) -> float:
        return 0.5

    def max_distance(self, n: int) -> int:
        return 2 * n + 1
