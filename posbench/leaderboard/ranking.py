"""The sections of a board: its rows in tiers, and on what their order depends.

What is shown of each task and seed comes after them; see `posbench.leaderboard.sections`.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from posbench.boards.definition import AS_TRAINED, Board, Rows
from posbench.boards.naming import pairs
from posbench.errors import counted
from posbench.leaderboard.sections import Detail, Section
from posbench.leaderboard.summaries import Measured, as_shown
from posbench.showing.numbers import NOTHING, number
from posbench.showing.table import Row, Table
from posbench.statistics import aggregates, sensitivity, standings
from posbench.statistics.bootstrap import Draws
from posbench.statistics.curves import mean_curve
from posbench.statistics.measures import LONGEST, Reach, median_reach, of_runs

COLUMNS = (
    "Overall is the mean of the groups. *Over tasks* and *given these* are its 95 % intervals from "
    "the bootstrap, with and without drawing other tasks; rank and tier come from the draws over "
    "tasks, and rows of one tier are not told apart from its first; a row that varies much between "
    "tasks may be in a tier that rows above it are not in. *1x* is the corrected score at "
    "the training length, *solved* the share of trainings that have learned their task, *solved "
    "only* the overall number of those alone. *Reach* is the median multiple up to which half of "
    "the score is held, *censored* the share of trainings whose reach lies outside of what was "
    "tested. CPU s are those of a training."
)
LEADERS = 6
"""Rows whose place without each task is shown."""
FEW = 4
"""The most names in a sentence."""


@dataclass(frozen=True)
class Part:
    """The runs of one part of a board, one line a run, with what is known of each row.

    `shown` is the name of the task as it stands in other tables, where it may have a version.
    """

    title: str
    rows: Rows
    runs: pd.DataFrame  # see `posbench.statistics.aggregates`

    def __len__(self) -> int:
        return int(self.runs["row"].nunique())

    def asked(self, board: Board) -> Sequence[str]:
        """The tasks that the board asks for."""
        return self.rows.tasks or board.all_tasks

    def lacking(self, board: Board) -> list[str]:
        """The tasks asked for that less than half of its rows have a run on."""
        rows = self.runs.groupby("task")["row"].nunique()
        return [task for task in self.asked(board) if 2 * rows.get(task, 0) < max(len(self), 1)]

    def lacks(self, board: Board) -> str:
        """The lacking tasks in a sentence; "" if there are none."""
        if not (lacking := self.lacking(board)):
            return ""
        return f"{self.how_far(board)}: most rows have not been run on {', '.join(lacking)}."

    def how_far(self, board: Board) -> str:
        """How many of the tasks it is ranked on."""
        asked = self.asked(board)
        known = len(asked) - len(self.lacking(board))
        return f"Under way, and ranked on {known} of {counted(len(asked), 'task')}"

    def whole(self, board: Board) -> pd.DataFrame:
        """The runs of groups that lack no task."""
        halves = {board.group_of[task] for task in self.lacking(board)}
        return self.runs[~self.runs["group"].isin(halves)]

    def on_common_runs(self, board: Board) -> Part:
        """The part without the tasks that most rows lack, and on each task without the seeds that
        most of its rows lack: the few rows that have them would be compared with other luck.
        """
        runs = self.runs[~self.runs["task"].isin(self.lacking(board))]
        rows = runs.groupby("task")["row"].transform("nunique")
        having = runs.groupby(["task", "seed"])["row"].transform("nunique")
        return Part(self.title, self.rows, runs[2 * having >= rows])

    @functools.cached_property
    def cost(self) -> pd.Series:
        """CPU seconds of training, by row: the mean over its tasks, each the mean of its seeds."""
        of_tasks = self.runs.groupby(["row", "task"])["cpu_seconds"].mean()
        return of_tasks.groupby("row").mean()


def parts(board: Board, measured: Measured) -> list[Part]:
    """Each part of the board that has a run, in the board's order."""
    keys = ["protocol_name", "task_name", "method_name", "seed"]
    once = measured.lengths.drop_duplicates(keys)
    once = once[~once["task_changed"] & once["task"].isin(board.all_tasks)]
    once = _of_one_kind(once, "task", ["task_version", "task_hash"])
    once = _of_one_kind(once, "protocol", ["protocol_hash"])
    methods = list(zip(once["encoding"], once["extension"], once["changed"], strict=True))
    label = dict(zip(once["task_name"], once["task"], strict=True))
    places = measured.runs.set_index(["protocol", "task", "row", "seed"])
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
        index = pd.MultiIndex.from_frame(mine[keys])
        runs = places.loc[places.index.isin(index)].reset_index()
        runs["shown"], runs["task"] = runs["task"], runs["task"].map(label)
        runs["group"] = runs["task"].map(board.group_of)
        found.append(Part(title, rows, runs))
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


@dataclass(frozen=True)
class Standing:
    """The rows of one part and one class, which alone are compared with each other."""

    part: Part  # its runs of this class
    kind: str
    summary: pd.DataFrame  # by row, best first: see `posbench.statistics.standings.summarise`
    draws: Draws | None  # over tasks, see `posbench.statistics.standings.standing`
    longest: float = LONGEST  # where areas end

    @property
    def complete(self) -> list[str]:
        """The rows that have all tasks, best first."""
        return [str(row) for row in self.summary.index[self.summary["overall"].notna()]]

    @property
    def groups(self) -> list[str]:
        """The groups of its tasks, in the order of the board."""
        return [str(group) for group in dict.fromkeys(self.part.runs["group"])]

    def reach(self, row: str) -> tuple[Reach, float]:
        """The median over tasks and seeds, and the share that is censored."""
        return self._reaches[row]

    def curve(self, row: str, measured: Measured) -> pd.DataFrame:
        """The mean over its tasks that a row has at the lengths that count, [seed, multiple]; empty
        where no seed has all tasks. See `posbench.statistics.curves`.
        """
        runs, known = self.part.runs, measured.lengths
        mine = known[
            (known["method_name"] == row)
            & (known["protocol_name"] == runs["protocol"].iloc[0])
            & known["aggregated"]
            & (known["multiple"] >= 1)
        ]
        return mean_curve(as_shown(mine), set(runs["shown"]))

    @functools.cached_property
    def _reaches(self) -> dict[str, tuple[Reach, float]]:
        runs = self.part.runs
        return {str(row): median_reach(list(each)) for row, each in runs.groupby("row")["reach"]}


def standings_of(board: Board, measured: Measured) -> list[Standing]:
    """Every part of the board, class by class; none if it has no groups or no run is there."""
    if not board.groups:
        return []
    judged = board.judged
    places = {group: place for place, group in enumerate(board.groups)}
    found = []
    for part in (part.on_common_runs(board) for part in parts(board, measured)):
        for kind, unsorted in part.runs.groupby("class", sort=False):
            runs = unsorted.sort_values("group", key=lambda names: names.map(places), kind="stable")
            each = Part(_titled(part, str(kind)), part.rows, runs)
            summary, draws = standings.standing(runs, judged.draws, judged.seed)
            found.append(Standing(each, str(kind), summary, draws))
    return found


def standings_without_board(measured: Measured) -> list[Standing]:
    """Standings of runs that no board has asked for: by protocol and class, a task a group.

    Where areas to 8x cannot be had, they end at the longest length that all tasks have.
    """
    found = []
    known = measured.lengths[~measured.lengths["task_changed"]]  # a changed task has its own table
    as_shipped = set(zip(known["protocol_name"], known["task_name"], strict=True))
    keys = zip(measured.runs["protocol"], measured.runs["task"], strict=True)
    kept = measured.runs[np.array([key in as_shipped for key in keys], dtype=bool)]
    for protocol, of_protocol in kept.groupby("protocol", sort=True):
        runs = of_protocol.assign(group=of_protocol["task"], shown=of_protocol["task"])
        longest = LONGEST
        if runs["area"].isna().all():
            runs, longest = _to_common_length(runs, known[known["protocol_name"] == protocol])
        for kind in sorted(set(runs["class"]), key=lambda kind: (kind != "zero-shot", kind)):
            mine = runs[runs["class"] == kind]
            title = f"{kind[0].upper()}{kind[1:]}, protocol {protocol}"
            methods, tasks = (tuple(sorted(set(mine[each]))) for each in ("row", "task"))
            rows = Rows(methods=methods, seeds=(0,), tasks=tasks)
            part = Part(title, rows, mine)
            summary, draws = standings.standing(mine)
            found.append(Standing(part, kind, summary, draws, longest))
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
    measured = pd.concat(
        of_runs(as_shown(part), last[task]) for task, part in known.groupby("task_name")
    )
    keys = ["task", "row", "seed"]
    areas = measured.set_index(keys)["area"].reindex(pd.MultiIndex.from_frame(runs[keys]))
    return runs.assign(area=areas.to_numpy()), longest


def board_sections(board: Board, found: Sequence[Standing]) -> list[Section]:
    """What stands above the tables of tasks: a section a part, and how much its order is worth."""
    shown = [section for each in found for section in _ranked(board, each)]
    return [_defined(board), *shown] if shown else []


def _titled(part: Part, kind: str) -> str:
    title = part.title[0].upper() + part.title[1:]
    return title if part.runs["class"].nunique() == 1 else f"{title}: {kind}"


def _defined(board: Board) -> Section:
    """What the board is, as it was written down, and what its columns mean."""
    rows = [Row(name, [", ".join(group.tasks), group.asks]) for name, group in board.groups.items()]
    said, changes = fixed_before(board), changes_of(board)
    notes = [*said, COLUMNS, *changes]
    return Section(f"Board {board.name}", notes, Table(["group", "tasks", "asks to"], rows))


def fixed_before(board: Board) -> list[str]:
    """What was fixed before the runs, a paragraph each."""
    lengths = ", ".join(f"{multiple:g}x" for multiple in board.multiples)
    return [
        *(" ".join(paragraph.split()) for paragraph in board.about.split("\n\n")),
        f"Tests at {lengths} of the positions of the longest training sequence. Definition "
        f"{board.hash[:8]}, protocol {board.protocol}.",
    ]


def changes_of(board: Board) -> list[str]:
    """What was mended after the first run."""
    return [f"{change.date}: {change.why} (before: {change.of[:8]})" for change in board.changes]


def _ranked(board: Board, standing: Standing) -> list[Section]:
    """The table of one part and class; rows that lack a task stand last, without a place."""
    part, summary = standing.part, standing.summary
    complete, groups = standing.complete, standing.groups
    columns: dict[str, Callable[[str], str]] = {
        "tier": lambda row: _whole(summary.loc[row, "tasks_tier"]),
        "rank": lambda row: span(summary, row, "tasks_rank", 0),
        "overall": lambda row: number(summary.loc[row, "overall"]),
        "over tasks": lambda row: span(summary, row, "tasks"),
        "given these": lambda row: span(summary, row, "seeds"),
        **{group: _of(summary, group) for group in groups},
        "1x": lambda row: number(summary.loc[row, "in_distribution"]),
        "solved": lambda row: f"{100 * summary.loc[row, 'learned']:.0f} %",
        "solved only": lambda row: number(summary.loc[row, "overall_learned"]),
        "reach": lambda row: str(standing.reach(row)[0]),
        "censored": lambda row: f"{100 * standing.reach(row)[1]:.0f} %",
        "seeds": lambda row: _whole(summary.loc[row, "num_seeds"]),
        "tasks": lambda row: _whole(summary.loc[row, "num_tasks"]),
        "CPU s": lambda row: number(float(part.cost.get(row, np.nan)), 0),
    }
    rows = [Row(str(row), [show(row) for show in columns.values()]) for row in summary.index]
    notes = [" ".join(part.rows.about.split())] if part.rows.about else []
    if lacks := part.lacks(board):
        notes.append(lacks)
    notes += answer(board, part, complete)
    return [
        Section(
            part.title,
            notes,
            Table(["method", *columns], rows),
            details=list(_sensitivity(standing)),
        )
    ]


def _of(summary: pd.DataFrame, group: str) -> Callable[[str], str]:
    return lambda row: number(summary.loc[row, group])


def _whole(value: float) -> str:
    return NOTHING if pd.isna(value) else f"{value:.0f}"


def span(
    summary: pd.DataFrame, row: str, name: str, decimals: int = 2, between: str = " to "
) -> str:
    """The interval `name` of a row, as in "1 to 6"; one number where both ends are the same."""
    if f"{name}_low" not in summary or pd.isna(summary.loc[row, f"{name}_low"]):
        return NOTHING
    low, high = (
        number(float(summary.loc[row, f"{name}_{side}"]), decimals) for side in ("low", "high")
    )
    return low if low == high else f"{low}{between}{high}"


def answer(board: Board, part: Part, complete: Sequence[str]) -> Iterator[str]:
    """Who wins each group, and whether anyone wins all in all."""
    margin = board.judged.equivalent
    lacking = part.lacking(board)
    if len(complete) < 2:
        return
    runs = part.whole(board)
    runs = runs[runs["row"].isin(complete)]
    if runs["group"].nunique() < (1 if lacking else 2):
        return
    if not aggregates.repeated(runs):
        yield f"No winner is named: some rows have fewer than {aggregates.FEWEST} seeds."
        return
    means = aggregates.group_means(runs)
    groups = means.round(9)
    host = _as_trained(part)
    winners = ", ".join(f"{group}: {_first(groups[group], margin, host)}" for group in groups)
    yield f"First of each group{' that is whole' if lacking else ''}: {winners}."
    if lacking:
        return
    overall = means.mean(axis=1, skipna=False).round(9).sort_values(ascending=False)
    if overall.iloc[0] - overall.iloc[1] < margin:
        close = [str(row) for row in overall.index[overall > overall.iloc[0] - margin]]
        yield (f"No overall winner is named: {_named(close)} differ by less than {number(margin)}.")
        return
    without = sensitivity.leave_one_out(runs, "group")
    best = str(overall.index[0])
    if (without.loc[best] == 1).all():
        yield f"First in all, and without each group in turn: {best}."
    else:
        yield (
            f"No overall winner is named: {best} has the largest mean, and is not first without "
            f"{_named([str(group) for group in without if without.loc[best, group] != 1])}."
        )


def _first(values: pd.Series, margin: float, host: str) -> str:
    """The rows that are less than the margin below the largest, and whether the host is there."""
    first = values[values > values.max() - margin].sort_values(ascending=False, kind="stable")
    low, high = number(first.min()), number(first.max())
    span = high if low == high else f"{low} to {high}"
    rows = [str(row) for row in first.index]
    hidden = len(rows) > FEW and host in rows
    return f"{_named(rows)} ({span}{f', {host} among them' if hidden else ''})"


def _as_trained(part: Part) -> str:
    """The row of the encoding that all rows extend, without an extension; "" if they do not."""
    encodings, extensions = part.rows.encodings, part.rows.extensions
    return encodings[0] if len(encodings) == 1 and AS_TRAINED in extensions else ""


def _named(names: Sequence[str]) -> str:
    """A few names, or how many there are."""
    return " and ".join(names) if len(names) <= FEW else f"{len(names)} rows"


def _sensitivity(standing: Standing) -> Iterator[Detail]:
    """Places without each group and each task, shares of choices, chances to be the best."""
    part, complete, best = standing.part, standing.complete, standing.summary.get("p_best")
    runs = part.runs[part.runs["row"].isin(complete)]
    if best is None or len(complete) < 2 or runs["group"].nunique() < 2:
        return
    leaders = list(complete[:LEADERS])
    for by in ("group", "task"):
        without = sensitivity.leave_one_out(runs, by)
        rows = [Row(row, [_whole(value) for value in without.loc[row]]) for row in leaders]
        yield Detail(
            f"{part.title}: places without one {by}",
            f"Each column leaves out one {by}; the first rows alone are shown.",
            Table(["method", *map(str, without.columns)], rows),
        )
    choices = sensitivity.balanced_choices(runs)
    rows = [
        Row(row, [number(best[row]), *(number(choices.loc[row, size]) for size in choices)])
        for row in leaders
    ]
    headings = [f"first with {size} a group" for size in choices]
    yield Detail(
        f"{part.title}: how often first",
        "P(best): the share of draws, over tasks and seeds, in which the row is first. Then the "
        "share of all choices of so many tasks from each group under which it is.",
        Table(["method", "P(best)", *headings], rows),
    )
