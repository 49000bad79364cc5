"""The sections of a board: its rows in tiers, and on what their order depends.

What is shown of each task and seed comes after them; see `posbench.boards.sections`.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence

from posbench.base.wording import agreeing, counted
from posbench.boards.ranking import Standing, score, span
from posbench.boards.section import Detail, Section
from posbench.boards.winners import answer
from posbench.config.board import Board
from posbench.showing.table import Row, Table, number
from posbench.statistics import sensitivity

LEADERS = 6
"""Rows whose place without each task is shown."""


def board_sections(board: Board, found: Sequence[Standing]) -> list[Section]:
    """What stands above the tables of tasks: a section a part, and how much its order is worth."""
    shown = [section for each in found for section in _ranked(board, each)]
    return [_defined(board), *shown] if shown else []


def _defined(board: Board) -> Section:
    """What the board is, as it was written down."""
    rows = [Row(name, [", ".join(group.tasks), group.asks]) for name, group in board.groups.items()]
    notes = [*fixed_before(board), *changes_of(board)]
    return Section(f"Board {board.name}", notes, Table(["group", "tasks", "asks to"], rows))


def fixed_before(board: Board) -> list[str]:
    """What was fixed before the runs, a paragraph each."""
    lengths = ", ".join(f"{multiple:g}x" for multiple in board.multiples)
    return [
        *(" ".join(paragraph.split()) for paragraph in board.about.split("\n\n")),
        f"Tests are at {lengths} of the positions of the longest training sequence. Definition "
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
        "tier": standing.shown_tier,
        "rank": functools.partial(standing.shown_rank, between=" to "),
        "overall": functools.partial(score, summary, "overall"),
        "over tasks": lambda row: span(summary, row, "tasks"),
        "given these": lambda row: span(summary, row, "seeds"),
        **{group: functools.partial(score, summary, group) for group in groups},
        "1x": functools.partial(score, summary, "in_distribution"),
        "solved": standing.shown_solved,
        "solved only": functools.partial(score, summary, "overall_learned"),
        "reach": lambda row: str(standing.reach(row)[0]),
        "censored": lambda row: f"{100 * standing.reach(row)[1]:.0f} %",
        "seeds": functools.partial(score, summary, "num_seeds", decimals=0),
        "tasks": functools.partial(score, summary, "num_tasks", decimals=0),
        "CPU s": standing.shown_cost,
    }
    rows = [Row(str(row), [show(row) for show in columns.values()]) for row in summary.index]
    notes = [" ".join(part.rows.about.split())] if part.rows.about else []
    notes += waiting(board, standing)
    notes += answer(board, part, complete)
    return [
        Section(
            part.title,
            notes,
            Table(["method", *columns], rows),
            details=list(_sensitivity(standing)),
        )
    ]


def waiting(board: Board, standing: Standing) -> Iterator[str]:
    """What the section waits for, in sentences: tasks, and the rows that have no place."""
    if lacks := standing.part.lacks(board):
        yield lacks
        halves = set(standing.groups) - set(standing.part.whole(board)["group"])
        if half := [group for group in standing.groups if group in halves]:
            each = "each of " * (len(half) > 1)
            yield f"Only one task stands for {each}{', '.join(half)} so far."
    if rest := len(standing.summary) - len(standing.complete):
        lack = agreeing(rest, "lacks", "lack")
        yield f"{counted(rest, 'row')} {lack} one of the tasks, and so an overall number."
    if unrun := standing.part.unrun:
        have = agreeing(unrun, "has", "have")
        yield f"{counted(unrun, 'row')} that the board asks for {have} not been run."


def _sensitivity(standing: Standing) -> Iterator[Detail]:
    """Places without each group and each task, shares of choices, chances to be the best."""
    part, complete, best = standing.part, standing.complete, standing.summary.get("p_best")
    runs = part.runs[part.runs["row"].isin(complete)]
    if best is None or len(complete) < 2 or runs["group"].nunique() < 2:
        return
    leaders = list(complete[:LEADERS])
    for by in ("group", "task"):
        without = sensitivity.leave_one_out(runs, by)
        rows = [Row(row, [number(value, 0) for value in without.loc[row]]) for row in leaders]
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
        f"P(best) is the share of draws of {standing.drawn} in which the row is first. The "
        "columns after it give the share of all choices of so many tasks from each group under "
        "which it is first.",
        Table(["method", "P(best)", *headings], rows),
    )
