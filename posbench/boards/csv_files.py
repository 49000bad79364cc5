"""The numbers of a board as CSV: a row a method and test length, and a row a run."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from posbench.boards.labels import BOARD, RUN, TASK
from posbench.boards.measured import Measured
from posbench.boards.summaries import (
    THRESHOLD,
    TaskBoard,
    effective,
    effective_50,
    lengths_of,
    mean_of,
)

FORMULAS = ("=", "+", "-", "@", "\t", "\r", "\n", "＝", "＋", "－", "＠")  # noqa: RUF001
"""Beginnings of what a spreadsheet calculates, in both widths."""


def of_lengths(found: list[list[TaskBoard]]) -> str:
    """The CSV text with one row per method and test length."""
    rows = []
    boards = [board for tasks in found for board in tasks]
    for board, row in ((each, row) for each in boards for row in each.summaries):
        of_row = {
            "mean": row.mean.mean,
            "mean_half_width_95": row.mean.half_width,
            "mean_solved_only": row.mean_of_solved,
            "area": row.area.mean,
            "effective_95": row.effective_95,
            "effective_50": row.effective_50,
            "solved_step": row.solved_step,
            "parameters": row.parameters,
            "train_cpu_seconds": mean_of(row.cpu_seconds),
            "train_gpu_seconds": mean_of(row.gpu_seconds),
            "method_hash": row.method_hash,
            **board.hashes,
        }
        for length in board.lengths:
            cell = row.cells[length.multiple]
            rows.append(
                {
                    "protocol": board.protocol,
                    "task": board.task,
                    "measure": board.measure,
                    "method": row.method,
                    "class": row.method_class,
                    "multiple": length.multiple,
                    "test_length": length.test_length,
                    "aggregated": length.aggregated,
                    "seeds": len(row.scores),
                    "seeds_solved": row.num_solved if row.tested_at_1x.any() else None,
                    "score": cell.accuracy.mean,
                    "half_width_95": cell.accuracy.half_width,
                    "lowest": cell.lowest,
                    "highest": cell.highest,
                    "chance": length.chance,
                    "token_accuracy_teacher_forced": cell.token_accuracy,
                    "token_accuracy_within_trained_distance": cell.within,
                    "token_accuracy_beyond_trained_distance": cell.beyond,
                    "loss": cell.loss,
                    "untrained": cell.untrained,
                    **of_row,
                }
            )
    return _text(pd.DataFrame(rows))


def of_runs(measured: Measured) -> str:
    """The CSV text with one row per run."""
    return _text(per_run(measured))


def _text(table: pd.DataFrame) -> str:
    texts = table.select_dtypes(["object", "string"]).columns
    table = table.assign(**{name: [_no_formula(each) for each in table[name]] for name in texts})
    return table.to_csv(index=False, float_format="%.6g", lineterminator="\n")


def _no_formula(value: Any) -> Any:
    """A text as a spreadsheet shows it, which would calculate what begins like a formula."""
    return f"'{value}" if isinstance(value, str) and value.startswith(FORMULAS) else value


def per_run(measured: Measured) -> pd.DataFrame:
    """One row per run: what it was, how far it got, what it cost."""
    rows = []
    ordered = measured.with_areas
    tested = {task: lengths_of(part) for task, part in ordered.groupby([*BOARD, *TASK])}
    # Plain arrays, cut at the ends of runs: a data frame for each of 10,000 runs takes too long.
    kinds = ordered.groupby(RUN, sort=True).ngroup().to_numpy()
    order = np.argsort(kinds, kind="stable")
    ordered, kinds = ordered.iloc[order], kinds[order]
    starts = np.flatnonzero(np.diff(kinds, prepend=-1))
    multiples, scores = (ordered[name].to_numpy() for name in ("multiple", "score"))
    for start, end, first in zip(
        starts,
        [*starts[1:], len(ordered)],
        ordered.iloc[starts].to_dict("records"),
        strict=True,
    ):
        lengths = tested[tuple(first[name] for name in [*BOARD, *TASK])]
        # A run that lacks a length has NaN there and so no mean, because a mean over other lengths
        # would not be comparable.
        by_multiple = dict.fromkeys((n.multiple for n in lengths), np.nan)
        by_multiple |= dict(zip(multiples[start:end], scores[start:end], strict=True))
        tested_at_1x = not np.isnan(by_multiple.get(1.0, np.nan))
        learned = bool(first["solved"]) or not np.isnan(first["solved_step"])
        rows.append(
            {
                "protocol": first["protocol_name"],
                "task": first["task_name"],
                "method": first["row"],
                "class": first["method_class"],
                "seed": first["seed"],
                "in_distribution": by_multiple.get(1.0, np.nan),
                "learned": learned if tested_at_1x or learned else None,
                "solved": first["solved"] if tested_at_1x else None,
                "solved_step": first["solved_step"],
                "mean": mean_of([by_multiple[n.multiple] for n in lengths if n.in_mean]),
                "area": first["area"],
                "effective_95": effective(by_multiple, THRESHOLD),
                "effective_50": effective_50(by_multiple, lengths),
                "parameters": first["parameters"],
                "train_cpu_seconds": first["train_cpu_seconds"],
                "train_gpu_seconds": first["train_gpu_seconds"],
                "training_hash": first["training_hash"],
                "method_hash": first["method_hash"],
            }
        )
    return pd.DataFrame(rows)
