"""The sections of each protocol: means over its tasks, what they tell apart, and every task; then
how protocols agree.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence

import numpy as np
import pandas as pd

from posbench.boards.comparisons import Agreement, Discrimination
from posbench.boards.overall import Overall
from posbench.boards.section import Columns, Section, at_each, gpu_column, tabulated
from posbench.boards.summaries import Length, Summary, TaskBoard, best_first, mean_of
from posbench.boards.task_sections import task_section
from posbench.showing.table import NOTHING, Row, Table, number

DETAILS = (
    "area",
    "effective .5",
    "seeds",
    "class",
    "steps",
    "untrained",
    "parameters",
    "CPU s",
    "GPU s",
)
"""Columns that the terminal has no room for."""


def sections(
    found: list[list[TaskBoard]],
    views: pd.DataFrame | None = None,
    tasks_compared: Sequence[Sequence[Discrimination]] = (),
    protocols_compared: Sequence[Agreement] = (),
    choices: pd.DataFrame | None = None,
    table: pd.DataFrame | None = None,
) -> list[Section]:
    """All sections, protocol by protocol.

    A protocol begins with the means over its tasks, then shows what the tasks tell apart, then
    every task. The comparison of protocols comes last.
    """
    shown = []
    for tasks, compared in itertools.zip_longest(found, tasks_compared, fillvalue=()):
        # A task whose settings were changed is somebody's experiment: only a table of its own.
        as_shipped = [board for board in tasks if not board.changed]
        for measure in sorted({board.measure for board in as_shipped}):  # unlike ones have no mean
            same = [board for board in as_shipped if board.measure == measure]
            if len(same) > 1:
                shown.append(overall_section(same))
        if len(compared) > 1:
            shown.append(tasks_section(compared, as_shipped[0].protocol))
        shown += [task_section(board, views, choices, table) for board in tasks]
    return [*shown, agreement_section(protocols_compared)] if protocols_compared else shown


def overall_section(tasks: list[TaskBoard]) -> Section:
    by_method: dict[tuple[str, str], list[Summary]] = {}
    for board in tasks:
        for summary in board.summaries:
            by_method.setdefault((summary.method, summary.method_hash), []).append(summary)
    rows = best_first(Overall(parts, len(tasks)) for parts in by_method.values())
    common = [
        n
        for n in tasks[0].lengths
        if all(n.multiple in {m.multiple for m in task.lengths} for task in tasks)
    ]
    names = ", ".join(board.task for board in tasks)
    notes = [
        f"A row is a mean over {names}, and over the seeds that were run on all of them, as are "
        "the trainings solved and the CPU seconds. The tasks differ in difficulty, so look at each "
        "before you choose."
    ]
    if not all(row.seeds for row in rows):
        notes.append(
            "Rows without a mean lack some of the tasks; a mean over other tasks would not be "
            "comparable."
        )
    title = f"Mean over {len(tasks)} tasks, protocol {tasks[0].protocol}"
    return Section(title, notes, tabulated(_overall_columns(common) | gpu_column(rows), rows))


def _overall_columns(lengths: Sequence[Length]) -> Columns:
    return {
        "mean": lambda row: row.shown_mean,
        "solved only": lambda row: number(row.mean_of_solved),
        **at_each(lengths, lambda row, multiple: number(row.accuracy(multiple))),
        "area": lambda row: number(row.area.mean),
        "seeds": lambda row: str(len(row.seeds)),
        "solved": lambda row: row.shown_solved,
        "class": lambda row: row.method_class,
        "parameters": lambda row: f"{row.parameters:,}",
        "CPU s": lambda row: number(mean_of(row.cpu_seconds), 0),
    }


def tasks_section(compared: Sequence[Discrimination], protocol: str) -> Section:
    """What every task is good for."""
    multiples = sorted(set().union(*(task.spread for task in compared)))
    columns: dict[str, Callable[[Discrimination], str]] = {
        "solved": lambda task: f"{task.num_solved}/{task.num_trainings}",
        "by encodings": lambda task: str(task.num_encodings),
        "CPU s": lambda task: number(task.cpu_seconds, 0),
        "steps": lambda task: number(task.solved_step, 0),
        **{f"spread {m:g}x": _at(lambda task: task.spread, m) for m in multiples},
        **{f"ceiling {m:g}x": _at(lambda task: task.ceiling, m) for m in multiples},
    }
    rows = [Row(task.task, [show(task) for show in columns.values()]) for task in compared]
    note = (
        "The table covers encodings without an extension. A training, one for each encoding and "
        "seed, solves a task if it gets to the gate of the task in the test at 1x; “by encodings” "
        "says how many encodings those that do have. The steps are the median until a validation "
        "got there for the first time. The spread is the standard deviation between these "
        "encodings of their mean score, over the trainings that solved the task. The "
        "ceiling is the score of a model trained at that length, with the encodings and seeds of "
        "the ceiling rows below; a low one is a training that failed there, and another seed or "
        "more steps may not. All of this is information: no task is chosen by it."
    )
    return Section(
        f"What tasks tell apart, protocol {protocol}", [note], Table(["task", *columns], rows)
    )


def _at(
    values: Callable[[Discrimination], dict[float, float]], multiple: float
) -> Callable[[Discrimination], str]:
    return lambda task: number(values(task).get(multiple, np.nan))


def agreement_section(compared: Sequence[Agreement]) -> Section:
    rows = [
        Row(
            each.task,
            [
                " / ".join(each.protocols),
                str(each.num_methods),
                str(each.num_seeds),
                f"{each.num_shared}/{each.num_methods * each.num_seeds}",
                number(each.correlation),
                number(each.between_seeds),
                " / ".join(each.first),
            ],
        )
        for each in compared
    ]
    note = (
        "The rank correlation is Spearman's, between the means beyond the training length of the "
        "zero-shot methods run under both protocols, over the seeds run under both. It is 1 where "
        f"the order is the same, and {NOTHING} where all methods tie. “Same weights” counts the "
        "runs that the two protocols train alike, and so share. “Between seeds” is the mean "
        "correlation of one seed with another under one protocol. Protocols that agree as well as "
        "seeds do cannot be told to differ."
    )
    headings = [
        "task",
        "protocols",
        "methods",
        "seeds",
        "same weights",
        "rank correlation",
        "between seeds",
        "best under each",
    ]
    return Section("Do protocols agree on the order?", [note], Table(headings, rows))
