"""Key-value retrieval: pairs among filler, and questions for some of their keys.

The task follows arXiv 2307.03172 and 2312.04927.
"""

import math

import numpy as np

from posbench.core.task import FIRST_SYMBOL, MARK, Answers, Batch, assemble, require
from posbench.tasks.symbols import Symbols


class KeyValueRetrieval(Symbols):
    r"""The prompt holds n pairs of a key and a value; the answer is the values of the keys that are
    asked for.

    A pair is MARK, a key of two symbols and its value. n pairs are in random order among
    n / 2 filler symbols (rounded up). The answer part asks `num_questions` times for a key, drawn
    with replacement, and the model must give the value after it. Keys, values and filler use the
    same `num_symbols`.

    Examples, 2 questions with n = 3, and 1 question with n = 1:
        BOS c MARK m l m e MARK j l m MARK h c e SEP MARK h c e MARK j l m EOS
        BOS MARK b d a c SEP MARK b d a EOS

    Keys are different cells of an s x s grid, $s = \lceil\sqrt n\rceil + 1$, whose rows are s
    different symbols, and so are its columns. So about n / s keys have the same first symbol,
    and as many the same second: neither symbol alone finds a key, and near misses grow with n. The
    grid needs s <= `num_symbols`, so there are at most (`num_symbols` - 1)^2 pairs; ConfigError
    otherwise.

    The score is the share of questions answered: all of them together fail early for every
    encoding. Whoever gives any value of the prompt, and looks up no key, is right in $1/n$ of them
    and, by luck, in one of `num_symbols` of the others: more than `chance`.
    """

    version = 2
    measure = "share of questions"

    def __init__(self, num_symbols: int = 16, num_questions: int = 6) -> None:
        super().__init__(num_symbols)
        require(
            num_questions >= 1,
            f"task.num_questions is how many keys are asked for, at least 1; got {num_questions}",
        )
        self.num_questions = num_questions

    def sample(self, rng: np.random.Generator, n: int, batch_size: int) -> Batch:
        self._fits(n)
        symbols, side, filler = self.num_symbols, grid_side(n), self._filler(n)
        rows, columns = rng.random((2, batch_size, symbols)).argsort(2)[:, :, :side]
        cells = rng.random((batch_size, side**2)).argsort(1)[:, :n]
        values = rng.integers(0, symbols, (batch_size, n))
        keys = [
            np.take_along_axis(of, at, 1)
            for of, at in ((rows, cells // side), (columns, cells % side))
        ]
        mark = np.full((batch_size, n), MARK)
        pairs = np.stack((mark, *(FIRST_SYMBOL + each for each in (*keys, values))), 2)

        prompt = rng.integers(FIRST_SYMBOL, self.vocab_size, (batch_size, 4 * n + filler))
        # Choose which of the n + filler units are pairs; every pair before a unit moves it three
        # tokens further.
        units = np.sort(rng.random((batch_size, n + filler)).argsort(1)[:, :n], 1)
        marks = units + 3 * np.arange(n)
        places = (marks[:, :, None] + np.arange(4)).reshape(batch_size, 4 * n)
        np.put_along_axis(prompt, places, pairs.reshape(batch_size, 4 * n), 1)

        asked = rng.integers(0, n, (batch_size, self.num_questions))
        answer = np.take_along_axis(pairs, asked[:, :, None], 1).reshape(batch_size, -1)
        source = np.repeat(np.take_along_axis(marks, asked, 1) + 3, 4, 1)
        predicted = np.broadcast_to(np.arange(answer.shape[1]) % 4 == 3, answer.shape)
        return assemble(prompt, answer, predicted, source)

    def score(self, batch: Batch, answers: Answers) -> float:
        """The share of questions answered with the right value."""
        return float(answers.symbols.mean())

    def total_length(self, n: int) -> int:
        self._fits(n)
        return 4 * n + self._filler(n) + 4 * self.num_questions + 3

    def answer_length(self, n: int) -> int:
        return self.num_questions

    def chance(self, n: int) -> float:
        return 1 / self.num_symbols

    def max_distance(self, n: int) -> int:
        # This is from the last question to the value of a pair at the very start.
        return self.total_length(n) - 7

    def _filler(self, n: int) -> int:
        return (n + 1) // 2

    def _fits(self, n: int) -> None:
        require(n >= 1, f"a question needs a pair to ask for, so n must be at least 1; got {n}")
        most = (self.num_symbols - 1) ** 2
        require(
            n <= most,
            f"task.num_symbols={self.num_symbols} gives keys for at most {most} pairs, not for "
            f"n={n}: raise it, or test shorter sequences",
        )


def grid_side(n: int) -> int:
    """The square root of n, rounded up, and one more."""
    return math.isqrt(n - 1) + 2
