"""The tables and curves of the board, the same for every format."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from posbench import figures
from posbench.summaries import NOTHING, Length, Overall, Summary, TaskBoard, best_first, number


@dataclass(frozen=True)
class Row:
    name: str
    cells: list[str]
    mark: str = ""  # shown beside the name
    curve: str = ""  # id of its curve in the SVG


@dataclass(frozen=True)
class Table:
    headings: list[str]
    rows: list[Row]


@dataclass(frozen=True)
class Section:
    """One task of a protocol, or all of them."""

    title: str
    notes: list[str]
    table: Table
    curves: str = ""  # SVG
    distances: Table | None = None

    @property
    def anchor(self) -> str:
        return anchor(self.title)


Columns = dict[str, Callable[[Any], str]]
"""Heading -> what it shows of a `Summary` or an `Overall`."""

DISTANCES = "Token accuracy within / beyond the trained distance"
DISTANCES_NOTE = (
    "Of answer tokens that repeat a token of the prompt, the right ones, given the right tokens before them (teacher "
    "forcing). Within: the query is no farther from its source than in training. Beyond: it is farther. "
    f"{NOTHING}: no such tokens at this length."
)
DETAILS = ("class", "steps", "untrained", "parameters", "CPU s")
"""Columns that the terminal has no room for."""


def sections(found: list[list[TaskBoard]]) -> list[Section]:
    """Of each protocol first all tasks together, then each."""
    shown = []
    for tasks in found:
        # A task whose settings were changed, as its name then says, is somebody's experiment: its own table only.
        as_shipped = [board for board in tasks if "(" not in board.task]
        if len(as_shipped) > 1:
            shown.append(overall_section(as_shipped))
        shown += [task_section(board) for board in tasks]
    return shown


def task_section(board: TaskBoard) -> Section:
    title = f"{board.task}, protocol {board.protocol}"
    ids = [f"curve-{anchor(title)}-{index}" for index in range(len(board.summaries))]
    return Section(
        title,
        [_lengths_note(board), _chance_note(board)],
        tabulated(_task_columns(board.lengths), board.summaries, ids),
        figures.accuracy_by_length(_curves(board), [n.multiple for n in board.lengths], anchor(title)),
        tabulated(_distance_columns(board.lengths), board.summaries, ids),
    )


def overall_section(tasks: list[TaskBoard]) -> Section:
    by_method: dict[tuple[str, str], list[Summary]] = {}
    for board in tasks:
        for summary in board.summaries:
            by_method.setdefault((summary.method, summary.method_hash), []).append(summary)
    rows = best_first(Overall(parts, len(tasks)) for parts in by_method.values())
    common = [n for n in tasks[0].lengths if all(n.multiple in {m.multiple for m in task.lengths} for task in tasks)]
    names = ", ".join(board.task for board in tasks)
    notes = [f"A row is a mean over {names}, tasks of unlike difficulty: look at each before you choose."]
    if not all(row.seeds for row in rows):
        notes.append("Rows without a mean lack some of the tasks; a mean over other tasks would not be comparable.")
    title = f"Mean over {len(tasks)} tasks, protocol {tasks[0].protocol}"
    return Section(title, notes, tabulated(_overall_columns(common), rows))


def tabulated(columns: Columns, rows: Sequence[Any], ids: Sequence[str] = ()) -> Table:
    shown = [[show(row) for show in columns.values()] for row in rows]
    curves = ids or [""] * len(rows)
    return Table(
        ["method", *columns],
        [Row(row.method, cells, row.mark, curve) for row, cells, curve in zip(rows, shown, curves, strict=True)],
    )


def _task_columns(lengths: Sequence[Length]) -> Columns:
    return {
        "mean": lambda row: str(row.mean),
        "solved only": lambda row: number(row.mean_of_solved),
        **_at_each(lengths, lambda row, multiple: str(row.cells[multiple].accuracy)),
        "solved": lambda row: f"{row.num_solved}/{len(row.solved)}",
        "effective": lambda row: NOTHING if np.isnan(row.effective) else f"{row.effective:g}x",
        "steps": lambda row: number(row.solved_step, 0),
        "class": lambda row: row.method_class,
        "untrained": lambda row: _untrained(row, lengths),
        "parameters": lambda row: f"{row.parameters:,}",
        "CPU s": lambda row: number(row.cpu_seconds, 0),
    }


def _untrained(row: Summary, lengths: Sequence[Length]) -> str:
    """At the longest test that counts."""
    multiple = max(n.multiple for n in lengths if n.aggregated)
    share = row.cells[multiple].untrained
    return NOTHING if np.isnan(share) else f"{100 * share:.0f} %"


def _overall_columns(lengths: Sequence[Length]) -> Columns:
    return {
        "mean": lambda row: row.shown_mean,
        "solved only": lambda row: number(row.mean_of_solved),
        **_at_each(lengths, lambda row, multiple: number(row.accuracy(multiple))),
        "solved": lambda row: row.solved,
        "class": lambda row: row.method_class,
        "parameters": lambda row: f"{row.parameters:,}",
        "CPU s": lambda row: number(row.cpu_seconds, 0),
    }


def _distance_columns(lengths: Sequence[Length]) -> Columns:
    def both(row: Summary, multiple: float) -> str:
        cell = row.cells[multiple]
        return f"{number(cell.within)} / {number(cell.beyond)}"

    return _at_each(lengths, both)


def _at_each(lengths: Sequence[Length], show: Callable[[Any, float], str]) -> Columns:
    def at(multiple: float) -> Callable[[Any], str]:
        return lambda row: show(row, multiple)

    return {n.heading: at(n.multiple) for n in lengths}


def _lengths_note(board: TaskBoard) -> str:
    tested = ", ".join(f"{n.test_length} ({n.total_length} tokens)" for n in board.lengths)
    return f"Trained on n up to {board.train_length} ({board.train_positions} positions); tested at n = {tested}."


def _chance_note(board: TaskBoard) -> str:
    highest = max(n.chance for n in board.lengths)
    same = all(n.chance == highest for n in board.lengths)
    return f"Guessing the answer succeeds with a probability of {'' if same else 'at most '}{highest:.1g}."


def _curves(board: TaskBoard) -> list[figures.Curve]:
    return [
        figures.Curve(
            summary.method,
            board.looks[summary.method, summary.method_hash],
            list(summary.cells),
            [cell.accuracy.mean for cell in summary.cells.values()],
            [cell.accuracy.half for cell in summary.cells.values()],
        )
        for summary in board.summaries
    ]


def anchor(title: str) -> str:
    return "".join(character if character.isalnum() else "-" for character in title.lower())
