"""Lookup by a run of symbols: what follows the key in the one place where it occurs?

Both tasks are from arXiv 2402.01032.
"""

from abc import abstractmethod

import numpy as np

from posbench.core.task import FIRST_SYMBOL, MARK, Batch, Task, assemble, require


class Lookup(Task):
    """Base of both tasks: a key, and a string in which it occurs once.

    The string has n symbols besides the key and the answer.
    """

    def __init__(self, key_length: int = 2, num_answers: int = 4, num_symbols: int = 26) -> None:
        require(
            key_length >= 1,
            f"task.key_length is the number of symbols of the key, at least 1; got {key_length}",
        )
        require(
            num_answers >= 1,
            "task.num_answers is what follows the key and is asked for, at least 1; got "
            f"{num_answers}",
        )
        require(
            num_symbols >= 4,
            f"task.num_symbols must be at least 4, or keys cannot be unique; got {num_symbols}",
        )
        self.key_length = key_length
        self.num_answers = num_answers
        self.num_symbols = num_symbols
        self.vocab_size = FIRST_SYMBOL + num_symbols

    @abstractmethod
    def prompt(self, key: np.ndarray, string: np.ndarray) -> tuple[np.ndarray, int]:
        """Key and string in the task's order, and the index at which the string begins."""

    def sample(self, rng: np.random.Generator, n: int, batch_size: int) -> Batch:
        g = self.key_length
        string = rng.integers(FIRST_SYMBOL, self.vocab_size, (batch_size, n + g + self.num_answers))
        place = rng.integers(0, n + 1, (batch_size, 1))
        key = np.take_along_axis(string, place + np.arange(g), 1)
        self._make_unique(rng, string, key, place)
        answers = place + g + np.arange(self.num_answers)
        prompt, start = self.prompt(key, string)
        answer = np.take_along_axis(string, answers, 1)
        return assemble(prompt, answer, np.ones_like(answer, bool), start + answers)

    def _make_unique(
        self, rng: np.random.Generator, string: np.ndarray, key: np.ndarray, place: np.ndarray
    ) -> None:
        """Change a symbol in every other occurrence of the key.

        The symbol changed is never part of the key's own place.
        """
        g = self.key_length
        while True:
            windows = np.lib.stride_tricks.sliding_window_view(string, g, 1)
            found = (windows == key[:, None]).all(2)
            np.put_along_axis(found, place, False, 1)
            rows, starts = found.nonzero()
            if not len(rows):
                return
            # Change one per sequence at a time, because occurrences may overlap.
            rows, first = np.unique(rows, return_index=True)
            starts = starts[first]
            inside = (starts >= place[rows, 0]) & (starts < place[rows, 0] + g)
            at = np.where(inside, starts + g - 1, starts)
            shift = rng.integers(1, self.num_symbols, len(rows))
            string[rows, at] = (
                FIRST_SYMBOL + (string[rows, at] - FIRST_SYMBOL + shift) % self.num_symbols
            )

    def total_length(self, n: int) -> int:
        return n + 2 * self.key_length + 2 * self.num_answers + 4

    def answer_length(self, n: int) -> int:
        return self.num_answers

    def chance(self, n: int) -> float:
        return float(self.num_symbols) ** -self.num_answers


class PrefixLookup(Lookup):
    """A key comes before a string in which it occurs once; the answer is what follows it there.

    A key of `key_length` symbols comes first, then MARK and a string in which the key occurs
    once. The answer is the `num_answers` symbols that follow the key in the string. n counts the
    string's other symbols; all are drawn from `num_symbols`.

    Examples, a key of 2 and 1 answer with n = 2, a key of 1 and 2 answers with n = 1:
        BOS a b MARK c a b d b SEP d EOS
        BOS c MARK c a b d SEP a b EOS

    A model that reads along can stop at the key.
    """

    def prompt(self, key: np.ndarray, string: np.ndarray) -> tuple[np.ndarray, int]:
        mark = np.full((len(key), 1), MARK)
        return np.concatenate((key, mark, string), 1), self.key_length + 1

    def max_distance(self, n: int) -> int:
        return n + self.num_answers


class SuffixLookup(Lookup):
    """A key comes after a string in which it occurs once; the answer is what follows it there.

    A string comes first, then MARK and a key of `key_length` symbols that occurs once in the
    string. The answer is the `num_answers` symbols that follow the key in the string. n counts the
    string's other symbols; all are drawn from `num_symbols`.

    Examples, a key of 2 and 1 answer with n = 2, a key of 1 and 2 answers with n = 1:
        BOS c a b d b MARK a b SEP d EOS
        BOS c a b d MARK c SEP a b EOS

    The whole string must be kept until the key is known.
    """

    def prompt(self, key: np.ndarray, string: np.ndarray) -> tuple[np.ndarray, int]:
        mark = np.full((len(key), 1), MARK)
        return np.concatenate((string, mark, key), 1), 0

    def max_distance(self, n: int) -> int:
        return n + self.num_answers + self.key_length + 1
