"""Whether the newer methods learn at all. It decides nothing."""

from __future__ import annotations

from collections.abc import Iterable

import pandas as pd

from posbench.config.board import Board
from posbench.pilots.panel import Choice, of_panel
from posbench.records.record import Record


def newer(records: Iterable[Record], panel: Board) -> Choice:
    """Whether methods learn at all: the steps to the gate of each seed, and CPU seconds."""
    rows = [
        {
            "row": record.method.base,
            "task": record.task.name,
            "steps": "never" if record.solved_step is None else f"{record.solved_step:,}",
            "seconds": record.training.cpu_seconds,
            "solved": record.solved_step is not None,
        }
        for several in of_panel(records, panel).values()
        for record in several
    ]
    frame = pd.DataFrame(rows)
    each = frame.groupby(["row", "task"]).agg(
        {"steps": ", ".join, "seconds": "mean", "solved": "any"}
    )
    cells = each["steps"] + " (" + each["seconds"].round().astype(int).astype(str) + " s)"
    unsolved = [f"{row} on {task}" for (row, task), made in each.iterrows() if not made["solved"]]
    return Choice(
        "Newer methods: the step to the gate with each seed (mean CPU seconds)",
        cells.unstack("task")[list(panel.all_tasks)].reset_index(),
        f"Not solved with any seed: {', '.join(unsolved) or 'none'}",
    )
