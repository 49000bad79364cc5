"""The table of what more context gives or takes, where tests ask for the same tokens throughout."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import pandas as pd

from posbench.records import tables
from posbench.records.record import Record
from posbench.showing.pages import Chapter
from posbench.showing.table import Line, Table, number
from posbench.statistics.context import Difference, between, difference, sums

MULTIPLES = (2.0, 8.0)
NOTE = (
    "The same tokens are asked for at every length, and only what comes before them grows. "
    "Differences are in nats a token, those of a length less those at 1x: above 0, more context "
    "does harm. right is the share of these tokens that are predicted, and its difference. "
    "Intervals are those of texts drawn again, 95 %."
)


def context_parts(found: Iterable[Record]) -> Iterator[Chapter]:
    """A part for each protocol and task with such tests; the best at the longest comes first."""
    table = tables.by_text(found).rename(columns={"method": "row"})
    for (protocol, task), mine in table.groupby(["protocol", "task"]):
        lines = sorted(_lines(mine), key=lambda each: each[0])
        headings = ["method", "seeds", "nats at 1x", *(f"at {m:g}x" for m in MULTIPLES)]
        headings += ["right at 1x", f"right at {MULTIPLES[-1]:g}x"]
        shown = Table.of(headings, [line for _, line in lines])
        title = f"{task}: what more context gives or takes ({protocol})"
        rows = [line.name for _, line in lines]
        below = [_beside_the_first(title, mine, rows)] if len(rows) > 1 else []
        yield Chapter(title, [NOTE, shown, *below])


def _beside_the_first(title: str, table: pd.DataFrame, rows: list[str]) -> Chapter:
    """What each row loses at the longest multiple more than the first of them."""
    first, longest = rows[0], MULTIPLES[-1]
    pairs = between(table[table["row"].isin(rows)], longest)
    lines = {}
    for pair in pairs.itertuples():
        if first in (pair.one, pair.other):
            sign, row = (-1, pair.other) if pair.one == first else (1, pair.one)
            low, high = sorted((sign * pair.low, sign * pair.high))
            said = str(Difference(sign * pair.mean, low, high, pair.p_holm))
            lines[row] = Line(row, [said, number(pair.p_holm, 4)])
    note = f"In nats a token at {longest:g}x. p is adjusted over all pairs of rows, by Holm."
    shown = Table.of(["method", f"less {first}", "p"], [lines[row] for row in rows[1:]])
    return Chapter(f"{title}: beside {first}", [note, shown])


def _lines(table: pd.DataFrame) -> Iterator[tuple[float, Line]]:
    """The line of each row, with the nats at the longest multiple."""
    for row, mine in table.groupby("row"):
        at = {multiple: sums(mine, str(row), multiple) for multiple in (1.0, *MULTIPLES)}
        if any(each.empty for each in at.values()):
            continue
        first, *longer = at.values()
        nats, right = (
            float(first[name].sum(skipna=False) / first["tokens"].sum())
            for name in ("nats", "right")
        )
        changes = [difference(each, first) for each in longer]
        gained = difference(longer[-1], first, "right")
        cells = [f"{mine['seed'].nunique()}", f"{nats:.3f}", *map(str, changes)]
        yield nats + changes[-1].mean, Line(str(row), [*cells, number(right, 3), str(gained)])
