"""The parts of a board: which of its rows have been run, and on which of its tasks."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd

from posbench.base.wording import counted
from posbench.boards.labels import SHOWN
from posbench.boards.measured import Measured
from posbench.config.board import AS_TRAINED, Board, Rows
from posbench.config.board_rows import pairs

MOST = 0.9
"""The share of rows that must have a task, or a seed of it, for it to count; the tasks and seeds
that the most rows have count in any case.

A sweep goes from task to task. While it is in the middle of one, rows that it has not come to yet
would lose their place, and the best of the others would be called the first.
"""


ROW = ["encoding", "extension", "changed"]
"""What a board asks for, as the long table has it; see `posbench.config.board_rows.pairs`."""


@dataclass(frozen=True)
class Part:
    """The runs of one part of a board, one line a run, with what is known of each row."""

    title: str
    rows: Rows
    runs: pd.DataFrame  # see `posbench.statistics.aggregates`
    unrun: int = 0  # how many rows it asks for that have no run

    def __len__(self) -> int:
        return int(self.runs["row"].nunique())

    @property
    def is_of_a_host(self) -> bool:
        """Whether its rows are extensions of one encoding."""
        return len(self.rows.encodings) == 1 and len(self.rows.extensions) > 1

    @property
    def as_trained(self) -> str:
        """The row of the encoding that all rows extend, without an extension; "" if they do not."""
        encodings, extensions = self.rows.encodings, self.rows.extensions
        return encodings[0] if len(encodings) == 1 and AS_TRAINED in extensions else ""

    def asked(self, board: Board) -> Sequence[str]:
        """The tasks that the board asks for."""
        return self.rows.tasks or board.all_tasks

    def lacking(self, board: Board) -> list[str]:
        """The tasks asked for that fewer than nine in ten of its rows have a run on."""
        rows = self.runs.groupby("task")["row"].nunique()
        enough = min(MOST * max(len(self), 1), rows.max())
        return [task for task in self.asked(board) if rows.get(task, 0) < enough]

    def lacks(self, board: Board) -> str:
        """The lacking tasks in a sentence; "" if there are none."""
        if not (lacking := self.lacking(board)):
            return ""
        return f"{self.how_far(board)}: too few rows have been run on {', '.join(lacking)}."

    def how_far(self, board: Board) -> str:
        """How many of the tasks it is ranked on."""
        asked = self.asked(board)
        known = len(asked) - len(self.lacking(board))
        return f"Under way, and ranked on {known} of {counted(len(asked), 'task')}"

    def whole(self, board: Board) -> pd.DataFrame:
        """The runs of groups that lack no task."""
        halves = {board.group_of.get(task, task) for task in self.lacking(board)}
        return self.runs[~self.runs["group"].isin(halves)]

    def on_common_tasks(self, board: Board) -> Part:
        """The part without the tasks that too few rows have."""
        return replace(self, runs=self.runs[~self.runs["task"].isin(self.lacking(board))])

    def on_common_runs(self, board: Board) -> Part:
        """That, and on each task without the seeds that too few of its rows have: these would be
        compared with other luck.
        """
        runs = self.on_common_tasks(board).runs
        rows = runs.groupby("task")["row"].transform("nunique")
        having = runs.groupby(["task", "seed"])["row"].transform("nunique")
        most = having.groupby(runs["task"]).transform("max")
        return replace(self, runs=runs[having >= np.minimum(MOST * rows, most)])

    @functools.cached_property
    def cost(self) -> pd.Series:
        """CPU seconds of training, by row: the mean over its tasks, each the mean of its seeds."""
        of_tasks = self.runs.groupby(["row", "task"])["cpu_seconds"].mean()
        return of_tasks.groupby("row").mean()


def parts(board: Board, measured: Measured) -> list[Part]:
    """Each part of the board that has a run, in the board's order."""
    once = measured.lengths.drop_duplicates(SHOWN)
    once = once[~once["task_changed"] & once["task"].isin(board.all_tasks)]
    once = _of_one_kind(once, "task", ["task_version", "task_hash"])
    once = _of_one_kind(once, "protocol", ["protocol_hash"])
    methods = list(once[ROW].itertuples(index=False, name=None))
    places = pd.MultiIndex.from_frame(measured.runs[SHOWN])
    found = []
    for title, rows in board.parts.items():
        asked = set(pairs(rows))
        # An empty list would choose columns.
        mine = once[np.array([method in asked for method in methods], dtype=bool)]
        protocol = _under(once, rows.protocol or board.protocol, board.protocol)
        tasks = rows.tasks or board.all_tasks
        mine = mine[
            (mine["protocol"] == protocol)
            & mine["seed"].isin(rows.seeds)
            & mine["task"].isin(tasks)
        ]
        if mine.empty:
            continue
        runs = measured.runs[places.isin(pd.MultiIndex.from_frame(mine[SHOWN]))]
        runs = runs.assign(group=runs["task"].map(board.group_of)).reset_index(drop=True)
        unrun = asked.difference(mine[ROW].itertuples(index=False, name=None))
        found.append(Part(title, rows, runs, len(unrun)))
    return found


def _under(known: pd.DataFrame, protocol: str, usual: str) -> str:
    """The protocol of a part; in a dry run of the board, the only one there is.

    It is a dry run if there is nothing under the board's usual protocol.
    """
    there = set(known["protocol"])
    return there.pop() if len(there) == 1 and usual not in there else protocol


def _of_one_kind(table: pd.DataFrame, label: str, columns: list[str]) -> pd.DataFrame:
    """Keep, of runs with one label and unlike contents, those with the most frequent content.

    The remarks above the board say that there are several.
    """
    if table.empty:
        return table
    counts = table.groupby([label, *columns])["seed"].count().sort_values(kind="stable")
    chosen = set(
        counts.reset_index()
        .groupby(label)
        .tail(1)[[label, *columns]]
        .itertuples(index=False, name=None)
    )
    keys = table[[label, *columns]].itertuples(index=False, name=None)
    return table[np.array([key in chosen for key in keys], dtype=bool)]
