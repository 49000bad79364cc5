"""Passkey: find a marked key in a haystack.

The task is from Mohtashami & Jaggi (arXiv 2305.16300), and is used in arXiv 2306.15595.
"""

import numpy as np

from posbench.core.task import FIRST_SYMBOL, MARK, Batch, Task, assemble, require


class Passkey(Task):
    """A short key is hidden at a random depth among filler symbols; the answer is the key.

    A key of `key_length` symbols, announced by MARK, is at a random depth among n filler
    symbols; the answer is the key. As in the published prompt, where a number hides in
    sentences, the key has symbols of its own: it is drawn from `num_symbols`, the filler from
    `num_filler` others.

    Examples, a key of 2 in n = 3 and a key of 3 in n = 3 filler symbols:
        BOS a MARK 7 2 b a SEP 7 2 EOS
        BOS MARK 1 4 4 b d a SEP 1 4 4 EOS

    There must be at least as much filler as key, because a needle is shorter than its haystack;
    otherwise `total_length` raises ConfigError.
    """

    def __init__(self, key_length: int = 3, num_symbols: int = 10, num_filler: int = 16) -> None:
        require(
            key_length >= 1,
            f"task.key_length is the number of symbols of the key, at least 1; got {key_length}",
        )
        require(num_symbols >= 2, f"task.num_symbols must be at least 2; got {num_symbols}")
        require(num_filler >= 1, f"task.num_filler must be at least 1; got {num_filler}")
        self.key_length = key_length
        self.num_symbols = num_symbols
        self.num_filler = num_filler
        self.vocab_size = FIRST_SYMBOL + num_symbols + num_filler

    def sample(self, rng: np.random.Generator, n: int, batch_size: int) -> Batch:
        first_filler = FIRST_SYMBOL + self.num_symbols
        prompt = rng.integers(first_filler, self.vocab_size, (batch_size, n + 1 + self.key_length))
        key = rng.integers(FIRST_SYMBOL, first_filler, (batch_size, self.key_length))
        depth = rng.integers(0, n + 1, (batch_size, 1))  # filler symbols before the mark
        places = depth + np.arange(1, self.key_length + 1)
        np.put_along_axis(prompt, depth, MARK, 1)
        np.put_along_axis(prompt, places, key, 1)
        return assemble(prompt, key, np.ones_like(key, bool), places)

    def total_length(self, n: int) -> int:
        require(
            n >= self.key_length,
            f"task.key_length={self.key_length} is longer than n={n} symbols of filler: lower it, "
            "or raise training.min_length",
        )
        return n + 2 * self.key_length + 4

    def answer_length(self, n: int) -> int:
        return self.key_length

    def chance(self, n: int) -> float:
        return float(self.num_symbols) ** -self.key_length

    def max_distance(self, n: int) -> int:
        return n + self.key_length
