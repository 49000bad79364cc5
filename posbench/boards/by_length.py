"""Rows by test length: the frame behind the tables of tasks, leaderboard.csv and runs.csv."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pandas as pd
from scipy import special

from posbench.boards.measured import SHOWN, Measured
from posbench.showing.table import csv
from posbench.statistics.aggregates import CONFIDENCE, FEWEST, zero_shot_first

ROW = SHOWN[:-1]
SAID = {
    "measure": "measure",
    "method_class": "class",
    "multiple": "multiple",
    "aggregated": "aggregated",
    "chance": "chance",
    "parameters": "parameters",
    "method_hash": "method_hash",
    "protocol_hash": "protocol_hash",
    "task_hash": "task_hash",
    "task_version": "task_version",
}
"""Columns that all seeds of a row have alike, with their names here."""
MEANS = (
    "token_accuracy_teacher_forced",
    "token_accuracy_within_trained_distance",
    "token_accuracy_beyond_trained_distance",
    "loss",
    "untrained",
    "train_cpu_seconds",
    "train_gpu_seconds",
    "solved_step",
)
"""Columns that are averaged over seeds as they are, what is unknown left out."""


def by_length(measured: Measured) -> pd.DataFrame:
    """One line a row of a task and test length; classes in their order, best first.

    `score` is the mean over seeds, `half_width_95` half of its interval (Student's t, from three
    seeds on). `reaches`, the mean area of trainings that learned, `learned`, their number, and
    `seeds_at_1x` are those of the row. Seeds that climbed to a length beyond those that count
    are no fair sample of all: its score is NaN unless each did.
    """
    known = measured.lengths
    lines = known.groupby([*ROW, "test_length"], sort=True)
    score = lines["score"]
    told = lines[list(SAID)].first().rename(columns=SAID)
    found = told.assign(
        score=score.mean(),
        half_width_95=_half_widths(score),
        lowest=score.min(),
        highest=score.max(),
        **{name: lines[name].mean() for name in MEANS if name in known},
    )
    rows = known.groupby(ROW)["seed"].nunique()
    found["seeds"] = rows.reindex(found.index.droplevel("test_length")).to_numpy()
    partial = ~found["aggregated"].astype(bool) & (score.count() < found["seeds"])
    found.loc[partial, ["score", "half_width_95", "lowest", "highest"]] = np.nan
    runs = measured.runs.assign(known=measured.runs["in_distribution"].notna())
    areas = runs["area"].where(runs["trained"]).groupby([runs[name] for name in ROW])
    of_row = pd.DataFrame(
        {
            "reaches": areas.mean(),
            "reaches_half_width_95": _half_widths(areas),
            "learned": (runs["trained"] & runs["known"]).groupby([runs[n] for n in ROW]).sum(),
            "seeds_at_1x": runs.groupby(ROW)["known"].sum(),
        }
    )
    found = found.reset_index().merge(of_row, how="left", left_on=ROW, right_index=True)
    for name in ("learned", "seeds_at_1x"):  # a row without a test from 1x on is no run there
        found[name] = found[name].fillna(0).astype(int)
    order = found.assign(
        first=found["class"].map(zero_shot_first), best=-found["reaches"].fillna(-1.0)
    ).sort_values(
        ["protocol_name", "task_name", "first", "best", "row", "test_length"], kind="stable"
    )
    return found.loc[order.index].reset_index(drop=True)


def _half_widths(values: pd.core.groupby.SeriesGroupBy) -> pd.Series:
    """Half of the 95 % interval of each mean, by Student's t; NaN below three values."""
    count = values.count()
    quantile = special.stdtrit((count - 1).clip(lower=1), (1 + CONFIDENCE) / 2)
    return (quantile * values.std() / np.sqrt(count)).where(count >= FEWEST)


def lengths_csv(lines: pd.DataFrame) -> str:
    """leaderboard.csv: see `lengths_frame`."""
    return csv(lengths_frame(lines))


def lengths_frame(lines: pd.DataFrame) -> pd.DataFrame:
    """A line a row of a task and test length."""
    first = ["protocol_name", "task_name", "measure", "row", "class", "multiple", "test_length"]
    rest = [name for name in lines if name not in first]
    return _renamed(lines[[*first, *rest]])


def runs_csv(measured: Measured) -> str:
    """runs.csv: see `runs_frame`."""
    return csv(runs_frame(measured))


def runs_frame(measured: Measured) -> pd.DataFrame:
    """A line a run, with the measures by which rows are ranked."""
    once = measured.lengths.drop_duplicates(SHOWN)
    more = ["solved_step", "parameters", "train_gpu_seconds", "training_hash", "method_hash"]
    again = ["steps_to_gate", "multiplications"]  # the first is `solved_step`
    runs = measured.runs.drop(columns=["protocol", "task", "training", *again])
    runs["reach_low"] = [each.low for each in runs["reach"]]
    runs["reach_high"] = [each.high for each in runs.pop("reach")]
    for name in ("learned", "trained"):
        runs[name] = runs[name].astype(object).where(runs["in_distribution"].notna())
    found = runs.merge(once[[*SHOWN, *more]], on=SHOWN, how="left")
    return _renamed(found.sort_values(SHOWN, kind="stable"))


def _renamed(table: pd.DataFrame) -> pd.DataFrame:
    named = {"protocol_name": "protocol", "task_name": "task", "row": "method"}
    named["cpu_seconds"] = "train_cpu_seconds"
    return table.rename(columns=named)


@dataclass(frozen=True)
class TaskRows:
    """The rows of one task of a protocol, one line each, best first."""

    protocol: str
    name: str
    note: str
    lengths: dict[int, str]  # n -> heading, in brackets where a length does not count
    rows: pd.DataFrame  # by row: class, reaches, learned, ..., and a column an n


def task_rows(lines: pd.DataFrame, measured: Measured) -> Iterator[TaskRows]:
    """Every task, from the lines of `by_length`."""
    trained = measured.lengths.groupby(ROW[:2])["train_positions"].first()
    for (protocol, task), part in lines.groupby(ROW[:2], sort=True):
        tested = part[part["multiple"] >= 1].drop_duplicates("test_length")
        tested = tested.sort_values("test_length")
        lengths = {
            int(n): f"{multiple:g}x" if counts else f"({multiple:g}x)"
            for n, multiple, counts in tested[["test_length", "multiple", "aggregated"]].itertuples(
                index=False, name=None
            )
        }
        scores = part.pivot(index="row", columns="test_length", values="score")
        rows = part.drop_duplicates("row").set_index("row").join(scores)
        yield TaskRows(
            str(protocol),
            str(task),
            f"{part.iloc[0]['measure']}; trained on {trained[protocol, task]} positions, tested "
            f"at n = {', '.join(map(str, lengths))}",
            lengths,
            rows,
        )
