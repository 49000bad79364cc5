"""At which rate rows are trained: the one choice that looks at tests beyond the training length."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import pandas as pd

from posbench.config.board import Board
from posbench.pilots.panel import Choice, area_of, of_panel
from posbench.records.record import Record, Training
from posbench.statistics.correlation import rank_correlation

AGREE = 0.9
"""The rank correlation from which on one learning rate is fair to all."""
USUAL, OTHER = 3e-3, 6e-3
"""The learning rate of the protocol, and the one beside it where it is not fair."""


def rates(records: Iterable[Record], panel: Board) -> Choice:
    """Whether the order of encodings at the usual rate is that at each one's best rate."""
    rows = []
    for record in (each for several in of_panel(records, panel).values() for each in several):
        training = record.training
        rows.append(
            {
                "encoding": record.method.base,
                "task": record.task.name,
                "rate": training.learning_rate,
                "loss": _last(training),
                "area": area_of(record),
            }
        )
    frame = pd.DataFrame(rows)
    best = frame.loc[frame.groupby(["encoding", "task"])["loss"].idxmin()]
    usual = frame[frame["rate"] == USUAL].groupby("encoding")["area"].mean()
    at_best = best.groupby("encoding")["area"].mean()
    correlation = rank_correlation(usual, at_best)
    table = best.pivot(index="encoding", columns="task", values="rate").map("{:g}".format)
    table[f"area at {USUAL:g}"] = usual.round(3)
    table["area at those"] = at_best.round(3)
    fair = correlation >= AGREE
    then = (
        f"every row is trained at {USUAL:g}"
        if fair
        else f"every row is trained at the better of {USUAL:g} and {OTHER:g}, by its loss"
    )
    return Choice(
        "Learning rates: that with the lowest loss in distribution of each encoding on each task, "
        "and mean areas beyond training at the usual rate and at those",
        table.reset_index(),
        f"Rank correlation {correlation:.2f}: {then}",
    )


def _last(training: Training) -> float:
    return training.curve.validation_loss[-1] if training.curve.validation_loss else np.inf
