"""Who wins each group of tasks, and whether anyone wins all in all, in sentences."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pandas as pd

from posbench.base.wording import agreeing, counted
from posbench.boards.labels import short_names
from posbench.boards.leaders import FEW, Leaders
from posbench.boards.parts import Part
from posbench.config.board import Board
from posbench.showing.table import number
from posbench.statistics import aggregates, sensitivity


def answer(board: Board, part: Part, complete: Sequence[str]) -> Iterator[str]:
    """Who wins each group, and whether anyone wins all in all; nothing if no two rows are there."""
    runs = part.whole(board)
    if len(complete) < 2 or runs["group"].nunique() < (1 if part.lacking(board) else 2):
        return
    if not aggregates.repeated(runs):
        yield f"No winner is named: some rows have fewer than {aggregates.FEWEST} seeds."
        return
    yield _of_groups(board, part)
    yield from overall(board, part, complete)


def _of_groups(board: Board, part: Part) -> str:
    """The first of each group, among the rows that have the tasks of that group."""
    groups = aggregates.group_means(part.whole(board)).round(9)
    margin, host = board.judged.equivalent, part.as_trained
    winners = (f"{group}: {first_of(groups[group].dropna(), margin, host)}" for group in groups)
    whole = " that is whole" if part.lacking(board) else ""
    return f"First of each group{whole}: {'; '.join(winners)}."


def overall(board: Board, part: Part, complete: Sequence[str]) -> Iterator[str]:
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
