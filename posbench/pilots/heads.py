"""How many heads the model has: as many as solve the tasks in the fewest seconds."""

from __future__ import annotations

from collections.abc import Iterable

import pandas as pd

from posbench.config.board import Board
from posbench.pilots.panel import Choice, of_panel
from posbench.records.record import Record


def heads(records: Iterable[Record], panel: Board) -> Choice:
    """CPU seconds to solved, or of all steps, with each number of heads; the fewest in all win."""
    rows = [
        {
            "encoding": record.method.base,
            "task": record.task.name,
            "heads": part,
            "seconds": record.training.cpu_seconds,
            "solved": record.solved_step is not None,
        }
        for part, several in of_panel(records, panel).items()
        for record in several
    ]
    frame = pd.DataFrame(rows)
    sums = frame.groupby("heads")["seconds"].sum()
    solved = frame.groupby("heads")["solved"].sum()
    each = frame.groupby(["encoding", "task", "heads"]).agg({"seconds": "sum", "solved": "sum"})
    cells = each["seconds"].round().astype(int).astype(str) + " (" + each["solved"].astype(str)
    shown = (cells + ")").unstack("heads").reset_index()
    said = ", ".join(f"{part}: {sums[part]:,.0f} s, {solved[part]} solved" for part in sums.index)
    return Choice(
        "Heads: CPU seconds to solved, over both seeds (seeds solved)",
        shown,
        f"{sums.idxmin()} ({said}; of {len(frame) // len(sums)} each)",
    )
