"""Noisy recall: pairs among pairs that are never asked for.

The task is in-context recall with noise from MAD (arXiv 2403.17844).
"""

import numpy as np

from posbench.core.task import FIRST_SYMBOL, Batch, assemble
from posbench.tasks.pairs import Pairs


class NoisyRecall(Pairs):
    """Pairs of a key and its value are hidden among pairs of noise and a value.

    `num_pairs` pairs of a key and its value are among n pairs of a noise symbol and a
    value. The answer part asks for every key, in random order, and the model must give the
    value after each. Keys, values and noise are drawn from three separate sets of
    `num_symbols`; keys do not repeat.

    Examples, keys in capitals, values as digits, noise in small letters; 2 pairs with n = 2,
    and 3 pairs with n = 1:
        BOS a 4 B 4 c 1 A 1 SEP A 1 B 4 EOS
        BOS C 2 A 7 d 7 B 2 SEP C 2 B 2 A 7 EOS

    A value alone does not tell whether it counts. In MAD both symbols of a noise pair are noise,
    keys come again, and one of them is asked for.
    """

    def __init__(self, num_pairs: int = 4, num_symbols: int = 16) -> None:
        super().__init__(num_pairs, num_symbols)

    def sample(self, rng: np.random.Generator, n: int, batch_size: int) -> Batch:
        pairs, symbols = self.num_pairs, self.num_symbols
        keys = FIRST_SYMBOL + rng.random((batch_size, symbols)).argsort(1)[:, :pairs]
        heads = FIRST_SYMBOL + 2 * symbols + rng.integers(0, symbols, (batch_size, n + pairs))
        values = FIRST_SYMBOL + symbols + rng.integers(0, symbols, (batch_size, n + pairs))
        # Choose which of the pairs count.
        units = np.sort(rng.random((batch_size, n + pairs)).argsort(1)[:, :pairs], 1)
        np.put_along_axis(heads, units, keys, 1)
        prompt = np.stack((heads, values), 2).reshape(batch_size, 2 * (n + pairs))

        order = rng.random((batch_size, pairs)).argsort(1)
        asked = np.take_along_axis(units, order, 1)
        answer = np.stack([np.take_along_axis(a, asked, 1) for a in (heads, values)], 2).reshape(
            batch_size, 2 * pairs
        )
        predicted = np.broadcast_to(np.arange(2 * pairs) % 2 == 1, answer.shape)
        return assemble(prompt, answer, predicted, np.repeat(2 * asked + 1, 2, 1))

    def total_length(self, n: int) -> int:
        return 2 * n + 4 * self.num_pairs + 3

    def max_distance(self, n: int) -> int:
        return 2 * n + 4 * self.num_pairs - 2
