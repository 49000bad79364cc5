"""Passkeys by name: several keys are hidden, and one of them is asked for.

It is the needle with several keys of RULER (arXiv 2404.06654), made of tokens as the passkey is.
"""

import numpy as np

from posbench.core.task import FIRST_SYMBOL, Batch, Task, assemble, require


class PasskeyDistractors(Task):
    """Several keys, each after its name, are hidden among filler; the answer is the key of a name.

    `num_keys` keys of `key_length` symbols are at random depths among n filler symbols, each
    directly after its name. The answer part gives one of the names, and the model must give its
    key. Keys, filler and names are drawn from three separate sets of `num_symbols`, `num_filler`
    and `num_names`; names do not repeat, keys may.

    Examples, names in capitals, keys as digits; 2 keys of 2 symbols with n = 3, and 3 keys of 1
    symbol with n = 2:
        BOS a B 7 2 b A 1 4 a SEP B 7 2 EOS
        BOS C 1 b A 4 B 1 d SEP A 4 EOS

    With one key, as in `passkey`, whatever is no filler is the answer. Here a model has to
    find the right key by what comes before it. One that gives any of the keys is right in one of
    `num_keys` sequences, which is more than `chance`.
    """

    def __init__(
        self,
        num_keys: int = 4,
        key_length: int = 3,
        num_symbols: int = 10,
        num_filler: int = 16,
        num_names: int = 16,
    ) -> None:
        require(num_keys >= 1, f"task.num_keys must be at least 1; got {num_keys}")
        require(
            key_length >= 1,
            f"task.key_length is the number of symbols of a key, at least 1; got {key_length}",
        )
        require(num_symbols >= 2, f"task.num_symbols must be at least 2; got {num_symbols}")
        require(num_filler >= 1, f"task.num_filler must be at least 1; got {num_filler}")
        require(
            num_names >= num_keys,
            f"task.num_names={num_names} gives too few different names for {num_keys} keys: raise "
            f"it to {num_keys} or more, or lower task.num_keys",
        )
        self.num_keys = num_keys
        self.key_length = key_length
        self.num_symbols = num_symbols
        self.num_filler = num_filler
        self.num_names = num_names
        self.vocab_size = FIRST_SYMBOL + num_symbols + num_filler + num_names

    def sample(self, rng: np.random.Generator, n: int, batch_size: int) -> Batch:
        count, length = self.num_keys, self.key_length
        first_filler = FIRST_SYMBOL + self.num_symbols
        first_name = first_filler + self.num_filler
        names = first_name + rng.random((batch_size, self.num_names)).argsort(1)[:, :count, None]
        keys = rng.integers(FIRST_SYMBOL, first_filler, (batch_size, count, length))
        prompt = rng.integers(first_filler, first_name, (batch_size, n + count * (1 + length)))
        # Choose which of the n + `num_keys` units are keys; each moves all after it by its length.
        units = np.sort(rng.random((batch_size, n + count)).argsort(1)[:, :count], 1)
        starts = (units + length * np.arange(count))[:, :, None]
        places = starts + np.arange(1 + length)
        named = np.concatenate((names, keys), 2)
        np.put_along_axis(prompt, places.reshape(batch_size, -1), named.reshape(batch_size, -1), 1)
        asked = rng.integers(0, count, (batch_size, 1, 1))
        answer, source = (np.take_along_axis(each, asked, 1)[:, 0] for each in (named, places))
        predicted = np.broadcast_to(np.arange(1 + length) > 0, answer.shape)
        return assemble(prompt, answer, predicted, source)

    def total_length(self, n: int) -> int:
        return n + self.num_keys * (1 + self.key_length) + self.key_length + 4

    def answer_length(self, n: int) -> int:
        return self.key_length

    def chance(self, n: int) -> float:
        """A key of random symbols: $V^{-g}$ with V = `num_symbols` and g = `key_length`."""
        return float(self.num_symbols) ** -self.key_length

    def max_distance(self, n: int) -> int:
        # This is from the name in the answer part to a key that begins the prompt.
        return n + self.num_keys * (1 + self.key_length)
