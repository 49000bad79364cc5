"""Multi-hop: a value behind a chain of names (variable tracking of RULER, arXiv 2404.06654)."""

import numpy as np

from posbench.core.task import FIRST_SYMBOL, Batch, Task, assemble, require


class MultiHop(Task):
    """A chain of names leads to a value, and each chain must be followed among filler symbols.

    `num_chains` chains of `hops` + 1 pairs are among n filler symbols. A chain's first pair is
    a name and a value; every later one is a name and the name before it in the chain. The pairs of
    a chain keep their order. The answer part asks for the last name of every chain, in random
    order, and the model must give the value at the chain's start. Names, values and filler are
    drawn from three separate sets: `num_symbols` values, as many filler symbols, and as many names
    as are needed; no name repeats.

    Examples, names in capitals, values as digits, filler in small letters; 2 chains of 1 hop with
    n = 2, and 1 chain of 2 hops with n = 1:
        BOS A 4 c D 1 B A c C D SEP C 1 B 4 EOS
        BOS B 7 a A B C A SEP C 7 EOS

    Compared with a lookup, every hop needs one more layer. Whoever gives any of the C values that
    are left is right in all of at least 1/C! of the sequences, which is more than `chance`.
    """

    def __init__(self, num_chains: int = 2, hops: int = 1, num_symbols: int = 16) -> None:
        require(num_chains >= 1, f"task.num_chains must be at least 1; got {num_chains}")
        require(
            hops >= 1,
            f"task.hops is the number of names that stand for a name, at least 1; got {hops}",
        )
        require(num_symbols >= 2, f"task.num_symbols must be at least 2; got {num_symbols}")
        self.num_chains = num_chains
        self.hops = hops
        self.num_symbols = num_symbols
        self.num_names = num_chains * (hops + 1)
        self.vocab_size = FIRST_SYMBOL + 2 * num_symbols + self.num_names

    def sample(self, rng: np.random.Generator, n: int, batch_size: int) -> Batch:
        chains, links, symbols, names = (
            self.num_chains,
            self.hops + 1,
            self.num_symbols,
            self.num_names,
        )
        name = (
            FIRST_SYMBOL
            + 2 * symbols
            + rng.random((batch_size, names)).argsort(1).reshape(-1, chains, links)
        )
        value = FIRST_SYMBOL + rng.integers(0, symbols, (batch_size, chains))
        referent = np.concatenate((value[:, :, None], name[:, :, :-1]), 2)

        # Choose which units are pairs, and which chain gets them: the order is random, but every
        # chain takes its own turns one after the other.
        units = np.sort(rng.random((batch_size, n + names)).argsort(1)[:, :names], 1)
        shuffled = rng.random((batch_size, names)).argsort(1).reshape(-1, chains, links)
        turns = np.sort(shuffled, 2).reshape(batch_size, names)
        places = np.take_along_axis(units + np.arange(names), turns, 1)
        prompt = FIRST_SYMBOL + symbols + rng.integers(0, symbols, (batch_size, n + 2 * names))
        np.put_along_axis(prompt, places, name.reshape(batch_size, names), 1)
        np.put_along_axis(prompt, places + 1, referent.reshape(batch_size, names), 1)

        order = rng.random((batch_size, chains)).argsort(1)
        starts = places.reshape(-1, chains, links)[:, :, 0] + 1
        asked, given, source = (
            np.take_along_axis(a, order, 1) for a in (name[:, :, -1], value, starts)
        )
        answer = np.stack((asked, given), 2).reshape(batch_size, 2 * chains)
        predicted = np.broadcast_to(np.arange(2 * chains) % 2 == 1, answer.shape)
        return assemble(prompt, answer, predicted, np.repeat(source, 2, 1))

    def total_length(self, n: int) -> int:
        return n + 2 * self.num_names + 2 * self.num_chains + 3

    def answer_length(self, n: int) -> int:
        return self.num_chains

    def chance(self, n: int) -> float:
        return float(self.num_symbols) ** -self.num_chains

    def max_distance(self, n: int) -> int:
        # This is from the last question to the value of a chain that begins the prompt.
        return n + 2 * self.num_names + 2 * self.num_chains - 2
