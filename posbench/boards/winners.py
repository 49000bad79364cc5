"""Who is first, overall and in each group of tasks, and which rows are as good as it.

Rows are *not told apart* from the row with the largest number while it is above them by the
equivalence margin in less than 95 % of the draws of seeds; the next row is the best of those that
are told apart. With too few seeds to draw from, the rows that are less than the margin below the
largest number are named together, and nothing is decided.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pandas as pd

from posbench.base.wording import agreeing, counted
from posbench.boards.measured import short_names
from posbench.boards.ranking import BoardPart
from posbench.config.board import Board
from posbench.showing.table import code, number
from posbench.statistics import aggregates, bootstrap, sensitivity
from posbench.statistics.bootstrap import Draws

# -- the first rows --------------------------------------------------------------------------------

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
    certain: bool  # whether each row has seeds enough to draw from; else peers are near by number

    @classmethod
    def of(cls, runs: pd.DataFrame, board: Board) -> Leaders:
        """The leaders among rows with an area on every task; PosbenchError if there is none."""
        judged = board.judged
        draws = bootstrap.given_tasks(runs, judged.draws, judged.seed)
        estimates = pd.Series(draws.estimates.mean(0), draws.rows).round(9)
        estimates = estimates.sort_values(ascending=False, kind="stable")
        best, margin = str(estimates.index[0]), judged.equivalent
        certain = aggregates.repeated(runs)
        if certain:
            near = [draws.order(best, str(row), margin).above < SURE for row in estimates.index]
        else:
            near = list((estimates.iloc[0] - estimates).round(9) < margin)
        peers = [str(row) for row, as_good in zip(estimates.index, near, strict=True) if as_good]
        return cls(draws, estimates, peers, certain)

    @property
    def first(self) -> str:
        return self.peers[0]

    @property
    def next(self) -> str | None:
        return next((str(row) for row in self.estimates.index if row not in self.peers), None)

    def above(self, row: str) -> str:
        """By how much the first row is above another, with the interval over seeds."""
        low, high = self.draws.difference(self.first, row)
        difference = self.estimates[self.first] - self.estimates[row]
        return f"{number(difference)} (95 % {number(low)} to {number(high)})"

    def __str__(self) -> str:
        if not self.certain:
            are = agreeing(len(self.peers), "is", "are")
            return f"{self._named} {are} highest so far; too few seeds to tell rows apart"
        if len(self.peers) == 1 and self.next is not None:
            return f"{self._named} is first, {self.above(self.next)} above {code(self.next)}"
        said = f"{self._named} are not told apart"
        if self.next is None:
            return said
        return (
            f"{said}; the best of the others is {code(self.next)}, {self.above(self.next)} below "
            f"{code(self.first)}"
        )

    @property
    def _named(self) -> str:
        """The peers with their numbers, if they are few."""
        shown = [f"{code(row)} ({number(self.estimates[row])})" for row in self.peers]
        if len(shown) > FEW:
            return f"{len(shown)} rows, from {shown[0]} to {shown[-1]},"
        *others, last = shown
        return f"{', '.join(others)} and {last}" if others else last


# -- in sentences ----------------------------------------------------------------------------------


def answer(board: Board, part: BoardPart, complete: Sequence[str]) -> Iterator[str]:
    """Who wins each group, and whether anyone wins all in all; nothing if no two rows are there."""
    runs = part.whole(board)
    if len(complete) < 2 or runs["group"].nunique() < (1 if part.lacking(board) else 2):
        return
    if not aggregates.repeated(runs):
        yield f"No winner is named: some rows have fewer than {aggregates.FEWEST} seeds."
        return
    yield _of_groups(board, part)
    yield from overall(board, part, complete)


def _of_groups(board: Board, part: BoardPart) -> str:
    """The first of each group, among the rows that have the tasks of that group."""
    groups = aggregates.group_means(part.whole(board)).round(9)
    margin, host = board.judged.equivalent, part.as_trained
    winners = (f"{group}: {first_of(groups[group].dropna(), margin, host)}" for group in groups)
    whole = " that is whole" if part.lacking(board) else ""
    return f"First of each group{whole}: {'; '.join(winners)}."


def overall(board: Board, part: BoardPart, complete: Sequence[str]) -> Iterator[str]:
    """Whether anyone wins all in all, and why nobody does; nothing while a task lacks."""
    if part.lacking(board):
        return
    none = "No overall winner is named"
    if waiting := len(part) - len(complete) + part.unrun:
        lack = agreeing(waiting, "lacks", "lack")
        yield f"{none}: {counted(waiting, 'row')} {lack} a task."
        return
    runs = part.runs
    if not aggregates.repeated(runs):
        return
    best, *others = Leaders.of(runs, board).peers
    if others:
        yield f"{none}: {_named([best, *others], 'row')} are not told apart."
        return
    without = sensitivity.leave_one_out(runs, "group")
    if (without.loc[best] == 1).all():
        yield f"{best} has the largest mean, and keeps it whichever group is left out."
    else:
        lost = [str(group) for group in without if without.loc[best, group] != 1]
        yield f"{none}: {best} has the largest mean, and loses it without {_named(lost, 'group')}."


def first_of(values: pd.Series, margin: float, host: str = "") -> str:
    """The rows that are less than the margin below the largest, and whether the host is there."""
    near = (values.max() - values).round(9) < margin
    first = values[near].sort_values(ascending=False, kind="stable")
    low, high = number(first.min()), number(first.max())
    span = high if low == high else f"{low} to {high}"
    rows = [str(row) for row in first.index]
    hidden = len(rows) > FEW and host in rows
    return f"{_named(rows, 'row')} ({span}{f', {host} among them' if hidden else ''})"


def _named(names: Sequence[str], noun: str) -> str:
    """A few names, or how many there are."""
    if len(names) > FEW:
        return counted(len(names), noun)
    *others, last = short_names(names)
    return f"{', '.join(others)} and {last}" if others else last
