"""Whether anything in the scores of a few rows is implausible. It decides nothing."""

from __future__ import annotations

from collections.abc import Iterable

import pandas as pd

from posbench.config.board import Board
from posbench.pilots.panel import Choice, of_panel
from posbench.records.record import Record
from posbench.showing.table import number

LOOKED_AT = (1, 2, 4, 8)
"""Lengths at which scores are shown, in multiples."""


def look(records: Iterable[Record], panel: Board) -> Choice:
    """The scores of a few rows, as they are shown on the board, means over seeds."""
    rows = [
        {
            "task": record.task.name,
            "row": record.method.name,
            "length": f"{test.multiple:g}x",
            "score": test.score,
        }
        for several in of_panel(records, panel).values()
        for record in several
        for test in record.rows
        if test.multiple in LOOKED_AT
    ]
    frame = pd.DataFrame(rows).groupby(["task", "row", "length"])["score"].mean()
    cells = frame.map(number).unstack("length")[[f"{multiple:g}x" for multiple in LOOKED_AT]]
    return Choice(
        "Rows that were looked at closely: scores by length",
        cells.reset_index(),
        "Nothing is decided by this panel; what was seen stands in look.md",
    )
