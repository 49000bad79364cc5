"""Addition of two numbers of n digits, least significant digit first.

It is studied in arXiv 2402.09371, 2405.17399 and 2405.20671.
"""

from dataclasses import replace

import numpy as np

from posbench.core.task import FIRST_SYMBOL, MARK, Batch, Task, assemble


class Addition(Task):
    """The answer is the sum of two numbers of n digits.

    The prompt is two numbers of n digits, with MARK for the plus; the answer is their sum in
    n + 1 digits. All are written with the least significant digit first, so that a carry is
    known when it is needed.

    Examples, 3 + 9 and 21 + 80, n = 1 and n = 2:
        BOS 3 MARK 9 SEP 2 1 EOS
        BOS 1 2 MARK 0 8 SEP 1 0 1 EOS

    Digits of one significance share a coupled id, and "within" counts the digits of each number.
    """

    ids = frozenset({"coupled", "within"})

    def __init__(self) -> None:
        self.vocab_size = FIRST_SYMBOL + 10

    def sample(self, rng: np.random.Generator, n: int, batch_size: int) -> Batch:
        numbers = rng.integers(0, 10, (2, batch_size, n))
        total = np.zeros((batch_size, n + 1), int)
        for digit in range(n):
            column = numbers[0, :, digit] + numbers[1, :, digit] + total[:, digit]
            total[:, digit], total[:, digit + 1] = column % 10, column // 10
        plus = np.full((batch_size, 1), MARK)
        prompt = np.concatenate((FIRST_SYMBOL + numbers[0], plus, FIRST_SYMBOL + numbers[1]), 1)
        batch = assemble(
            prompt, FIRST_SYMBOL + total, np.ones_like(total, bool), np.full_like(total, -1)
        )
        count = list(range(1, n + 1))
        # The query for a digit is the token before it, so SEP has the id 0, like BOS and the plus:
        # a number begins after each of them.
        kinds = {
            "coupled": [0, *count, 0, *count, 0, *count, n + 1, n + 2],
            "within": [0, *count, 0, *count, 0, *count, n + 1, 0],
        }
        ids = {
            kind: np.broadcast_to(np.array(values), batch.tokens.shape)
            for kind, values in kinds.items()
        }
        return replace(batch, ids=ids)

    def total_length(self, n: int) -> int:
        return 3 * n + 5

    def answer_length(self, n: int) -> int:
        return n + 1

    def chance(self, n: int) -> float:
        """The probability that two random sums agree.

        They must agree in the last n digits and then in the leading one. Of the $N = 10^n$ pairs of
        numbers whose sum ends in the digits r, r + 1 have the leading digit 0.
        """
        each = 10.0**-n  # 1 / N, which never overflows
        # Means over r: the probability of a leading 0, and its square.
        zero, zero_squared = (1 + each) / 2, (1 + each) * (2 + each) / 6
        return (1 - 2 * zero + 2 * zero_squared) * each

    def max_distance(self, n: int) -> int:
        return 2 * n + 1
