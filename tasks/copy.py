"""Copy: repeat a string of random symbols (arXiv 2305.19466, 2402.01032)."""

from dataclasses import replace

import numpy as np

from posbench.core.task import FIRST_SYMBOL, Batch, assemble
from posbench.tasks.symbols import Rearranged


class Copy(Rearranged):
    """The answer is the prompt.

    Symbols are drawn with replacement from `num_symbols`.

    Examples, n = 3 and n = 5:
        BOS c a b SEP c a b EOS
        BOS b b d a c SEP b b d a c EOS

    The task is easy while short runs of symbols are unique, because then it is enough to
    look one up and step on. A small alphabet and a long prompt make runs repeat and force
    the model to count: with V symbols about n^2 / (2 V^2) pairs of runs of two coincide, .07
    for n = 10 and V = 26.
    """

    ids = frozenset({"coupled", "within"})

    def __init__(self, num_symbols: int = 26) -> None:
        super().__init__(num_symbols)

    def sample(self, rng: np.random.Generator, n: int, batch_size: int) -> Batch:
        x = rng.integers(FIRST_SYMBOL, self.vocab_size, (batch_size, n))
        batch = assemble(x, x, np.ones_like(x, bool), np.broadcast_to(np.arange(n), x.shape))
        count = list(range(1, n + 1))
        # A symbol shares its id with its copy, and EOS with SEP, so the query at id t always looks
        # for id t + 1, up to the end.
        kinds = {"coupled": [0, *count, n + 1, *count, n + 1], "within": [0, *count, 0, *count, 0]}
        ids = {
            kind: np.broadcast_to(np.array(values), batch.tokens.shape)
            for kind, values in kinds.items()
        }
        return replace(batch, ids=ids)

    def max_distance(self, n: int) -> int:
        return n
