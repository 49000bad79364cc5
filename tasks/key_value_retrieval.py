"""Key-value retrieval: pairs among filler, and a question for every key.

The task follows arXiv 2307.03172 and 2312.04927.
"""

import numpy as np

from posbench.task import FIRST_SYMBOL, Batch, assemble
from posbench.tasks.pairs import Pairs


class KeyValueRetrieval(Pairs):
    """`num_pairs` pairs of a key and its value stand among n filler symbols. The answer part asks
    for every key, in random order, and the model must give the value after each. Keys, values and
    filler are drawn from three separate sets of `num_symbols`; keys do not repeat. Only the
    filler counts towards n.

    Examples, keys in capitals, values as digits, filler in small letters; 2 pairs with n = 3,
    and 3 pairs with n = 1:
        BOS a B 4 c b A 1 SEP A 1 B 4 EOS
        BOS C 2 A 7 d B 2 SEP C 2 B 2 A 7 EOS
    """

    def __init__(self, num_pairs: int = 8, num_symbols: int = 8) -> None:
        super().__init__(num_pairs, num_symbols)

    def sample(self, rng: np.random.Generator, n: int, batch_size: int) -> Batch:
        pairs, symbols = self.num_pairs, self.num_symbols
        keys = FIRST_SYMBOL + rng.random((batch_size, symbols)).argsort(1)[:, :pairs]
        values = FIRST_SYMBOL + symbols + rng.integers(0, symbols, (batch_size, pairs))
        prompt = FIRST_SYMBOL + 2 * symbols + rng.integers(0, symbols, (batch_size, n + 2 * pairs))
        # Choose which of the n + pairs units are pairs; every pair before a unit moves it one token
        # further.
        units = np.sort(rng.random((batch_size, n + pairs)).argsort(1)[:, :pairs], 1)
        key_places = units + np.arange(pairs)
        np.put_along_axis(prompt, key_places, keys, 1)
        np.put_along_axis(prompt, key_places + 1, values, 1)

        order = rng.random((batch_size, pairs)).argsort(1)
        asked = [np.take_along_axis(a, order, 1) for a in (keys, values, key_places + 1)]
        answer = np.stack(asked[:2], 2).reshape(batch_size, 2 * pairs)
        predicted = np.broadcast_to(np.arange(2 * pairs) % 2 == 1, answer.shape)
        return assemble(prompt, answer, predicted, np.repeat(asked[2], 2, 1))

    def total_length(self, n: int) -> int:
        return n + 4 * self.num_pairs + 3

    def max_distance(self, n: int) -> int:
        # This is from the last question to the value of a pair at the very start.
        return n + 4 * self.num_pairs - 2
