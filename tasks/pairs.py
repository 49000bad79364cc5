"""The base of tasks that ask for the values of keys."""

from posbench.core.task import FIRST_SYMBOL, Task, require


class Pairs(Task):
    """`num_pairs` different keys and their values.

    Keys, values and everything else come from three separate sets of `num_symbols`.
    """

    def __init__(self, num_pairs: int, num_symbols: int) -> None:
        require(num_pairs >= 1, f"task.num_pairs must be at least 1; got {num_pairs}")
        require(
            num_symbols >= max(num_pairs, 2),
            f"task.num_symbols={num_symbols} gives too few different keys for {num_pairs} pairs: "
            f"raise it to {max(num_pairs, 2)} or more, or lower task.num_pairs",
        )
        self.num_pairs = num_pairs
        self.num_symbols = num_symbols
        self.vocab_size = FIRST_SYMBOL + 3 * num_symbols

    def answer_length(self, n: int) -> int:
        return self.num_pairs

    def chance(self, n: int) -> float:
        return float(self.num_symbols) ** -self.num_pairs
