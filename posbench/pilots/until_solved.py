"""Whether the order of encodings rests on equal steps. It decides nothing."""

from __future__ import annotations

from collections.abc import Iterable

import pandas as pd

from posbench.config.board import Board
from posbench.pilots.panel import Choice, area_of, of_panel
from posbench.records.record import Record
from posbench.statistics.correlation import rank_correlation


def until_solved(records: Iterable[Record], panel: Board) -> Choice:
    """Whether encodings keep their order if each is trained until it has learned its task."""
    rows = [
        {
            "encoding": record.method.base,
            "trained": name,
            "area": area_of(record),
            "steps": record.training.steps,
        }
        for name, several in of_panel(records, panel).items()
        for record in several
    ]
    means = pd.DataFrame(rows).pivot_table(index="encoding", columns="trained")
    areas, steps = means["area"][list(panel.parts)], means["steps"][list(panel.parts)]
    table = pd.concat(
        [
            areas.round(3).add_prefix("area, "),
            steps.map("{:,.0f}".format).add_prefix("mean steps, "),
        ],
        axis=1,
    )
    correlation = rank_correlation(areas.iloc[:, 0], areas.iloc[:, 1])
    return Choice(
        "Equal steps or equal proficiency: areas, means over the tasks",
        table.reset_index(),
        f"Rank correlation {correlation:.2f}; nothing is decided by it",
    )
