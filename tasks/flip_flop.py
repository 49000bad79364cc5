"""Flip-flop: a register is written to, and later read (arXiv 2306.00946)."""

from dataclasses import replace

import numpy as np

from posbench.core.task import FIRST_SYMBOL, Answers, Batch, assemble, require
from posbench.tasks.symbols import Symbols

WRITE, IGNORE, READ = range(3)


class FlipFlop(Symbols):
    """Instructions write a symbol, ignore one or read; what is read is the symbol last written.

    Each instruction is a token, and a symbol follows it. The first instruction writes, and n others
    follow. The last one reads, and so do n / 10 of the others (rounded down), at random places.
    Each of the rest writes with the probability `write_share`, and else ignores. The symbols of
    writes and ignores are drawn from `num_symbols`; that of a read is the one written last, and
    those of reads are to be predicted. Nothing announces the end, so EOS is not.

    Examples, the instructions as w, i, r, with n = 2 and n = 4:
        BOS SEP w c i a r c EOS
        BOS SEP w b i a w d i b r d EOS

    The score is the share of reads. In the publication the symbols are bits, so that half of all
    guesses are right, and one instruction in ten writes, one in ten reads, by chance. Here one
    of 16 is right, which is `chance`. Whoever gives any of the symbols written so far is right
    more often: .62 of the time with n = 18, and .27 with n = 158. The number of reads is a function
    of n, so that scores of one length are of as many reads in every sequence.
    """

    measure = "share of reads"

    def __init__(self, num_symbols: int = 16, write_share: float = 0.1) -> None:
        super().__init__(num_symbols)
        require(
            0 <= write_share <= 1,
            f"task.write_share is a probability, from 0 to 1; got {write_share}",
        )
        self.write_share = write_share
        self.vocab_size += 3

    def sample(self, rng: np.random.Generator, n: int, batch_size: int) -> Batch:
        places = np.arange(n + 1)
        writes = rng.random((batch_size, n + 1)) < self.write_share
        kind = np.where(writes, WRITE, IGNORE)
        reads = 1 + rng.random((batch_size, n - 1)).argsort(1)[:, : self.answer_length(n) - 1]
        np.put_along_axis(kind, reads, READ, 1)
        kind[:, 0], kind[:, -1] = WRITE, READ
        symbol = rng.integers(0, self.num_symbols, (batch_size, n + 1))
        written = np.maximum.accumulate(np.where(kind == WRITE, places, 0), 1)
        symbol = np.where(kind == READ, np.take_along_axis(symbol, written, 1), symbol)

        first_symbol = FIRST_SYMBOL + 3
        text, asked, source = (
            np.stack(each, 2).reshape(batch_size, -1)
            for each in (
                (FIRST_SYMBOL + kind, first_symbol + symbol),
                (np.zeros_like(writes), kind == READ),
                # The prompt is empty, and SEP would be the first token in it.
                (np.full_like(kind, -1), 2 * written + 2),
            )
        )
        batch = assemble(np.zeros((batch_size, 0), int), text, asked, source)
        answer = batch.answer.copy()
        answer[:, -1] = False
        return replace(batch, answer=answer)

    def score(self, batch: Batch, answers: Answers) -> float:
        """The share of reads that give what was written last."""
        return float(answers.symbols.mean())

    def total_length(self, n: int) -> int:
        require(n >= 1, f"the last instruction reads, so n must be at least 1; got {n}")
        return 2 * n + 5

    def answer_length(self, n: int) -> int:
        return 1 + n // 10

    def chance(self, n: int) -> float:
        """One of the symbols, each as likely: $1 / V$ with V = `num_symbols`."""
        return 1 / self.num_symbols

    def max_distance(self, n: int) -> int:
        # This is from the last instruction to the symbol of the first.
        return 2 * n - 1
