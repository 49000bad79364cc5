"""The tables and curves of the board, the same for every format."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from posbench.leaderboard.comparisons import Agreement, Discrimination
from posbench.leaderboard.summaries import Length, Overall, Summary, TaskBoard, best_first, mean_of
from posbench.showing.numbers import NOTHING, number, with_interval
from posbench.showing.table import Row, Table
from posbench.statistics import likelihoods
from posbench.task import Task


@dataclass(frozen=True)
class Detail:
    """An additional table of a section."""

    title: str
    note: str
    table: Table


@dataclass(frozen=True)
class Section:
    """What is shown of one task of a protocol, or of a comparison over tasks or protocols."""

    title: str
    notes: list[str]
    table: Table
    details: Sequence[Detail] = ()
    task: str = ""  # the one it is about; "" if it compares tasks or protocols


Columns = dict[str, Callable[[Any], str]]
"""Heading -> a function from a `Summary` or an `Overall` to the text shown."""

DISTANCES_NOTE = (
    "Of answer tokens that repeat a token of the prompt, the right ones, given the right tokens "
    "before them (teacher forcing). Within: the query is no farther from its source than in "
    f"training. Beyond: it is farther. {NOTHING}: no such tokens at this length."
)
DEPTH_NOTE = (
    "Of the same tokens at {multiple:g}x, the right ones by where in the prompt the source "
    "stands: 0 is the start, 1 the end."
)
POSITION_NOTE = (
    "Mean loss, nats a token, of the tokens asked for at {multiple:g}x, by their place in "
    "multiples of the positions of training."
)
LIKELIHOOD_NOTE = (
    "Of a token of the answer, in nats, the mean over samples; then by how much it exceeds that of "
    "the model without extension on the same samples, with the 95 % interval over samples."
)
CHOICES_NOTE = (
    "Settings of an extension by their loss at a validation length beyond training that is no "
    "test length; learning rates by their loss in distribution. Defaults: nothing that was tried "
    "did better."
)
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


def task_section(
    board: TaskBoard,
    views: pd.DataFrame | None = None,
    choices: pd.DataFrame | None = None,
    table: pd.DataFrame | None = None,
) -> Section:
    title = f"{board.task}, protocol {board.protocol}"
    return Section(
        title,
        [_lengths_note(board), *_chance_note(board)],
        tabulated(_task_columns(board.lengths) | _gpu_column(board.summaries), board.summaries),
        [
            *_likelihoods(board, table),
            *_distances(board),
            *_binned(board, views),
            *_choices(board, choices),
        ],
        board.task,
    )


def _likelihoods(board: TaskBoard, table: pd.DataFrame | None) -> Iterator[Detail]:
    """How likely answers of pretrained models are, beside the model without extension."""
    if table is None:
        return
    found = likelihoods.of_board(table, [board.hashes[name] for name in likelihoods.BOARD])
    if found:
        columns = _at_each(
            board.lengths,
            lambda row, multiple: str(found.get((row.method_hash, multiple), NOTHING)),
        )
        yield Detail("Log-likelihood", LIKELIHOOD_NOTE, tabulated(columns, board.summaries))


def _distances(board: TaskBoard) -> Iterator[Detail]:
    cells = [cell for row in board.summaries for cell in row.cells.values()]
    if any(not np.isnan(cell.within) or not np.isnan(cell.beyond) for cell in cells):
        table = tabulated(_distance_columns(board.lengths), board.summaries)
        yield Detail("Token accuracy within / beyond the trained distance", DISTANCES_NOTE, table)


def _of_board(board: TaskBoard, views: pd.DataFrame) -> pd.DataFrame:
    return views[
        (views["task_hash"] == board.hashes["task_hash"])
        & (views["task_version"] == board.hashes["task_version"])
        & (views["protocol_hash"] == board.hashes["protocol_hash"])
    ]


def _binned(board: TaskBoard, views: pd.DataFrame | None) -> Iterator[Detail]:
    """Accuracy by depth of the source, or loss by position if a task has no sources.

    Both are for the longest test in the mean.
    """
    longest = max(
        (n for n in board.lengths if n.aggregated), key=lambda n: n.multiple, default=None
    )
    if views is None or longest is None:
        return
    mine = _of_board(board, views)
    mine = mine[mine["test_length"] == longest.test_length]
    kinds = {
        "depth": ("Token accuracy by depth", DEPTH_NOTE, "token_accuracy_teacher_forced"),
        "position": ("Loss by position", POSITION_NOTE, "loss"),
    }
    for by, (title, note, value) in kinds.items():
        part = mine[mine["by"] == by]
        if part.empty:
            continue
        weighted = part.assign(total=part[value] * part["num_tokens"])
        sums = weighted.groupby(["method_hash", "above", "up_to"], dropna=False)[
            ["total", "num_tokens"]
        ].sum()
        means = sums["total"] / sums["num_tokens"]
        bins = sorted(set(zip(part["above"], part["up_to"].fillna(np.inf), strict=True)))
        if len(bins) < 2:  # the task's rule puts all sources in one place
            continue
        columns = {_bin(*each): _of(means, *each) for each in bins}
        # A ceiling is trained anew at each length, so its training positions differ.
        rows = [row for row in board.summaries if by != "position" or row.method_class != "ceiling"]
        yield Detail(title, note.format(multiple=longest.multiple), tabulated(columns, rows))


def _choices(board: TaskBoard, choices: pd.DataFrame | None) -> Iterator[Detail]:
    """What was chosen for every method and seed that had a choice."""
    if choices is None or (mine := _of_board(board, choices)).empty:
        return
    chosen = {(row.method_hash, row.seed): _settings(row.chosen) for row in mine.itertuples()}
    columns = {f"seed {seed}": _by_seed(chosen, seed) for seed in sorted(set(mine["seed"]))}
    rows = [row for row in board.summaries if row.method_hash in set(mine["method_hash"])]
    yield Detail("What was chosen", CHOICES_NOTE, tabulated(columns, rows))


def _by_seed(chosen: dict[tuple[str, int], str], seed: int) -> Callable[[Summary], str]:
    return lambda row: chosen.get((row.method_hash, seed), NOTHING)


def _settings(chosen: dict[str, Any]) -> str:
    def shown(value: Any) -> str:
        if isinstance(value, list):
            return f"{len(value)} numbers from {number(min(value))} to {number(max(value))}"
        return f"{value:g}" if isinstance(value, float) else str(value)

    return ", ".join(f"{name} {shown(value)}" for name, value in chosen.items()) or "defaults"


def _bin(low: float, high: float) -> str:
    return (
        f"{number(low, 2) if low else '0'}{NOTHING}{number(high, 2)}"
        if np.isfinite(high)
        else f"> {number(low, 2)}"
    )


def _of(means: pd.Series, low: float, high: float) -> Callable[[Summary], str]:
    by_bin = {(method, above): value for (method, above, _), value in means.items()}
    return lambda row: number(by_bin.get((row.method_hash, low), np.nan))


def tasks_section(compared: Sequence[Discrimination], protocol: str) -> Section:
    """What every task is good for."""
    multiples = sorted(set().union(*(task.spread for task in compared)))
    columns: dict[str, Callable[[Discrimination], str]] = {
        "solved": lambda task: f"{task.num_solved}/{task.num_trainings}",
        "CPU s": lambda task: number(task.cpu_seconds, 0),
        "steps": lambda task: number(task.solved_step, 0),
        **{f"spread {m:g}x": _at(lambda task: task.spread, m) for m in multiples},
        **{f"ceiling {m:g}x": _at(lambda task: task.ceiling, m) for m in multiples},
    }
    rows = [Row(task.task, [show(task) for show in columns.values()]) for task in compared]
    note = (
        "Of encodings without an extension. Solved: trainings, one for each encoding and seed, "
        "that get to the gate of the task in the test at 1x. Steps: the median until a validation "
        "did so for the first time. Spread: the standard deviation between encodings of their mean "
        "score, at most .5, over the trainings that solved the task. Ceiling: the score of a model "
        "trained at that length, with the encodings and seeds of the ceiling rows below; a low one "
        "is a training that failed there, and another seed or more steps may not. All of this is "
        "information: no task is chosen by it."
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
        "Spearman's rank correlation, over the zero-shot methods run under both, of their means "
        "beyond the training length over the seeds run under both: 1 where the order is the same, "
        f"{NOTHING} where all methods tie. Same weights: runs that the two protocols train alike, "
        "and so share. Between seeds: the mean correlation of one seed with another under one "
        "protocol. Protocols that agree as well as seeds do cannot be told to differ."
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
        f"A row is a mean over {names}, tasks of unlike difficulty: look at each before you "
        "choose. It is over the seeds that were run on all of them, as are the trainings solved "
        "and the CPU seconds."
    ]
    if not all(row.seeds for row in rows):
        notes.append(
            "Rows without a mean lack some of the tasks; a mean over other tasks would not be "
            "comparable."
        )
    title = f"Mean over {len(tasks)} tasks, protocol {tasks[0].protocol}"
    return Section(title, notes, tabulated(_overall_columns(common) | _gpu_column(rows), rows))


def tabulated(columns: Columns, rows: Sequence[Any]) -> Table:
    shown = [Row(row.method, [show(row) for show in columns.values()], row.mark) for row in rows]
    return Table(["method", *columns], shown)


def _task_columns(lengths: Sequence[Length]) -> Columns:
    return {
        "mean": lambda row: with_interval(row.mean),
        "solved only": lambda row: number(row.mean_of_solved),
        **_at_each(lengths, lambda row, multiple: with_interval(row.cells[multiple].accuracy)),
        "area": lambda row: number(row.area.mean),
        "solved": lambda row: row.shown_solved,
        "effective": lambda row: _multiple(row.effective_95),
        "effective .5": lambda row: _multiple(row.effective_50),
        "steps": lambda row: number(row.solved_step, 0),
        "class": lambda row: row.method_class,
        "untrained": lambda row: _untrained(row, lengths),
        "parameters": lambda row: f"{row.parameters:,}",
        "CPU s": lambda row: number(mean_of(row.cpu_seconds), 0),
    }


def _multiple(value: float) -> str:
    return NOTHING if np.isnan(value) else f"{value:g}x"


def _gpu_column(rows: Sequence[Any]) -> Columns:
    """The column of GPU seconds, if any row was trained on a GPU."""
    return (
        {"GPU s": lambda row: number(mean_of(row.gpu_seconds), 0)}
        if any(row.gpu_seconds.any() for row in rows)
        else {}
    )


def _untrained(row: Summary, lengths: Sequence[Length]) -> str:
    """The untrained share at the longest test in the mean."""
    multiple = max(n.multiple for n in lengths if n.aggregated)
    share = row.cells[multiple].untrained
    return NOTHING if np.isnan(share) else f"{100 * share:.0f} %"


def _overall_columns(lengths: Sequence[Length]) -> Columns:
    return {
        "mean": lambda row: row.shown_mean,
        "solved only": lambda row: number(row.mean_of_solved),
        **_at_each(lengths, lambda row, multiple: number(row.accuracy(multiple))),
        "area": lambda row: number(row.area.mean),
        "seeds": lambda row: str(len(row.seeds)),
        "solved": lambda row: row.shown_solved,
        "class": lambda row: row.method_class,
        "parameters": lambda row: f"{row.parameters:,}",
        "CPU s": lambda row: number(mean_of(row.cpu_seconds), 0),
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
    return (
        f"Trained on n up to {board.train_length} ({board.train_positions} positions); "
        f"tested at n = {tested}."
    )


def _chance_note(board: TaskBoard) -> Iterator[str]:
    if board.measure != Task.measure:
        yield f"The score is the {board.measure}."
        return
    highest = max(n.chance for n in board.lengths)
    same = all(n.chance == highest for n in board.lengths)
    bound = "" if same else "at most "
    yield f"Guessing the answer succeeds with a probability of {bound}{highest:.1g}."
