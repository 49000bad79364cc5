"""Who is first, and which rows are not told apart from it.

Rows are *not told apart* from the row with the largest number while it is above them by the
equivalence margin in less than 95 % of the draws of seeds; the next row is the best of those that
are told apart.
"""

from __future__ import annotations

from dataclasses import dataclass

import pandas as pd

from posbench.boards.definition import Board
from posbench.showing.numbers import number
from posbench.statistics import aggregates, bootstrap
from posbench.statistics.bootstrap import Draws

SURE = 0.95
"""The share of draws in which the first row must be above another for the two to be told apart."""
FEW = 4
"""The most names in a sentence."""


@dataclass(frozen=True)
class Leaders:
    """The first row, those not told apart from it, and the best of the others."""

    draws: Draws
    estimates: pd.Series  # by row, best first
    peers: list[str]  # the first row among them, best first
    certain: bool  # whether each row has seeds enough to draw from

    @classmethod
    def of(cls, runs: pd.DataFrame, board: Board) -> Leaders:
        """The leaders among rows with an area on every task; PosbenchError if there is none."""
        judged = board.judged
        draws = bootstrap.given_tasks(runs, judged.draws, judged.seed)
        estimates = pd.Series(draws.estimates.mean(0), draws.rows).round(9)
        estimates = estimates.sort_values(ascending=False, kind="stable")
        best, margin = str(estimates.index[0]), judged.equivalent
        peers = [
            str(row)
            for row in estimates.index
            if row == best or draws.order(best, str(row), margin).above < SURE
        ]
        return cls(draws, estimates, peers, aggregates.repeated(runs))

    @property
    def first(self) -> str:
        return self.peers[0]

    @property
    def named(self) -> list[str]:
        """The rows that the sentence begins with."""
        return self.peers if self.certain else [str(row) for row in self.estimates.index[:2]]

    @property
    def next(self) -> str | None:
        return next((str(row) for row in self.estimates.index if row not in self.peers), None)

    def above(self, row: str) -> str:
        """By how much the first row is above another, with the interval over seeds."""
        low, high = self.draws.difference(self.first, row)
        difference = self.estimates[self.first] - self.estimates[row]
        return f"{number(difference)} (95 % {number(low)} to {number(high)})"

    def __str__(self) -> str:
        shown = [f"`{row}` ({number(self.estimates[row])})" for row in self.named]
        if not self.certain:
            return f"{' and '.join(shown)} are highest so far; too few seeds to tell rows apart"
        if len(shown) == 1 and self.next is not None:
            return f"{shown[0]} is first, {self.above(self.next)} above `{self.next}`"
        if len(shown) <= FEW:
            said = f"{', '.join(shown[:-1])} and {shown[-1]} are not told apart"
        else:
            said = f"{len(shown)} rows are not told apart, from {shown[0]} to {shown[-1]}"
        if self.next is None:
            return said
        return f"{said}; `{self.next}` is the next, {self.above(self.next)} below `{self.first}`"
