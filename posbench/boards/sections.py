"""The sections of a board: what is ranked together, and the tasks; and the page of Markdown that is
made of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from posbench.base.wording import agreeing, counted
from posbench.boards import findings
from posbench.boards.findings import FEW, MADE
from posbench.boards.measured import Measured
from posbench.boards.ranking import Ranked
from posbench.boards.tables import BELOW, GUIDE, TaskTable, parted, ranking, reaches, share
from posbench.config.board import Board
from posbench.showing.table import NOTHING, Line, Table, number, paragraph, plain


@dataclass(frozen=True)
class Detail:
    """An additional table of a section."""

    title: str
    note: str
    table: Table
    terminal: bool = False  # whether it is shown in one


@dataclass(frozen=True)
class Section:
    """What is ranked together, or one task."""

    title: str
    notes: Sequence[str]
    table: Table
    terminal: bool = True  # whether it is shown in one
    details: Sequence[Detail] = ()


# -- of a board ------------------------------------------------------------------------------------


def board_sections(
    board: Board, found: Sequence[Ranked], measured: Measured, asked: bool
) -> list[Section]:
    """A section a standing; if the board has asked for them, after what the board is."""
    shown = [_ranked(board, each, measured) for each in found]
    return [_defined(board, found[0]), *shown] if asked and shown else shown


def task_sections(tasks: Iterable[TaskTable]) -> list[Section]:
    """A section a task and class."""
    return [
        Section(f"{task.name}: {kind}", [f"{task.note}."], table)
        for task in tasks
        for kind, table in task.tables
    ]


def _defined(board: Board, first: Ranked) -> Section:
    """What the board is, as it was written down, and what the rows of its first part learned."""
    runs, cells = first.part.runs, first.cells()
    rows = []
    for task in first.tasks:
        here = runs[runs["task_name"] == task]
        of_row = here.groupby("row")["learned"].any()
        best = number(cells[task].max()) if cells[task].notna().any() else NOTHING
        furthest = [str(row) for row in cells.index[cells[task].map(number) == best]]
        named = furthest if len(furthest) <= FEW else [counted(len(furthest), "row")]
        shown = "" if best == NOTHING else f"{', '.join(named)} ({best})"
        cell = f"{of_row.sum()} of {len(of_row)}"
        rows.append(Line(task, [cell, share(here["learned"].mean()), shown]))
    headings = ["task", "rows that learned it", "trainings that did", "reaches furthest"]
    notes = [*fixed_before(board), *changes_of(board)]
    return Section(f"Board {board.name}", notes, Table.of(headings, rows), terminal=False)


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


def _ranked(board: Board, standing: Ranked, measured: Measured) -> Section:
    """The tables of one part and class: rows with a place, those below, and the map."""
    part = standing.part
    notes = [" ".join(part.rows.about.split())] if part.rows.about else []
    notes += [*waiting(board, standing), *findings.answer(standing)]
    placed, below = parted(ranking(standing, measured))
    details = []
    if below.rows:
        said = f"{BELOW.short} {BELOW.more}"
        details.append(Detail(f"{part.title}: below the table", said, below, terminal=True))
    if standing.fitted is not None and len(standing.tasks) > 1:
        said = "Areas of the trainings that learned; a dash where none has, or none was run."
        details.append(Detail(f"{part.title}: task by task", said, reaches(standing)))
    return Section(part.title, notes, placed, details=details)


def waiting(board: Board, standing: Ranked) -> Iterator[str]:
    """What the section waits for, in sentences: tasks, and rows that have not been run."""
    if lacks := standing.part.lacks(board):
        yield lacks
    if unrun := standing.part.unrun:
        have = agreeing(unrun, "has", "have")
        yield f"{counted(unrun, 'row')} that the board asks for {have} not been run."


# -- leaderboard.md --------------------------------------------------------------------------------

PAGE = "leaderboard.md"
MEANING = "What the columns mean"
ANCHOR = MEANING.lower().replace(" ", "-")
GUIDE_IS_BELOW = f"[{MEANING}](#{ANCHOR})."


def page(shown: Sequence[Section], notes: Sequence[str], pictured: str = "") -> str:
    """The text of leaderboard.md.

    Args:
        shown: all sections
        notes: what must be known before a number is believed
        pictured: what opening.svg shows, where there is one
    """
    lines = ["# posbench board", "", GUIDE_IS_BELOW, ""]
    lines += [f"![{pictured}](opening.svg)", ""] if pictured else []
    lines += [f"> {paragraph(note)}\n" for note in notes]
    for section in shown:
        lines += [f"## {plain(section.title)}", ""]
        lines += [f"{paragraph(note)}\n" for note in section.notes]
        lines += [*section.table.pipes, ""] if section.table.rows else []
        for detail in section.details:
            lines += [f"### {plain(detail.title)}", "", f"{paragraph(detail.note)}\n"]
            lines += [*detail.table.pipes, ""]
    lines += [f"## {MEANING}", "", *(f"- **{term.name}**: {term.full}" for term in GUIDE), ""]
    return "\n".join([*lines, MADE, ""])
