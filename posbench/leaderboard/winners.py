"""Who wins each group of tasks, and whether anyone wins all in all, in sentences."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pandas as pd

from posbench.boards.definition import Board
from posbench.leaderboard.labels import short_names
from posbench.leaderboard.leaders import FEW, Leaders
from posbench.leaderboard.parts import Part
from posbench.showing.numbers import number
from posbench.statistics import aggregates, sensitivity
from posbench.wording import counted


def answer(board: Board, part: Part, complete: Sequence[str]) -> Iterator[str]:
    """Who wins each group, and whether anyone wins all in all."""
    margin = board.judged.equivalent
    lacking = part.lacking(board)
    if len(complete) < 2:
        return
    runs = part.whole(board)
    runs = runs[runs["row"].isin(complete)]
    if runs["group"].nunique() < (1 if lacking else 2):
        return
    if not aggregates.repeated(runs):
        yield f"No winner is named: some rows have fewer than {aggregates.FEWEST} seeds."
        return
    means = aggregates.group_means(runs)
    groups = means.round(9)
    host = part.as_trained
    winners = "; ".join(f"{group}: {first_of(groups[group], margin, host)}" for group in groups)
    yield f"First of each group{' that is whole' if lacking else ''}: {winners}."
    if lacking:
        return
    best, *others = Leaders.of(runs, board).peers
    if others:
        yield f"No overall winner is named: {_named([best, *others], 'row')} are not told apart."
        return
    without = sensitivity.leave_one_out(runs, "group")
    if (without.loc[best] == 1).all():
        yield f"{best} has the largest mean, and keeps it whichever group is left out."
    else:
        lost = [str(group) for group in without if without.loc[best, group] != 1]
        yield (
            f"No overall winner is named: {best} has the largest mean, and loses it without "
            f"{_named(lost, 'group')}."
        )


def first_of(values: pd.Series, margin: float, host: str = "") -> str:
    """The rows that are less than the margin below the largest, and whether the host is there."""
    first = values[values > values.max() - margin].sort_values(ascending=False, kind="stable")
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
