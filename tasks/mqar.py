"""Multi-query associative recall: pairs first, and their keys again among filler (Zoology, arXiv 2312.04927)."""

import numpy as np

from posbench.task import FIRST_SYMBOL, Batch, assemble
from posbench.tasks.pairs import Pairs


class MQAR(Pairs):
    """The prompt is `num_pairs` pairs of a key and its value. Then every key is given again, in random order, with n
    filler symbols scattered between, and the model is to give the value after each key. Keys, values and filler are
    drawn from three separate sets of `num_symbols`; keys do not repeat.

    Examples, keys in capitals, values as digits, filler in small letters; 2 pairs with n = 2 and 3 with n = 1:
        BOS B 4 A 1 SEP b A 1 c B 4 EOS
        BOS C 2 A 7 B 2 SEP B 2 C 2 A 7 a EOS

    As published, most gaps are short: a filler symbol falls before pair r (of those that are asked for) with a
    probability that falls like $r^{-0.99}$, the power law of the authors' code. There the value is not given back
    after a query, here it is part of the sequence like every answer.
    """

    POWER = 0.01

    def __init__(self, num_pairs: int = 4, num_symbols: int = 16) -> None:
        super().__init__(num_pairs, num_symbols)

    def sample(self, rng: np.random.Generator, n: int, batch_size: int) -> Batch:
        pairs, symbols = self.num_pairs, self.num_symbols
        keys = FIRST_SYMBOL + rng.random((batch_size, symbols)).argsort(1)[:, :pairs]
        values = FIRST_SYMBOL + symbols + rng.integers(0, symbols, (batch_size, pairs))
        prompt = np.stack((keys, values), 2).reshape(batch_size, 2 * pairs)

        # Where each filler symbol falls: before the first query, between two, or after the last.
        weights = np.arange(1, pairs + 2) ** (self.POWER - 1.0)
        gaps = rng.choice(pairs + 1, (batch_size, n), p=weights / weights.sum())
        before = (gaps[:, None, :] <= np.arange(pairs)[:, None]).sum(2)  # filler up to each query
        places = before + 2 * np.arange(pairs)
        answer = FIRST_SYMBOL + 2 * symbols + rng.integers(0, symbols, (batch_size, n + 2 * pairs))
        predicted, source = np.zeros_like(answer, bool), np.full_like(answer, -1)
        order = rng.random((batch_size, pairs)).argsort(1)
        np.put_along_axis(answer, places, np.take_along_axis(keys, order, 1), 1)
        np.put_along_axis(answer, places + 1, np.take_along_axis(values, order, 1), 1)
        np.put_along_axis(predicted, places + 1, True, 1)
        np.put_along_axis(source, places + 1, 2 * order + 1, 1)
        return assemble(prompt, answer, predicted, source)

    def total_length(self, n: int) -> int:
        return n + 4 * self.num_pairs + 3

    def max_distance(self, n: int) -> int:
        # From the last query, after all filler, to the value of the first pair.
        return n + 4 * self.num_pairs - 2
