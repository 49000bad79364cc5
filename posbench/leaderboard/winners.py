"""Who wins each group of tasks, and whether anyone wins all in all, in sentences."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pandas as pd

from posbench.boards.definition import AS_TRAINED, Board
from posbench.leaderboard.parts import Part
from posbench.showing.numbers import number
from posbench.statistics import aggregates, sensitivity

FEW = 4
"""The most names in a sentence."""


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
    host = _as_trained(part)
    winners = ", ".join(f"{group}: {_first(groups[group], margin, host)}" for group in groups)
    yield f"First of each group{' that is whole' if lacking else ''}: {winners}."
    if lacking:
        return
    overall = means.mean(axis=1, skipna=False).round(9).sort_values(ascending=False)
    if overall.iloc[0] - overall.iloc[1] < margin:
        close = [str(row) for row in overall.index[overall > overall.iloc[0] - margin]]
        yield (f"No overall winner is named: {_named(close)} differ by less than {number(margin)}.")
        return
    without = sensitivity.leave_one_out(runs, "group")
    best = str(overall.index[0])
    if (without.loc[best] == 1).all():
        yield f"First in all, and without each group in turn: {best}."
    else:
        yield (
            f"No overall winner is named: {best} has the largest mean, and is not first without "
            f"{_named([str(group) for group in without if without.loc[best, group] != 1])}."
        )


def _first(values: pd.Series, margin: float, host: str) -> str:
    """The rows that are less than the margin below the largest, and whether the host is there."""
    first = values[values > values.max() - margin].sort_values(ascending=False, kind="stable")
    low, high = number(first.min()), number(first.max())
    span = high if low == high else f"{low} to {high}"
    rows = [str(row) for row in first.index]
    hidden = len(rows) > FEW and host in rows
    return f"{_named(rows)} ({span}{f', {host} among them' if hidden else ''})"


def _as_trained(part: Part) -> str:
    """The row of the encoding that all rows extend, without an extension; "" if they do not."""
    encodings, extensions = part.rows.encodings, part.rows.extensions
    return encodings[0] if len(encodings) == 1 and AS_TRAINED in extensions else ""


def _named(names: Sequence[str]) -> str:
    """A few names, or how many there are."""
    return " and ".join(names) if len(names) <= FEW else f"{len(names)} rows"
