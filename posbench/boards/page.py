"""A board as pages: the answer first, then what is ranked, part by part, then each task.

The page for a browser is one file that needs no network. Without JavaScript it shows its tables;
`leaderboard.js` adds filters, curves, what opens behind a row, and two rows beside each other.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from posbench.base.wording import agreeing, counted
from posbench.boards import findings, opening, page_data
from posbench.boards.by_length import TaskRows, task_rows
from posbench.boards.measured import Measured
from posbench.boards.ranking import Ranked
from posbench.boards.remarks import meaningless
from posbench.boards.tables import GUIDE, learned_by_task, of_task, ranking, reaches
from posbench.config.board import Board
from posbench.records.record import Record
from posbench.showing.pages import Chapter, Page, Picture, Terms
from posbench.showing.table import Markdown
from posbench.statistics.aggregates import is_pretrained

HERE = Path(__file__).parent
FIRST = 3
"""Versions, commits and devices that are named."""
HASH = 12
"""Digits of a commit."""
PAGE = "leaderboard.md"
MADE = Markdown(
    "Made by `posbench board` from the records beside this file; leaderboard.md has the same "
    "tables, leaderboard.csv and runs.csv every number."
)
MADE_BY_COMPARE = Markdown("Made by `posbench compare` from published records and yours.")
MEANINGS = Terms({term.name: term.full for term in GUIDE})
GUIDE_IS_BELOW = Markdown("[What the columns mean](#what-the-columns-mean).")

# -- parts, which every format shows ---------------------------------------------------------------


def board_part(board: Board, first: Ranked) -> Chapter:
    """What the board is, as it was written down, and what the rows of its first part learned."""
    notes = [*fixed_before(board), *changes_of(board)]
    return Chapter(f"Board {board.name}", [*notes, learned_by_task(first)])


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


def ranked(
    board: Board,
    standing: Ranked,
    measured: Measured,
    own: str = "",
    sketched: Mapping[str, Mapping[str, Any]] | None = None,
) -> Chapter:
    """One part and class of a board: its rows, and those below the table; see `ranking`."""
    part = standing.part
    ends = "" if standing.longest == 8 else f"Areas end at {standing.longest:g}x."
    about = " ".join([*part.rows.about.split(), ends]).strip()
    notes = [about] if about else []
    notes += [*waiting(board, standing), *findings.answer(standing)]
    return Chapter(part.title, [*notes, ranking(standing, measured, own, sketched)], "ranked")


def with_tasks(shown: Chapter, standing: Ranked) -> Chapter:
    """The same with the areas of each task, which a page draws as a map."""
    if standing.fitted is None or len(standing.tasks) < 2:
        return shown
    said = "Areas of the trainings that learned; a dash where none has, or none was run."
    below = Chapter(f"{shown.title}: task by task", [said, reaches(standing)])
    return Chapter(shown.title, [*shown.blocks, below], shown.look)


def task_parts(tasks: Iterable[TaskRows], usual: str = "", own: str = "") -> Iterator[Chapter]:
    """A part a task; its name has the protocol if that is not the usual one."""
    for task in tasks:
        name = task.name if task.protocol in ("", usual) else f"{task.name}, {task.protocol}"
        yield Chapter(name, [f"{task.note}.", of_task(task, own)], "task")


def waiting(board: Board, standing: Ranked) -> Iterator[str]:
    """What the section waits for, in sentences: tasks, and rows that have not been run."""
    if lacks := standing.part.lacks(board):
        yield lacks
    if unrun := standing.part.unrun:
        have = agreeing(unrun, "has", "have")
        yield f"{counted(unrun, 'row')} that the board asks for {have} not been run."


# -- all together ----------------------------------------------------------------------------------


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
    parts: Sequence[Chapter],
    lines: pd.DataFrame,
    notes: Sequence[str],
    about: Sequence[str] = (),
    focus: Focus | None = None,
    explained: Collection[Path] = (),
    folders: Sequence[Path] = (),
    beside: Mapping[str, str] | None = None,
    root: str = "",
) -> Page:
    """The page for a browser.

    Args:
        board: by which the runs are judged
        measured: all runs
        standings: what is ranked, first things first
        found: the records
        parts: the same as `ranked` shows it, and what else there is
        lines: rows by length, see `posbench.boards.by_length`
        notes: what must be known before a number is believed
        about: what the folder says of itself, a paragraph each
        focus: on a row of the user, where the page is about one
        explained: pages of `posbench.explain`, by their paths from the folder of this one
        folders: of the user, which commands name where they need them
        beside: pages of other boards, by their names
        root: see `posbench.boards.page_data.root_above`
    """
    asked = any(each.part.rows.about for each in standings)
    title, own, said, foot = "Leaderboard", "", [], MADE
    if focus is not None:
        title, own, said, foot = focus.title, focus.row, [*focus.said], MADE_BY_COMPARE
    elif asked:
        title = f"Board {board.name}"
    data = page_data.content(
        measured,
        lines,
        standings,
        found,
        board.all_tasks,
        explained,
        folders,
        {own: focus.sketch} if focus is not None and focus.sketch is not None else {},
        root,
    )
    known = {(task.protocol, task.name): task for task in task_rows(lines, measured)}
    keys = [(task["protocol"], task["name"]) for task in data["tasks"]]
    usual = (data["sections"] or data["tasks"] or [{"protocol": ""}])[0]["protocol"]
    tasks = list(task_parts([known[key] for key in keys if key in known], usual, own))
    drawn = opening.picture(standings[0], own) if standings else ""
    doors = doors_of(standings) if asked and focus is None else {}
    return Page(
        title,
        [*parts, Chapter("Task by task", tasks)],
        [f"{'; '.join(origins(found))}.", foot],
        lead=[*measured_on(measured, standings), *([TO_ITS_ROW] if own else [])],
        answer=[
            *meaningless(measured.lengths["protocol_chosen"]),
            *said,
            *([] if doors else findings.headline(standings)),
        ],
        doors=doors,
        beside=beside or {},
        about=about,
        notes=notes,
        picture=Picture(drawn, opening.caption(standings[0])) if drawn else None,
        guide=MEANINGS,
        defined=[*fixed_before(board), *changes_of(board)] if asked else [],
        style=_beside("leaderboard.css") + _beside("opening.css"),
        script="\n" + _beside("leaderboard.js"),
        data=page_data.as_script(data),
    )


def _beside(name: str) -> str:
    return (HERE / name).read_text(encoding="utf-8")


OF_A_METHOD = (
    Markdown("`posbench check FILE` tries what every encoding or extension promises, in seconds."),
    Markdown("`posbench compare FILE` trains it and gives its place among these rows."),
)


def doors_of(standings: Sequence[Ranked]) -> dict[str, list[str]]:
    """What follows for three readers, with links to the sections that say more."""
    first = next((each for each in standings if len(each.known) > 1), None)
    if first is None:
        return {}
    hosted = [each for each in standings if each.part.is_of_a_host]
    doors: dict[str, list[str]] = {
        "I train from scratch": [*findings.from_scratch(first, standings), _linked([first])],
        "I have a trained model": [*findings.of_models(first, standings), _linked(hosted)],
        "I have a method of my own": [*OF_A_METHOD],
    }
    return {title: said for title, said in doors.items() if len(said) > 1}


def _linked(standings: Sequence[Ranked]) -> Markdown:
    parts = [Chapter(each.part.title, []) for each in standings]
    return Markdown(", ".join(f"[{part.title}](#{part.anchor})" for part in parts))


TO_ITS_ROW = Markdown("[To its row](#own)")


def measured_on(measured: Measured, standings: Sequence[Ranked]) -> list[str]:
    """What was measured on what, and how a score is read: before any number."""
    if not standings:
        return []
    first = standings[0]
    runs, known = first.part.runs, measured.lengths
    of_runs = known[known["protocol_name"] == str(runs["protocol_name"].iloc[0])]
    of_runs = of_runs[of_runs["task_name"].isin(first.tasks)]
    low, high = (int(of_runs["train_positions"].agg(end)) for end in ("min", "max"))
    positions = f"{low:,} positions"
    if low != high:
        positions = f"{low:,} to {high:,} positions, depending on the task"
    size = round(int(of_runs["parameters"].median()), -3)
    trained = is_pretrained(first.kind)
    model = "Each model is a small transformer of"
    if trained:
        model = "Others trained the model, which has"
    unit, solve = ("sample", "are answered") if trained else ("training", "solve their task")
    rows, tasks = counted(len(first.summary), "row"), counted(len(first.tasks), "task")
    return [
        f"{model} about {size:,} parameters. Its longest training sequence has {positions}, and "
        f"its longest test {first.longest:g} times as many. “{first.part.title}” has {rows}, {tasks} "
        f"and {counted(len(runs), unit)}.",
        f"“Learned” is the share of a row's {unit}s that {solve} at the training length. “Reaches” "
        f"says how far those go: the area under their score from 1x to {first.longest:g}x, where 1 "
        "is no error and 0 is guessing.",
    ]


def origins(found: Sequence[Record]) -> list[str]:
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
