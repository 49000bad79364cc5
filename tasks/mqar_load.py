"""Multi-query associative recall at load: longer sequences hold more pairs.

The task is from Zoology (arXiv 2312.04927), whose figure 2 raises the number of pairs with the
length: 4, 8, 16 and 64 of them in 64, 128, 256 and 512 tokens.
"""

import numpy as np

from posbench.core.task import FIRST_SYMBOL, Answers, Batch, Task, require
from posbench.tasks.mqar import MQAR


class MQARLoad(Task):
    """n pairs of a key and a value come first; then each key comes again, and its value is the
    answer.

    Sequences are those of `mqar`, with n pairs and n / 2 filler symbols (rounded up) among the
    queries. So a longer sequence has more to remember, where in `mqar` it has more filler. Keys,
    values and filler are drawn from three separate sets of `num_symbols`; keys do not repeat.

    Examples, keys in capitals, values as digits, filler in small letters; n = 2 and n = 3:
        BOS B 4 A 1 SEP b A 1 B 4 EOS
        BOS C 2 A 7 B 2 SEP B 2 C 2 d A 7 a EOS

    The score is the share of queries answered, as published. In the publication the value is not
    given back after a query, values do not repeat, and six to eight of ten tokens are filler, for
    which 40 positions have no room.

    Each value is given back after its query. So whoever gives any of the values that are left, and
    looks up no key, is right in $(1 + 1/2 + ... + 1/n)/n$ of the queries: more than `chance`.

    There are at most `num_symbols` pairs; ConfigError otherwise.
    """

    measure = "share of queries"

    def __init__(self, num_symbols: int = 128) -> None:
        require(num_symbols >= 2, f"task.num_symbols must be at least 2; got {num_symbols}")
        self.num_symbols = num_symbols
        self.vocab_size = FIRST_SYMBOL + 3 * num_symbols

    def sample(self, rng: np.random.Generator, n: int, batch_size: int) -> Batch:
        return self._pairs(n).sample(rng, filler(n), batch_size)

    def score(self, batch: Batch, answers: Answers) -> float:
        """The share of queries answered with the right value."""
        return float(answers.symbols.mean())

    def total_length(self, n: int) -> int:
        return self._pairs(n).total_length(filler(n))

    def answer_length(self, n: int) -> int:
        return n

    def chance(self, n: int) -> float:
        """One of the values, each as likely: $1 / V$ with V = `num_symbols`."""
        return 1 / self.num_symbols

    def max_distance(self, n: int) -> int:
        return self._pairs(n).max_distance(filler(n))

    def _pairs(self, n: int) -> MQAR:
        require(n >= 1, f"a query needs a pair to ask for, so n must be at least 1; got {n}")
        require(
            n <= self.num_symbols,
            f"task.num_symbols={self.num_symbols} gives keys for as many pairs, not for n={n}: "
            "raise it, or test shorter sequences",
        )
        return MQAR(n, self.num_symbols)


def filler(n: int) -> int:
    """How many filler symbols are among the queries of n pairs."""
    return (n + 1) // 2
