"""The sections of a board: its rows in tiers, and on what their order depends.

What is shown of each task and seed comes after them; see `posbench.leaderboard.sections`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from posbench.boards.definition import Board, Rows
from posbench.boards.naming import pairs
from posbench.leaderboard import rank_tests, sensitivity, standings, statistics
from posbench.leaderboard.comparison_figures import critical_difference, performance_profiles
from posbench.leaderboard.measures import median_reach, of_runs
from posbench.leaderboard.sections import Detail, Picture, Row, Section, Table, anchor
from posbench.leaderboard.summaries import NOTHING, named, number, without_repeats

LEADERS = 6
"""Rows whose place without each task is shown."""
FEW = 3
"""The most names in a sentence."""
DRAWN = 40
"""The most rows that a picture can show."""


@dataclass(frozen=True)
class Part:
    """The runs of one part of a board, one line a run, with what is known of each row."""

    title: str
    rows: Rows
    runs: pd.DataFrame  # see `posbench.leaderboard.statistics`
    cost: pd.Series  # CPU seconds of training, the mean over tasks and seeds, by row

    def __len__(self) -> int:
        return int(self.runs["row"].nunique())


def parts(board: Board, table: pd.DataFrame) -> list[Part]:
    """Each part of the board that has a run, in the board's order."""
    known = named(without_repeats(table))
    known = known[~known["task_changed"] & known["task"].isin(board.all_tasks)]
    known = _of_one_kind(known, "task", ["task_version", "task_hash"])
    known = _of_one_kind(known, "protocol", ["protocol_hash"])
    known = known.assign(method=known["method_name"])  # which tells apart what has one label
    found = []
    for title, rows in board.parts.items():
        asked = set(pairs(rows))
        of_part = known[known["protocol"] == _under(known, rows.protocol or board.protocol)]
        keys = zip(of_part["encoding"], of_part["extension"], of_part["changed"], strict=True)
        # An empty list would choose columns.
        mine = of_part[np.array([key in asked for key in keys], dtype=bool)]
        mine = mine[mine["seed"].isin(rows.seeds)]
        if mine.empty:
            continue
        runs = of_runs(mine)
        runs["group"] = runs["task"].map(board.group_of)
        once = mine.drop_duplicates(["method", "task", "seed"])
        found.append(Part(title, rows, runs, once.groupby("method")["train_cpu_seconds"].mean()))
    return found


def _under(known: pd.DataFrame, protocol: str) -> str:
    """The protocol of a part; in a dry run of the board, the only one there is."""
    there = set(known["protocol"])
    return there.pop() if len(there) == 1 else protocol


def _of_one_kind(table: pd.DataFrame, label: str, columns: list[str]) -> pd.DataFrame:
    """Of runs with one label and unlike contents, those with the content that most of them have.

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


def board_sections(board: Board, table: pd.DataFrame) -> list[Section]:
    """What stands above the tables of tasks: one section a part, and how much each order is worth.

    Nothing, if the board has no groups or none of its runs is there.
    """
    if not board.groups:
        return []
    shown: list[Section] = []
    for part in parts(board, table):
        for kind, runs in part.runs.groupby("class", sort=False):
            each = Part(_titled(part, str(kind)), part.rows, runs, part.cost)
            shown += _ranked(board, each)
    return [_defined(board), *shown] if shown else []


def _titled(part: Part, kind: str) -> str:
    title = part.title[0].upper() + part.title[1:]
    return title if part.runs["class"].nunique() == 1 else f"{title}: {kind}"


def _defined(board: Board) -> Section:
    """What the board is, as it was written down."""
    rows = [Row(name, [", ".join(group.tasks), group.asks]) for name, group in board.groups.items()]
    notes = [" ".join(paragraph.split()) for paragraph in board.about.split("\n\n")]
    lengths = ", ".join(f"{multiple:g}x" for multiple in board.multiples)
    notes.append(
        f"Tests at {lengths} of the positions of the longest training sequence. Definition "
        f"{board.hash[:8]}, protocol {board.protocol}."
    )
    notes += [f"{change.date}: {change.why} (before: {change.of[:8]})" for change in board.changes]
    return Section(f"Board {board.name}", notes, Table(["group", "tasks", "asks to"], rows))


def _ranked(board: Board, part: Part) -> list[Section]:
    """The table of one part and class; rows that lack a task stand last, without a place."""
    judged = board.judged
    summary = standings.summarise(part.runs, None, judged.draws, judged.seed)
    summary = summary.droplevel("class")
    complete = [row for row in summary.index if not np.isnan(summary.loc[row, "overall"])]
    groups = [group for group in board.groups if group in set(part.runs["group"])]
    reaches = {
        str(row): median_reach(list(each["reach"])) for row, each in part.runs.groupby("row")
    }
    columns: dict[str, Callable[[str], str]] = {
        "tier": lambda row: _whole(summary.loc[row, "tasks_tier"]),
        "rank": lambda row: _span(summary, row, "tasks_rank", 0),
        "overall": lambda row: number(summary.loc[row, "overall"]),
        "over tasks": lambda row: _span(summary, row, "tasks", 2),
        "given these": lambda row: _span(summary, row, "seeds", 2),
        **{group: _of(summary, group) for group in groups},
        "1x": lambda row: number(summary.loc[row, "in_distribution"]),
        "solved": lambda row: f"{100 * summary.loc[row, 'learned']:.0f} %",
        "solved only": lambda row: number(summary.loc[row, "overall_learned"]),
        "reach": lambda row: str(reaches[row][0]),
        "censored": lambda row: f"{100 * reaches[row][1]:.0f} %",
        "seeds": lambda row: _whole(summary.loc[row, "num_seeds"]),
        "tasks": lambda row: _whole(summary.loc[row, "num_tasks"]),
        "CPU s": lambda row: number(float(part.cost.get(row, np.nan)), 0),
    }
    rows = [Row(str(row), [show(row) for show in columns.values()]) for row in summary.index]
    notes = [" ".join(part.rows.about.split())] if part.rows.about else []
    notes += _answer(part, complete, judged.equivalent)
    return [
        Section(
            part.title,
            notes,
            Table(["method", *columns], rows),
            details=list(_sensitivity(part, complete)),
            pictures=list(_pictures(part, complete)),
        )
    ]


def _pictures(part: Part, complete: Sequence[str]) -> Iterator[Picture]:
    """Profiles and ranks of the rows that have all tasks, where a picture can hold them."""
    if not 1 < len(complete) <= DRAWN:
        return
    runs = part.runs[part.runs["row"].isin(complete)]
    name = anchor(part.title)
    ordered = statistics.profiles(runs, np.linspace(0, 1, 101))[list(complete)]
    yield Picture(
        f"{part.title}: profiles",
        "The share of runs with a larger area; every task weighs the same.",
        performance_profiles(ordered, name),
    )
    means = statistics.task_means(runs)
    if means.shape[1] > 1:
        found = rank_tests.CriticalDifference.of(means)
        yield Picture(
            f"{part.title}: average ranks over tasks",
            "A bar joins rows that Nemenyi's test at .05 does not tell apart "
            f"(Friedman: p = {found.p:.2g}).",
            critical_difference(found, name),
        )


def _of(summary: pd.DataFrame, group: str) -> Callable[[str], str]:
    return lambda row: number(summary.loc[row, group])


def _whole(value: float) -> str:
    return NOTHING if pd.isna(value) else f"{value:.0f}"


def _span(summary: pd.DataFrame, row: str, name: str, decimals: int) -> str:
    low, high = summary.loc[row, f"{name}_low"], summary.loc[row, f"{name}_high"]
    if pd.isna(low):
        return NOTHING
    return f"{number(low, decimals)} to {number(high, decimals)}"


def _answer(part: Part, complete: Sequence[str], margin: float) -> Iterator[str]:
    """Who wins each group, and whether anyone wins all in all."""
    if len(complete) < 2:
        return
    runs = part.runs[part.runs["row"].isin(complete)]
    if runs["group"].nunique() < 2:
        return
    groups = statistics.group_means(runs).round(9)
    winners = ", ".join(
        f"{group}: {_named(_first(groups[group]))} ({number(groups[group].max())})"
        for group in groups
    )
    yield f"First of each group: {winners}."
    overall = statistics.overall(runs).round(9).sort_values(ascending=False)
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


def _first(values: pd.Series) -> list[str]:
    return [str(row) for row in values.index[values == values.max()]]


def _named(names: Sequence[str]) -> str:
    """A few names, or how many there are."""
    return " and ".join(names) if len(names) <= FEW else f"{len(names)} of them"


def _sensitivity(part: Part, complete: Sequence[str]) -> Iterator[Detail]:
    """Places without each group and each task, shares of choices, chances to be the best."""
    runs = part.runs[part.runs["row"].isin(complete)]
    if len(complete) < 2 or runs["group"].nunique() < 2:
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
    best = statistics.over_tasks(runs).p_best()
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
