"""What is ranked together: the rows of one part of a board and one class, in their order."""

from __future__ import annotations

import functools
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd

from posbench.base.wording import counted
from posbench.boards.measured import SHOWN, Measured
from posbench.config.board import AS_TRAINED, Board, Rows
from posbench.config.board_rows import pairs
from posbench.showing.table import NOTHING, number
from posbench.statistics import aggregates, standings
from posbench.statistics.aggregates import zero_shot_first
from posbench.statistics.bootstrap import Draws
from posbench.statistics.measures import LONGEST, Reach, mean_curve, median_reach, of_runs

# -- which rows of a board have been run, and on which of its tasks --------------------------------

MOST = 0.9
"""The share of rows that must have a task, or a seed of it, for it to count; the tasks and seeds
that the most rows have count in any case.

A sweep goes from task to task. While it is in the middle of one, rows that it has not come to yet
would lose their place, and the best of the others would be called the first.
"""


ROW = ["encoding", "extension", "changed"]
"""What a board asks for, as the long table has it; see `posbench.config.board_rows.pairs`."""


@dataclass(frozen=True)
class BoardPart:
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

    def on_common_tasks(self, board: Board) -> BoardPart:
        """The part without the tasks that too few rows have."""
        return replace(self, runs=self.runs[~self.runs["task"].isin(self.lacking(board))])

    def on_common_runs(self, board: Board) -> BoardPart:
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


def parts(board: Board, measured: Measured) -> list[BoardPart]:
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
        found.append(BoardPart(title, rows, runs, len(unrun)))
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


# -- their order -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Ranked:
    """The rows of one part and one class, which alone are compared with each other."""

    part: BoardPart  # its runs of this class
    kind: str
    summary: pd.DataFrame  # by row, best first: see `posbench.statistics.standings.summarise`
    draws: Draws | None  # see `posbench.statistics.standings.standing`
    longest: float = LONGEST  # where areas end

    @property
    def complete(self) -> list[str]:
        """The rows that have all tasks, best first."""
        return [str(row) for row in self.summary.index[self.summary["overall"].notna()]]

    @property
    def groups(self) -> list[str]:
        """The groups of its tasks, in the order of the board."""
        return [str(group) for group in dict.fromkeys(self.part.runs["group"])]

    @property
    def over(self) -> str:
        """What its intervals and ranks are over: tasks, or seeds where some group has a
        single task or there are fewer than three. The columns of the summary begin with it.
        """
        return "tasks" if self.summary["tasks_low"].notna().any() else "seeds"

    @property
    def drawn(self) -> str:
        """What is drawn again for them."""
        if self.over == "seeds":
            return "other seeds"
        once = not aggregates.repeated(self.part.runs)
        return "other tasks" if once else "other tasks and seeds"

    def shown_rank(self, row: str, between: str = NOTHING) -> str:
        """The interval of its rank, as in "1–6"."""
        return span(self.summary, row, f"{self.over}_rank", 0, between)

    def shown_interval(self, row: str) -> str:
        """The interval of its overall number."""
        return span(self.summary, row, self.over, between=NOTHING)

    def shown_learned(self, row: str) -> str:
        """The share of its runs that got to the gate of their task, of those tested at 1x."""
        share = self.summary.loc[row, "learned"]
        return NOTHING if np.isnan(share) else f"{100 * share:.0f} %"

    def shown_cost(self, row: str) -> str:
        """CPU seconds of a training."""
        return number(float(self.part.cost.get(row, np.nan)), 0)

    def reach(self, row: str) -> Reach:
        """The median over tasks and seeds, in which every task counts the same however many seeds
        it has.
        """
        return self._reaches[row]

    def curve(self, row: str, measured: Measured) -> pd.DataFrame:
        """The mean over its tasks that a row has at the lengths that count, [seed, multiple], of
        the runs that are ranked; empty where no seed has all tasks. See
        `posbench.statistics.measures`.
        """
        return self.curves([row], measured)[row]

    def curves(self, rows: Collection[str], measured: Measured) -> dict[str, pd.DataFrame]:
        """The curve of each of these rows."""
        runs, known = self.part.runs, measured.lengths
        mine = known[
            known["row"].isin(rows)
            & (known["protocol_name"] == runs["protocol_name"].iloc[0])
            & known["aggregated"]
            & (known["multiple"] >= 1)
        ]
        ranked = pd.MultiIndex.from_frame(runs[SHOWN])
        mine = mine[pd.MultiIndex.from_frame(mine[SHOWN]).isin(ranked)]
        tasks, of_row = set(runs["task_name"]), mine.assign(task=mine["task_name"])
        return {row: mean_curve(of_row[of_row["row"] == row], tasks) for row in rows}

    @functools.cached_property
    def _reaches(self) -> dict[str, Reach]:
        runs = self.part.runs
        seeds = runs.groupby(["row", "task"])["seed"].transform("size")
        return {
            str(row): median_reach(list(each["reach"]), list(1 / seeds[each.index]))[0]
            for row, each in runs.groupby("row")
        }


def standings_of(board: Board, measured: Measured) -> list[Ranked]:
    """Every part of the board, class by class; none if it has no groups or no run is there."""
    if not board.groups:
        return []
    judged = board.judged
    places = {group: place for place, group in enumerate(board.groups)}
    found = []
    for part in (part.on_common_runs(board) for part in parts(board, measured)):
        for kind in sorted(set(part.runs["class"]), key=zero_shot_first):
            mine = part.runs[part.runs["class"] == kind]
            runs = mine.sort_values("group", key=lambda names: names.map(places), kind="stable")
            each = replace(part, title=_titled(part, kind), runs=runs)
            summary, draws = standings.standing(runs, judged.draws, judged.seed)
            found.append(Ranked(each, kind, summary, draws))
    return found


def _titled(part: BoardPart, kind: str) -> str:
    title = part.title[0].upper() + part.title[1:]
    return title if part.runs["class"].nunique() == 1 else f"{title}: {kind}"


def standings_without_board(board: Board, measured: Measured) -> list[Ranked]:
    """Standings of runs that the board has not asked for: by protocol and class, a task a group,
    on the tasks that most rows have been run on, if there are any.

    Where areas to 8x cannot be had, they end at the longest length that all tasks have.
    """
    found = []
    known = measured.lengths[~measured.lengths["task_changed"]]  # a changed task has its own table
    as_shipped = set(known[SHOWN[:2]].itertuples(index=False, name=None))
    keys = measured.runs[SHOWN[:2]].itertuples(index=False, name=None)
    kept = measured.runs[np.array([key in as_shipped for key in keys], dtype=bool)]
    for protocol, of_protocol in kept.groupby("protocol_name", sort=True):
        # Two versions of a task are two tasks.
        runs = of_protocol.assign(**dict.fromkeys(["task", "group"], of_protocol["task_name"]))
        longest = LONGEST
        if runs["area"].isna().all():
            runs, longest = _to_common_length(runs, known[known["protocol_name"] == protocol])
        for kind in sorted(set(runs["class"]), key=zero_shot_first):
            mine = runs[runs["class"] == kind]
            title = f"{kind[0].upper()}{kind[1:]}, protocol {protocol}"
            methods, tasks = (tuple(sorted(set(mine[each]))) for each in ("row", "task"))
            rows = Rows(methods=methods, seeds=(0,), tasks=tasks)
            part = BoardPart(title, rows, mine)
            if len(common := part.on_common_tasks(board)):
                part = common
            summary, draws = standings.standing(part.runs)
            found.append(Ranked(part, kind, summary, draws, longest))
    return found


def _to_common_length(runs: pd.DataFrame, known: pd.DataFrame) -> tuple[pd.DataFrame, float]:
    """Runs with areas to the longest multiple that all tasks have, and that multiple.

    Each area ends at the length of its task that stands for the multiple. That may be far from it:
    protocols of early records asked for multiples of n, and not of positions.
    """
    known = known[known["aggregated"] & (known["multiple"] >= 1)]
    each = [set(part) for _, part in known.groupby("task_name")["multiple"]]
    common = sorted(set.intersection(*each)) if each else []
    if len(common) < 2:
        return runs, common[0] if common else 1.0
    longest = float(common[-1])
    last = known[known["multiple"] == longest].groupby("task_name")["true_multiple"].max()
    measured = pd.concat(of_runs(part, last[task]) for task, part in known.groupby("task_name"))
    areas = measured.set_index(SHOWN)["area"].reindex(pd.MultiIndex.from_frame(runs[SHOWN]))
    return runs.assign(area=areas.to_numpy()), longest


def score(summary: pd.DataFrame, name: str, row: str, decimals: int = 2) -> str:
    """The number `name` of a row."""
    return number(float(summary.loc[row, name]), decimals)


def span(
    summary: pd.DataFrame, row: str, name: str, decimals: int = 2, between: str = " to "
) -> str:
    """The interval `name` of a row, as in "1 to 6"; one number where both ends are the same."""
    low, high = (score(summary, f"{name}_{side}", row, decimals) for side in ("low", "high"))
    return low if low == high else f"{low}{between}{high}"
