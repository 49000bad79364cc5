"""What boards are shown in, in Markdown and in a terminal: sections with tables."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from posbench.showing.table import Table


@dataclass(frozen=True)
class Detail:
    """An additional table of a section."""

    title: str
    note: str
    table: Table


@dataclass(frozen=True)
class Section:
    """What is ranked together, or one task."""

    title: str
    notes: Sequence[str]
    table: Table
    short: Table | None = None  # for a terminal; None: it is not shown there
    details: Sequence[Detail] = ()
