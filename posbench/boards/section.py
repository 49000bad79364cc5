"""What boards are shown in: sections, whose tables are the same for every format."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from posbench.boards.summaries import Length, mean_of
from posbench.showing.table import Row, Table, number


@dataclass(frozen=True)
class Detail:
    """An additional table of a section."""

    title: str
    note: str
    table: Table


@dataclass(frozen=True)
class Section:
    """What is shown of one task of a protocol, or of a comparison over tasks or protocols."""

    title: str
    notes: list[str]
    table: Table
    details: Sequence[Detail] = ()
    task: str = ""  # the one it is about; "" if it compares tasks or protocols


Columns = dict[str, Callable[[Any], str]]
"""Heading -> a function from a `Summary` or an `Overall` to the text shown."""


def tabulated(columns: Columns, rows: Sequence[Any]) -> Table:
    shown = [Row(row.method, [show(row) for show in columns.values()], row.mark) for row in rows]
    return Table(["method", *columns], shown)


def at_each(lengths: Sequence[Length], show: Callable[[Any, float], str]) -> Columns:
    def at(multiple: float) -> Callable[[Any], str]:
        return lambda row: show(row, multiple)

    return {n.heading: at(n.multiple) for n in lengths}


def gpu_column(rows: Sequence[Any]) -> Columns:
    """The column of GPU seconds, if any row was trained on a GPU."""
    return (
        {"GPU s": lambda row: number(mean_of(row.gpu_seconds), 0)}
        if any(row.gpu_seconds.any() for row in rows)
        else {}
    )
