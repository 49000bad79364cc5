"""The sections of a board: what is ranked together, on what the order depends, and the tasks; and
the page of Markdown that is made of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from posbench.base.wording import agreeing, counted
from posbench.boards import tables
from posbench.boards.measured import Measured
from posbench.boards.ranking import Ranked
from posbench.boards.tables import TaskTable, ranking
from posbench.boards.winners import answer
from posbench.config.board import Board
from posbench.showing.table import Line, Table, number, paragraph, plain
from posbench.statistics import sensitivity


@dataclass(frozen=True)
class Detail:
    """An additional table of a section."""

    title: str
    note: str
    table: Table


@dataclass(frozen=True)
class Section:
    """What is ranked together, or one task."""

    title: str
    notes: Sequence[str]
    table: Table
    terminal: bool = True  # whether it is shown in one
    details: Sequence[Detail] = ()


# -- of a board ------------------------------------------------------------------------------------

LEADERS = 6
"""Rows whose place without each task is shown."""


def board_sections(
    board: Board, found: Sequence[Ranked], measured: Measured, asked: bool
) -> list[Section]:
    """A section a standing; if the board has asked for them, after what the board is."""
    shown = [section for each in found for section in _ranked(board, each, measured)]
    return [_defined(board), *shown] if asked and shown else shown


def task_sections(tasks: Iterable[TaskTable]) -> list[Section]:
    """A section a task and class."""
    return [
        Section(f"{task.name}: {kind}", [f"{task.note}."], table)
        for task in tasks
        for kind, table in task.tables
    ]


def _defined(board: Board) -> Section:
    """What the board is, as it was written down."""
    rows = [
        Line(name, [", ".join(group.tasks), group.asks]) for name, group in board.groups.items()
    ]
    notes = [*fixed_before(board), *changes_of(board)]
    table = Table.of(["group", "tasks", "asks to"], rows)
    return Section(f"Board {board.name}", notes, table, terminal=False)


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


def _ranked(board: Board, standing: Ranked, measured: Measured) -> list[Section]:
    """The table of one part and class; rows that lack a task come last, without a place."""
    part = standing.part
    notes = [" ".join(part.rows.about.split())] if part.rows.about else []
    notes += waiting(board, standing)
    notes += answer(board, part, standing.complete)
    return [
        Section(
            part.title, notes, ranking(standing, measured), details=list(_sensitivity(standing))
        )
    ]


def waiting(board: Board, standing: Ranked) -> Iterator[str]:
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


def _sensitivity(standing: Ranked) -> Iterator[Detail]:
    """Places without each group and each task."""
    part, complete = standing.part, standing.complete
    runs = part.runs[part.runs["row"].isin(complete)]
    if len(complete) < 2 or runs["group"].nunique() < 2:
        return
    leaders = list(complete[:LEADERS])
    for by in ("group", "task"):
        without = sensitivity.leave_one_out(runs, by)
        rows = [Line(row, [number(value, 0) for value in without.loc[row]]) for row in leaders]
        yield Detail(
            f"{part.title}: places without one {by}",
            f"Each column leaves out one {by}; the first rows alone are shown.",
            Table.of(["method", *map(str, without.columns)], rows),
        )


# -- leaderboard.md --------------------------------------------------------------------------------

PAGE = "leaderboard.md"
MADE = "Generated by `posbench board` from the records beside it; do not edit."
GUIDE = (
    tables.SCORE,
    tables.AREA,
    tables.INTERVAL,
    tables.RANK,
    tables.AT_TRAINING_LENGTH,
    tables.LEARNED,
    tables.REACH,
    tables.CLASS,
    tables.CPU,
    tables.PATH,
    tables.KEYS,
)
"""Terms of the tables, in the order in which a reader meets them."""
MEANING = "What the columns mean"
ANCHOR = MEANING.lower().replace(" ", "-")
GUIDE_IS_BELOW = f"[{MEANING}](#{ANCHOR})."


def page(shown: Sequence[Section], notes: Sequence[str]) -> str:
    """The text of leaderboard.md.

    Args:
        shown: all sections
        notes: what must be known before a number is believed
    """
    lines = ["# posbench board", "", GUIDE_IS_BELOW, ""]
    lines += [f"> {paragraph(note)}\n" for note in notes]
    for section in shown:
        lines += [f"## {plain(section.title)}", ""]
        lines += [*(f"{paragraph(note)}\n" for note in section.notes), *section.table.pipes, ""]
        for detail in section.details:
            lines += [f"### {plain(detail.title)}", "", f"{paragraph(detail.note)}\n"]
            lines += [*detail.table.pipes, ""]
    lines += [f"## {MEANING}", "", *(f"- **{term.name}**: {term.full}" for term in GUIDE), ""]
    return "\n".join([*lines, MADE, ""])
