"""The section of one task under one protocol: its scores, and what else is known of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import pandas as pd

from posbench.boards.labels import METHOD
from posbench.boards.section import Columns, Detail, Section, at_each, gpu_column, tabulated
from posbench.boards.summaries import Length, Summary, TaskBoard, mean_of
from posbench.core.task import Task
from posbench.showing.table import NOTHING, number, with_interval
from posbench.statistics import likelihoods

DISTANCES_NOTE = (
    "The share of answer tokens that are right, among those that repeat a token of the prompt, "
    "given the right tokens before them (teacher forcing). The first number is for queries that "
    "are no farther from their source than in training, the second for those that are farther, and "
    f"{NOTHING} says that there are none at this length."
)
DEPTH_NOTE = (
    "The same share at {multiple:g}x, by where in the prompt the source stands: 0 is the start, 1 "
    "the end."
)
POSITION_NOTE = (
    "The mean loss of the tokens asked for at {multiple:g}x, in nats a token, by their place in "
    "multiples of the positions of training."
)
LIKELIHOOD_NOTE = (
    "The first number is the log-likelihood of a token of the answer, in nats, as a mean over "
    "samples. The second says by how much it exceeds that of the model without an extension on the "
    "same samples, with the 95 % interval over samples."
)
CHOICES_NOTE = (
    "Settings of an extension were chosen by their loss at a validation length beyond training "
    "that is no test length, learning rates by their loss in distribution. “Defaults” says that "
    "nothing that was tried did better."
)


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
        tabulated(_task_columns(board.lengths) | gpu_column(board.summaries), board.summaries),
        [
            *_likelihoods(board, table),
            *_distances(board),
            *_binned(board, views),
            *_choices(board, choices),
        ],
        board.task,
    )


def _task_columns(lengths: Sequence[Length]) -> Columns:
    return {
        "mean": lambda row: with_interval(row.mean),
        "solved only": lambda row: number(row.mean_of_solved),
        **at_each(lengths, lambda row, multiple: with_interval(row.cells[multiple].accuracy)),
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


def _untrained(row: Summary, lengths: Sequence[Length]) -> str:
    """The untrained share at the longest test in the mean."""
    multiple = max(n.multiple for n in lengths if n.aggregated)
    share = row.cells[multiple].untrained
    return NOTHING if np.isnan(share) else f"{100 * share:.0f} %"


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


def _likelihoods(board: TaskBoard, table: pd.DataFrame | None) -> Iterator[Detail]:
    """How likely answers of pretrained models are, beside the model without extension."""
    if table is None:
        return
    found = likelihoods.of_board(_of_board(board, table))
    if found:
        columns = at_each(
            board.lengths,
            lambda row, multiple: str(found.get((*_row(row), multiple), NOTHING)),
        )
        yield Detail("Log-likelihood", LIKELIHOOD_NOTE, tabulated(columns, board.summaries))


def _distances(board: TaskBoard) -> Iterator[Detail]:
    cells = [cell for row in board.summaries for cell in row.cells.values()]
    if any(not np.isnan(cell.within) or not np.isnan(cell.beyond) for cell in cells):
        table = tabulated(_distance_columns(board.lengths), board.summaries)
        yield Detail("Token accuracy within / beyond the trained distance", DISTANCES_NOTE, table)


def _distance_columns(lengths: Sequence[Length]) -> Columns:
    def both(row: Summary, multiple: float) -> str:
        cell = row.cells[multiple]
        return f"{number(cell.within)} / {number(cell.beyond)}"

    return at_each(lengths, both)


def _of_board(board: TaskBoard, lines: pd.DataFrame) -> pd.DataFrame:
    """Those of the runs of one board."""
    known = board.labels | board.hashes
    return lines[(lines[[*known]] == [*known.values()]).all(axis=1)]


def _row(row: Summary) -> tuple[str, str]:
    """What its runs go by in tables: two rows may have the same settings."""
    return row.label, row.method_hash


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
        sums = weighted.groupby([*METHOD, "above", "up_to"], dropna=False)[
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


def _bin(low: float, high: float) -> str:
    return (
        f"{number(low, 2) if low else '0'}{NOTHING}{number(high, 2)}"
        if np.isfinite(high)
        else f"> {number(low, 2)}"
    )


def _of(means: pd.Series, low: float, high: float) -> Callable[[Summary], str]:
    by_bin = {(*method, above): value for (*method, above, _), value in means.items()}
    return lambda row: number(by_bin.get((*_row(row), low), np.nan))


def _choices(board: TaskBoard, choices: pd.DataFrame | None) -> Iterator[Detail]:
    """What was chosen for every method and seed that had a choice."""
    if choices is None or (mine := _of_board(board, choices)).empty:
        return
    runs = mine[[*METHOD, "seed"]].itertuples(index=False, name=None)
    chosen = dict(zip(runs, map(_settings, mine["chosen"]), strict=True))
    columns = {f"seed {seed}": _by_seed(chosen, seed) for seed in sorted(set(mine["seed"]))}
    known = set(mine[METHOD].itertuples(index=False, name=None))
    rows = [row for row in board.summaries if _row(row) in known]
    yield Detail("What was chosen", CHOICES_NOTE, tabulated(columns, rows))


def _by_seed(chosen: dict[tuple[Any, ...], str], seed: int) -> Callable[[Summary], str]:
    return lambda row: chosen.get((*_row(row), seed), NOTHING)


def _settings(chosen: dict[str, Any]) -> str:
    def shown(value: Any) -> str:
        if isinstance(value, list):
            return f"{len(value)} numbers from {number(min(value))} to {number(max(value))}"
        return f"{value:g}" if isinstance(value, float) else str(value)

    return ", ".join(f"{name} {shown(value)}" for name, value in chosen.items()) or "defaults"
