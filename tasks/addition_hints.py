"""Addition with index hints: every digit is announced by a token that says which one it is.

Hints are from arXiv 2310.16028; arXiv 2402.09371 joins them with digits in reverse.
"""

import numpy as np

from posbench.core.task import MARK, Batch, Task, assemble, require
from posbench.tasks.addition import Addition


class AdditionHints(Task):
    """The answer is the sum of two numbers of n digits, and a hint before every digit says which
    one it is.

    Numbers are those of `addition`: least significant digit first, MARK for the plus, and a sum of
    n + 1 digits. Before each digit is a hint. Digits of one significance have the same one, and
    hints follow each other on a ring of `num_hints`. The first is drawn for each sequence, so that
    training has met every hint. Hints of the answer are to be predicted, as its digits are.

    Examples, 3 + 9 and 21 + 80, hints as letters, n = 1 and n = 2:
        BOS c 3 MARK c 9 SEP c 2 d 1 EOS
        BOS f 1 g 2 MARK f 0 g 8 SEP f 1 g 0 h 1 EOS

    A model finds the digits to be added by their hint, wherever they are. With coupled positions,
    as `addition` has them for encodings that ask for such, it would find them by position. Here the
    prompt says it, and every encoding has the same prompt.

    There are at most `num_hints` - 1 digits; ConfigError otherwise.
    """

    def __init__(self, num_hints: int = 64) -> None:
        require(num_hints >= 2, f"task.num_hints must be at least 2; got {num_hints}")
        self.num_hints = num_hints
        self.plain = Addition()
        self.vocab_size = self.plain.vocab_size + num_hints

    def sample(self, rng: np.random.Generator, n: int, batch_size: int) -> Batch:
        self._fits(n)
        digits = self.plain.sample(rng, n, batch_size).tokens
        first = rng.integers(0, self.num_hints, (batch_size, 1))
        hints = self.plain.vocab_size + (first + np.arange(n + 1)) % self.num_hints
        number = 2 * n

        def hinted(start: int, length: int) -> np.ndarray:
            pairs = (hints[:, :length], digits[:, start : start + length])
            return np.stack(pairs, 2).reshape(batch_size, -1)

        prompt = np.full((batch_size, 2 * number + 1), MARK)
        prompt[:, :number], prompt[:, number + 1 :] = hinted(1, n), hinted(n + 2, n)
        answer = hinted(2 * n + 3, n + 1)
        return assemble(prompt, answer, np.ones_like(answer, bool), np.full_like(answer, -1))

    def total_length(self, n: int) -> int:
        self._fits(n)
        return 6 * n + 6

    def answer_length(self, n: int) -> int:
        return 2 * n + 2

    def chance(self, n: int) -> float:
        """The right first hint, from which the others follow, and a sum as in `addition`."""
        return self.plain.chance(n) / self.num_hints

    def max_distance(self, n: int) -> int:
        # This is from any token of the sum to the one that corresponds in the first number.
        return 4 * n + 1

    def _fits(self, n: int) -> None:
        require(
            1 <= n < self.num_hints,
            f"task.num_hints={self.num_hints} is enough for numbers of 1 to {self.num_hints - 1} "
            f"digits, not for n={n}: raise it, or test shorter sequences",
        )
