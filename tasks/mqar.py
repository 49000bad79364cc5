"""Multi-query associative recall: pairs first, and their keys again among filler.

The task is from Zoology (arXiv 2312.04927).
"""

import numpy as np

from posbench.core.task import FIRST_SYMBOL, Batch, assemble
from posbench.tasks.pairs import Pairs


class MQAR(Pairs):
    """A few pairs of a key and a value come first; then each key comes again, and its value is the
    answer.

    The prompt is `num_pairs` pairs of a key and its value. Then every key is given again,
    in random order, with n filler symbols scattered between, and the model must give the value
    after each key. Keys, values and filler are drawn from three separate sets of
    `num_symbols`; keys do not repeat.

    Examples, keys in capitals, values as digits, filler in small letters; 2 pairs with n = 2,
    and 3 pairs with n = 1:
        BOS B 4 A 1 SEP b A 1 c B 4 EOS
        BOS C 2 A 7 B 2 SEP B 2 C 2 A 7 a EOS

    As published, most queries come early: n + `num_pairs` places may hold a query or a filler
    symbol, and the r-th holds a query with a weight of $r^{-0.99}$, the power law of the authors'
    code. In the publication the value is not given back after a query, values do not repeat, and
    all filler is one symbol; here the value is part of the sequence, like every answer. So whoever
    gives any of the P values that are left is right in all queries of at least 1/P! of the
    sequences, which is more than `chance`.
    """

    version = 2
    POWER = 0.01

    def __init__(self, num_pairs: int = 4, num_symbols: int = 16) -> None:
        super().__init__(num_pairs, num_symbols)

    def sample(self, rng: np.random.Generator, n: int, batch_size: int) -> Batch:
        pairs, symbols = self.num_pairs, self.num_symbols
        keys = FIRST_SYMBOL + rng.random((batch_size, symbols)).argsort(1)[:, :pairs]
        values = FIRST_SYMBOL + symbols + rng.integers(0, symbols, (batch_size, pairs))
        prompt = np.stack((keys, values), 2).reshape(batch_size, 2 * pairs)

        # The largest log weights plus Gumbel noise are a weighted sample without replacement.
        weights = np.arange(1, n + pairs + 1) ** (self.POWER - 1.0)
        noisy = np.log(weights) + rng.gumbel(size=(batch_size, n + pairs))
        # Every value moves all that comes after it by one token.
        places = np.sort(noisy.argsort(1)[:, n:], 1) + np.arange(pairs)
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
        # This is from the last query, after all filler, to the value of the first pair.
        return n + 4 * self.num_pairs - 2
