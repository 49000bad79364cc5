"""The page: one file that needs no network, with its tables as text and all else drawn from data.

The answer comes first, then what is ranked, section by section, then each task; what the terms mean
is folded away. A browser without JavaScript shows the tables as they stand here. The rest is in
`leaderboard.js`: filters, curves, what opens behind a row, two rows beside each other.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from posbench.base.wording import counted
from posbench.boards import findings, opening, page_data, tables
from posbench.boards.by_length import TaskRows, task_rows
from posbench.boards.measured import Measured
from posbench.boards.ranking import Ranked
from posbench.boards.remarks import meaningless
from posbench.boards.sections import changes_of, fixed_before, waiting
from posbench.boards.tables import TaskTable, ranking
from posbench.config.board import Board
from posbench.records.record import Record
from posbench.showing.pages import rendered
from posbench.showing.table import Line, Table, shade

HERE = Path(__file__).parent
FIRST = 3
"""Versions, commits and devices that are named."""
HASH = 12
"""Digits of a commit."""


@dataclass(frozen=True)
class Shown:
    """A section of the page: what is ranked together."""

    title: str
    anchor: str
    notes: Sequence[str]
    table: Table
    sides: Sequence[tuple[str, Sequence[Line]]]  # its rows with a place, and those below


@dataclass(frozen=True)
class Focus:
    """The row that a page is about: it is marked and open from the start."""

    row: str
    title: str  # of the page
    said: Sequence[str]  # of the row, before all else
    sketch: Mapping[str, Any] | None = None  # of a row that posbench.explain.sketches lacks


def document(
    board: Board,
    measured: Measured,
    standings: Sequence[Ranked],
    found: Sequence[Record],
    notes: Sequence[str],
    about: Sequence[str],
    lines: pd.DataFrame,
    focus: Focus | None = None,
    explained: Collection[Path] = (),
    folders: Sequence[Path] = (),
) -> str:
    """The text of the page.

    Args:
        board: by which the runs are judged
        measured: all runs
        standings: what is ranked, first things first
        found: the records
        notes: what must be known before a number is believed
        about: what the folder says of itself, a paragraph each
        lines: rows by length, see `posbench.boards.by_length`
        focus: on a row of the user, where the page is about one
        explained: pages of `posbench.explain`, by their paths from the folder of this one
        folders: of the user, which commands name where they need them
    """
    sketched = dict(page_data.sketches())
    if focus is not None and focus.sketch is not None:
        sketched[focus.row] = dict(focus.sketch)
    data = page_data.content(
        measured,
        lines,
        standings,
        found,
        board.all_tasks,
        explained,
        folders,
        sketched,
    )
    asked = any(each.part.rows.about for each in standings)
    nothing = meaningless(measured.lengths["protocol_chosen"])
    answers = [*(focus.said if focus else ()), *findings.headline(standings)]
    heading, own = f"Board {board.name}" if asked else "Leaderboard", ""
    if focus is not None:
        heading, own = focus.title, focus.row
    text = rendered(
        "posbench.boards",
        "leaderboard.html.j2",
        heading=heading,
        title=f"posbench: {heading}",
        about=about,
        what=measured_on(measured, standings),
        answer=[*nothing, *answers],
        own=own,
        sections=[
            _shown(each, board, ranking(each, measured, own, sketched)) for each in standings
        ],
        places={row["name"]: place for place, row in enumerate(data["rows"])},
        tasks=_tasks(task_rows(lines, measured), data, own),
        opening=opening.picture(standings[0], own) if standings else "",
        pictured=opening.caption(standings[0]) if standings else "",
        notes=notes,
        guide=tables.GUIDE,
        shade=shade,
        defined=[*fixed_before(board), *changes_of(board)] if asked else [],
        origins=_origins(found),
        script="\n" + (HERE / "leaderboard.js").read_text(encoding="utf-8"),
        data=page_data.as_script(data),
    )
    return f"{text}\n"


def _tasks(tasks: Iterable[TaskRows], data: Mapping[str, Any], own: str) -> list[TaskTable]:
    """The tables of tasks, in the order of the data."""
    known = {(task.protocol, task.name): task for task in tasks}
    usual = (data["sections"] or data["tasks"] or [{"protocol": ""}])[0]["protocol"]
    keys = [(task["protocol"], task["name"]) for task in data["tasks"]]
    return [TaskTable.of(known[key], usual, own) for key in keys if key in known]


def measured_on(measured: Measured, standings: Sequence[Ranked]) -> list[str]:
    """What was measured on what, and how a score is read: before any number."""
    if not standings:
        return []
    first = standings[0]
    runs, known = first.part.runs, measured.lengths
    of_runs = known[known["protocol_name"] == str(runs["protocol_name"].iloc[0])]
    of_runs = of_runs[of_runs["task_name"].isin(first.tasks)]
    low, high = (int(of_runs["train_positions"].agg(end)) for end in ("min", "max"))
    positions = f"{low} to {high}" if low != high else str(low)
    size = round(int(of_runs["parameters"].median()), -3)
    rows, tasks = counted(len(first.summary), "row"), counted(len(first.tasks), "task")
    return [
        f"{rows} of “{first.part.title}” and {tasks}: models of about {size:,} parameters, trained "
        f"on up to {positions} positions and tested at up to {first.longest:g} times as many. "
        f"{counted(len(runs), 'training')} in that section.",
        "Two numbers are never mixed: what share of its trainings a row has learned, by the "
        "gate of each task at the training length, and how far it reaches where it has. That is "
        f"the area under its score from 1x to {first.longest:g}x: 1 is no error, 0 is guessing.",
    ]


def _origins(found: Sequence[Record]) -> list[str]:
    """Where the numbers come from: commits, versions and devices, the most frequent first."""
    commits = _counted(str(record.training.commit or "unknown")[:HASH] for record in found)
    devices = _counted(record.training.hardware for record in found)
    versions = _counted(
        ", ".join(f"{name} {version}" for name, version in sorted(record.training.versions.items()))
        for record in found
    )
    return [
        counted(len(found), "record"),
        f"trained at commit {commits}",
        f"on {devices}",
        f"with {versions}",
    ]


def _counted(values: Iterator[str]) -> str:
    counts = pd.Series(list(values)).value_counts()
    ordered = sorted(counts.items(), key=lambda each: (-each[1], each[0]))
    rest = len(ordered) - FIRST
    more = f" and {counted(rest, 'other')}" if rest > 0 else ""
    return ", ".join(str(value) for value, _ in ordered[:FIRST]) + more


# -- what is ranked --------------------------------------------------------------------------------


def _shown(standing: Ranked, board: Board, table: Table) -> Shown:
    part = standing.part
    ends = "" if standing.longest == 8 else f" Areas end at {standing.longest:g}x."
    notes = [" ".join(part.rows.about.split()) + ends] if part.rows.about or ends else []
    notes += [*waiting(board, standing), *findings.answer(standing)]
    placed, below = tables.parted(table)
    sides = [("", placed.rows), (tables.BELOW.short, below.rows)]
    return Shown(part.title, _anchor(part.title), notes, table, [side for side in sides if side[1]])


def _anchor(title: str) -> str:
    return "".join(character if character.isalnum() else "-" for character in title.lower())
