"""What tasks over one alphabet share."""

from posbench.task import FIRST_SYMBOL, Task, require


class Symbols(Task):
    """Prompt and answer are of the same `num_symbols`."""

    def __init__(self, num_symbols: int) -> None:
        require(num_symbols >= 2, f"task.num_symbols must be at least 2; got {num_symbols}")
        self.num_symbols = num_symbols
        self.vocab_size = FIRST_SYMBOL + num_symbols


class Rearranged(Symbols):
    """n symbols, and n symbols for an answer."""

    def total_length(self, n: int) -> int:
        return 2 * n + 3

    def answer_length(self, n: int) -> int:
        return n

    def chance(self, n: int) -> float:
        return float(self.num_symbols) ** -n


class OneSymbol(Symbols):
    """The answer is one symbol of the prompt."""

    def answer_length(self, n: int) -> int:
        return 1

    def chance(self, n: int) -> float:
        return 1 / self.num_symbols
