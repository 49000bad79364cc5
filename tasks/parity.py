"""Parity: is the number of ones odd? (arXiv 2207.02098, 2305.19466)."""

import numpy as np

from posbench.core.task import FIRST_SYMBOL, Batch, Task, assemble


class Parity(Task):
    """The answer says whether the number of ones in the prompt is odd.

    The answer is 1 if the prompt, n + 1 zeros and ones, holds an odd number of ones, else 0.

    Examples, n = 2 and n = 4:
        BOS 1 0 1 SEP 0 EOS
        BOS 1 1 0 1 0 SEP 1 EOS

    Every token counts, wherever it is. Small transformers do not learn the task at lengths too
    long to be memorised, so it shows what an encoding cannot be blamed for.
    """

    def __init__(self) -> None:
        self.vocab_size = FIRST_SYMBOL + 2

    def sample(self, rng: np.random.Generator, n: int, batch_size: int) -> Batch:
        x = rng.integers(0, 2, (batch_size, n + 1))
        answer = x.sum(1, keepdims=True) % 2
        return assemble(
            FIRST_SYMBOL + x,
            FIRST_SYMBOL + answer,
            np.ones_like(answer, bool),
            np.full((batch_size, 1), -1),
        )

    def total_length(self, n: int) -> int:
        return n + 5

    def answer_length(self, n: int) -> int:
        return 1

    def chance(self, n: int) -> float:
        return 0.5

    def max_distance(self, n: int) -> int:
        return n + 1
