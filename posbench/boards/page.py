"""A board as pages: the answer first, then what is ranked, part by part, then each task.

Records go one way through `generate`: frames, the order of rows, tables, sentences, a page. The
same records give the same bytes.

The page for a browser is one file that needs no network. Without JavaScript it shows its tables;
`leaderboard.js` adds filters, curves, what opens behind a row, and two rows beside each other.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from posbench.base.disk import read_text
from posbench.base.errors import PosbenchError
from posbench.base.wording import agreeing, counted, printable
from posbench.boards import findings, opening, page_data
from posbench.boards.measured import Measured, lengths_csv, runs_csv
from posbench.boards.ranking import Ranked, standings_of, standings_without_board
from posbench.boards.remarks import meaningless, of_likelihoods, remarks
from posbench.boards.tables import (
    GUIDE,
    context_parts,
    contrast_parts,
    learned_by_task,
    of_tasks,
    ranking,
    reaches,
)
from posbench.config.board import Board, board_of
from posbench.records import files
from posbench.records.record import Audit, Record
from posbench.showing.pages import Block, Chapter, Page, Picture, Terms, explanations
from posbench.showing.table import Markdown

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

# -- all that is made ------------------------------------------------------------------------------


@dataclass(frozen=True)
class Generated:
    """All that is made of the records of a folder."""

    pages: dict[str, str]  # by the names of their files
    parts: list[Chapter]  # that a terminal shows
    notes: list[str]
    measured: Measured
    ranked: list[Ranked]
    left_out: list[str]  # a sentence for each file beside the records that cannot be read


def generate(
    folder: Path,
    found: Sequence[Record],
    audits: Sequence[Audit] = (),
    board: Board | None = None,
    folders: Sequence[Path] = (),
) -> Generated:
    """What is made of the records; PosbenchError if there are none. Commands name the folders of
    the user that they need.
    """
    if not found:
        hint = "run `python -m posbench` first"
        if folder != files.MAIN and files.MAIN.is_dir():
            hint += f", or read the main board with `posbench board {files.MAIN}`"
        raise PosbenchError(f"no records in {folder}: {hint}")
    board = board or board_of(folder)
    measured = Measured.of(found, board)
    own, left_out = about(folder)
    said, warned = [*of_likelihoods(measured.lengths), *own], remarks(measured, audits)
    asked = standings_of(board, measured)
    standings = asked or standings_without_board(measured)
    parts = [ranked(board, each, measured) for each in standings]
    more = [*contrast_parts(board, asked), *context_parts(measured)]
    tasks = [] if asked else list(task_parts(of_tasks(measured)))
    drawn = opening.picture(asked[0], alone=True) if asked else ""
    text = Page(
        "posbench board",
        [
            *([board_part(board, asked[0])] if asked else []),
            *map(with_tasks, parts, standings),
            *tasks,
            *more,
        ],
        [Markdown(findings.MADE)],
        lead=[GUIDE_IS_BELOW],
        picture=Picture(drawn, opening.caption(asked[0]), "opening.svg") if drawn else None,
        notes=[*said, *warned],
        guide=MEANINGS,
    )
    page = document(
        board, measured, standings, [*parts, *more], warned, said, folder=folder, folders=folders
    )
    pages = {
        PAGE: text.markdown(),
        "leaderboard.html": page.html(),
        "leaderboard.csv": lengths_csv(measured),
        "runs.csv": runs_csv(measured),
    }
    if drawn:
        pages["opening.svg"] = drawn
    if sentences := findings.page(board, asked):
        pages[findings.FILE] = sentences.markdown()
    return Generated(
        pages, [*parts, *tasks, *more], [*said, *warned], measured, standings, left_out
    )


LARGEST = 1_000_000
"""Bytes of what a folder says of itself."""
BOARDS = {"Encodings": "main", "Extensions": "extensions", "Real models": "pretrained"}
"""The published boards, by what they rank; their folders are beside each other."""


def boards_beside(folder: Path) -> dict[str, str]:
    """The pages of published boards beside a folder, relative to it."""
    here = folder.resolve()
    return {
        title: "#tables" if here.name == name else f"../{name}/leaderboard.html"
        for title, name in BOARDS.items()
        if (here.parent / name / "leaderboard.html").is_file()
    }


def about(folder: Path) -> tuple[list[str], list[str]]:
    """What the folder's own about.md says, a paragraph each: it stands above the tables. Then, if
    it cannot be read, a sentence that says so.
    """
    path = folder / "about.md"
    try:
        text = read_text(path, LARGEST)
    except FileNotFoundError:
        return [], []
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        return [], [f"{path} is not read ({reason}): put text in UTF-8 there, or delete it"]
    paragraphs = (" ".join(part.split()) for part in text.split("\n\n"))
    return [printable(paragraph) for paragraph in paragraphs if paragraph], []


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


def task_parts(
    tasks: Mapping[tuple[str, str], Sequence[Block]], usual: str = ""
) -> Iterator[Chapter]:
    """A part a task; its name has the protocol if that is not the usual one."""
    for (protocol, task), blocks in tasks.items():
        yield Chapter(task if protocol == usual else f"{task}, {protocol}", blocks, "task")


def waiting(board: Board, standing: Ranked) -> Iterator[str]:
    """What the section waits for, in sentences: tasks, and rows that have not been run."""
    if lacks := standing.part.lacks(board):
        yield lacks
    if unrun := standing.part.unrun:
        have = agreeing(unrun, "has", "have")
        yield f"{counted(unrun, 'row')} that the board asks for {have} not been run."


# -- the page for a browser ------------------------------------------------------------------------


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
    parts: Sequence[Chapter],
    notes: Sequence[str],
    about: Sequence[str] = (),
    focus: Focus | None = None,
    folder: Path | None = None,
    folders: Sequence[Path] = (),
) -> Page:
    """The page for a browser.

    Args:
        board: by which the runs are judged
        measured: all runs
        standings: what is ranked, first things first
        parts: the same as `ranked` shows it, and what else there is
        notes: what must be known before a number is believed
        about: what the folder says of itself, a paragraph each
        focus: on a row of the user, where the page is about one
        folder: of the page, if it links to other boards, to explanations and to the code
        folders: of the user, which commands name where they need them
    """
    asked = any(each.part.rows.about for each in standings)
    title, own, said, foot = "Leaderboard", "", [], MADE
    if focus is not None:
        title, own, said, foot = focus.title, focus.row, [*focus.said], MADE_BY_COMPARE
    elif asked:
        title = f"Board {board.name}"
    data = page_data.content(
        measured,
        standings,
        board.all_tasks,
        {*explanations(folder)} if folder else (),
        folders,
        {own: focus.sketch} if focus is not None and focus.sketch is not None else {},
        page_data.root_above(folder) if folder else "",
    )
    known = of_tasks(measured, own)
    keys = [(task["protocol"], task["name"]) for task in data["tasks"]]
    usual = (data["sections"] or data["tasks"] or [{"protocol": ""}])[0]["protocol"]
    tasks = list(task_parts({key: known[key] for key in keys if key in known}, usual))
    drawn = opening.picture(standings[0], own) if standings else ""
    doors = doors_of(standings) if asked and focus is None else {}
    return Page(
        title,
        [*parts, Chapter("Task by task", tasks)],
        [f"{'; '.join(origins(measured.records))}.", foot],
        lead=[*measured_on(measured, standings), *([TO_ITS_ROW] if own else [])],
        answer=[
            *meaningless(measured.lengths["protocol_chosen"]),
            *said,
            *([] if doors else findings.headline(standings)),
        ],
        doors=doors,
        beside=boards_beside(folder) if folder else {},
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
    positions = f"{low} to {high}" if low != high else str(low)
    size = round(int(of_runs["parameters"].median()), -3)
    rows, tasks = counted(len(first.summary), "row"), counted(len(first.tasks), "task")
    return [
        f"Small transformers, of about {size:,} parameters, were trained on up to {positions} "
        f"positions and tested at up to {first.longest:g} times as many: {rows} of "
        f"“{first.part.title}”, {tasks}, {counted(len(runs), 'training')}.",
        "“Learned” is the share of a row's trainings that solve their task at the training "
        "length, and “reaches” says how far those go: the area under their score from 1x to "
        f"{first.longest:g}x, where 1 is no error and 0 is guessing.",
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
