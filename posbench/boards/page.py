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
from posbench.boards import opening, page_data, tables
from posbench.boards.by_length import TaskRows, task_rows
from posbench.boards.measured import Measured, short_names
from posbench.boards.ranking import Ranked, score
from posbench.boards.remarks import meaningless
from posbench.boards.sections import changes_of, fixed_before, waiting
from posbench.boards.tables import TaskTable, ranking
from posbench.boards.winners import answer, first_of
from posbench.config.board import Board
from posbench.records.record import Record
from posbench.showing.pages import rendered
from posbench.showing.table import Table, shade
from posbench.statistics import aggregates

HERE = Path(__file__).parent
FIRST = 3
"""Rows of a section that stand at the top of the page."""
HASH = 12
"""Digits of a commit."""
GUIDE = (
    tables.SCORE,
    tables.AREA,
    tables.INTERVAL,
    tables.RANK,
    tables.AT_TRAINING_LENGTH,
    tables.LEARNED,
    tables.REACH,
    tables.CPU,
    tables.PATH,
    tables.KEYS,
    tables.CLASS,
)
"""Terms of the page, in the order in which a reader meets them."""


@dataclass(frozen=True)
class Shown:
    """A section of the page: what is ranked together."""

    title: str
    anchor: str
    notes: Sequence[str]
    has: str  # how many of its tasks, if not all
    leaders: Sequence[tuple[str, str, str]]  # short name of the row, overall, rank interval
    table: Table


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
        focus: on a row of one's own, where the page is about one
        explained: pages of `posbench.explain`, by their paths from the folder of this one
        folders: of one's own, which commands name where they need them
    """
    sketched = dict(page_data.sketches())
    if focus is not None and focus.sketch is not None:
        sketched[focus.row] = dict(focus.sketch)
    data = page_data.content(
        measured,
        lines,
        standings,
        found,
        board.group_of,
        explained,
        folders,
        sketched,
    )
    asked = bool(board.groups) and any(each.part.rows.about for each in standings)
    nothing = meaningless(measured.lengths["protocol_chosen"])
    answers = [*(focus.said if focus else ()), *_answers(standings, board)]
    heading, own = f"Board {board.name}" if asked else "Leaderboard", ""
    if focus is not None:
        heading, own = focus.title, focus.row
    text = rendered(
        "posbench.boards",
        "leaderboard.html.j2",
        heading=heading,
        title=f"posbench: {heading}",
        about=about,
        answer=[*nothing, *answers],
        own=own,
        sections=[
            _shown(each, board, ranking(each, measured, own, sketched)) for each in standings
        ],
        places={row["name"]: place for place, row in enumerate(data["rows"])},
        tasks=_tasks(task_rows(lines, measured), data, own),
        opening=opening.picture(measured, standings, own),
        pictured=_pictured(standings, own),
        notes=notes,
        guide=GUIDE,
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


# -- the answer ------------------------------------------------------------------------------------


def _answers(standings: Sequence[Ranked], board: Board) -> list[str]:
    """Who leads the first section that is whole, or why nobody does; who leads the extensions of
    each host, where all are whole; and then what is under way.
    """
    waiting, whole = [], []
    for each in standings:
        said, title = list(answer(board, each.part, each.complete)), each.part.title
        if each.part.lacking(board):
            far = each.part.how_far(board)
            waiting.append(" ".join([f"{title}: {_lower(far)}.", *said]))
        elif said:
            rows = counted(len(each.complete), "row")
            whole.append((each, f"{title}, {rows}: {_lower(said[-1])}"))
        elif each.complete:
            overall = each.summary.loc[each.complete, "overall"].astype(float).round(9)
            leading = first_of(overall, board.judged.equivalent)
            # Who leads one row, or by a seed or two, is not first.
            sure = len(overall) > 1 and aggregates.repeated(each.part.runs)
            whole.append((each, f"{title}, {'first' if sure else 'highest so far'}: {leading}."))
    if not whole:
        return waiting[:1] or ["No row has been run on all tasks yet."]
    first, sentence = whole[0]
    others = [
        said for each, said in whole[1:] if each.part.is_of_a_host and each.kind == first.kind
    ]
    return [sentence, *others, *waiting[:1]]


def _pictured(standings: Sequence[Ranked], own: str) -> str:
    """What the picture shows."""
    shown = opening.alike(standings)
    if not shown:
        return ""
    tasks = counted(shown[0].part.runs["task_name"].nunique(), "task")
    leaders = f"{own} and the leaders" if own else "the leaders"
    if len(shown) == len(standings):
        of = "each section"
    elif len(shown) == 1:
        of = f"“{shown[0].part.title}”"
    else:
        of = "the sections that have them"
    plain = f", and {row} without an extension" if (row := opening.plain(shown[0])) else ""
    return f"Mean over {tasks}, corrected for guessing: {leaders} of {of}{plain}."


def _lower(sentence: str) -> str:
    """The sentence as it goes on after a colon."""
    return f"{sentence[0].lower()}{sentence[1:]}"


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
    first = standing.complete[:FIRST]
    leaders = [
        (name, score(standing.summary, "overall", row), standing.shown_rank(row))
        for row, name in zip(first, short_names(first), strict=True)
    ]
    has = ""
    if lacking := part.lacking(board):
        asked = part.asked(board)
        has = f"{len(asked) - len(lacking)} of {counted(len(asked), 'task')}"
    notes += waiting(board, standing)
    return Shown(part.title, _anchor(part.title), notes, has, leaders, table)


def _anchor(title: str) -> str:
    return "".join(character if character.isalnum() else "-" for character in title.lower())
