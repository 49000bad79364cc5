"""For how many steps each task is trained. It looks at validations at the training length alone."""

from __future__ import annotations

from collections.abc import Iterable

import pandas as pd

from posbench.config.board import Board
from posbench.pilots.panel import Choice, of_panel
from posbench.records.record import Record

STEPS = (1000, 2000, 4000)
"""The steps that a task may have; a training that never gets to its gate counts as the last."""


def steps(records: Iterable[Record], panel: Board) -> Choice:
    """Twice the median step to the gate of each task, rounded up to one of STEPS."""
    rows = []
    for record in (each for several in of_panel(records, panel).values() for each in several):
        step = STEPS[-1] if record.solved_step is None else record.solved_step
        rows.append({"task": record.task.name, "encoding": record.method.base, "step": step})
    frame = pd.DataFrame(rows)
    medians = frame.groupby("task")["step"].median()
    of_encodings = frame.groupby(["task", "encoding"])["step"].median().unstack("encoding")
    table = of_encodings.reindex(list(panel.all_tasks)).astype(int)
    table["median"] = medians
    table["steps"] = [chosen_steps(medians[task]) for task in table.index]
    return Choice(
        "Steps: the median step to the gate over three seeds (4,000: not reached), and twice the "
        "median over encodings, rounded up to 1,000, 2,000 or 4,000",
        table.reset_index(),
        ", ".join(f"{task}: {count:,}" for task, count in table["steps"].items()),
    )


def chosen_steps(median: float) -> int:
    """Twice the median, rounded up to one of STEPS, of which the last is the most."""
    return next((count for count in STEPS if 2 * median <= count), STEPS[-1])
