"""Bases of tasks over one alphabet."""

from posbench.core.task import FIRST_SYMBOL, Task, require


class Symbols(Task):
    """A task whose prompt and answer use the same `num_symbols`."""

    def __init__(self, num_symbols: int) -> None:
        require(num_symbols >= 2, f"task.num_symbols must be at least 2; got {num_symbols}")
        self.num_symbols = num_symbols
        self.vocab_size = FIRST_SYMBOL + num_symbols


class Rearranged(Symbols):
    """A task with a prompt of n symbols and an answer of n symbols."""

    def total_length(self, n: int) -> int:
        return 2 * n + 3

    def answer_length(self, n: int) -> int:
        return n

    def chance(self, n: int) -> float:
        return float(self.num_symbols) ** -n


class OneSymbol(Symbols):
    """A task whose answer is one symbol of the prompt."""

    def answer_length(self, n: int) -> int:
        return 1

    def chance(self, n: int) -> float:
        return 1 / self.num_symbols
