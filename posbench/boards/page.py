"""A board as pages: the answer first, then what is ranked, part by part, then each task.

Records go one way through `generate`: frames (`measured`), the order of rows (`ranking`), sentences
(`remarks`, `findings`), tables (`tables`), a picture (`opening`), what a page draws from
(`page_data`), the page. The same records give the same bytes.

The page for a browser is one file that needs no network. Without JavaScript it shows its tables;
`leaderboard.js` adds filters, curves, what opens behind a row, and up to six rows side by side.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from posbench.base.disk import read_text
from posbench.base.errors import PosbenchError
from posbench.base.wording import printable, reason
from posbench.boards import findings, opening, page_data
from posbench.boards.likely import OfTask
from posbench.boards.measured_runs import MeasuredRuns, lengths_frame, more_context, runs_frame
from posbench.boards.predictions import contrast_parts
from posbench.boards.ranking import RankedRows, standings_beside, standings_of
from posbench.boards.remarks import origins, remarks
from posbench.boards.tables import (
    GUIDE,
    board_part,
    budget_parts,
    changes_of,
    context_parts,
    fixed_before,
    ranked,
    task_parts,
    with_tasks,
)
from posbench.config.board import Board, board_of
from posbench.records import files
from posbench.records.record import Audit, Record
from posbench.showing.pages import Chapter, Page, Terms, explanations
from posbench.showing.table import Markdown, csv

HERE = Path(__file__).parent
PAGE = "leaderboard.md"
MADE = Markdown(
    "Made by `posbench board` from the records beside this file; leaderboard.md has the same "
    "tables, leaderboard.csv and runs.csv every number."
)
MEANINGS = Terms({term.name: term.full for term in GUIDE})
GUIDE_IS_BELOW = Markdown("[What the columns mean](#what-the-columns-mean).")

# -- all that is made ------------------------------------------------------------------------------


@dataclass(frozen=True)
class GeneratedPages:
    """All that is made of the records of a folder."""

    pages: dict[str, str]  # by the names of their files
    parts: list[Chapter]  # that a terminal shows
    notes: list[str]
    measured: MeasuredRuns
    ranked: list[RankedRows]
    left_out: list[str]  # a sentence for each file beside the records that cannot be read


def generate(
    folder: Path,
    found: Sequence[Record],
    audits: Sequence[Audit] = (),
    board: Board | None = None,
    folders: Sequence[Path] = (),
) -> GeneratedPages:
    """What is made of the records; PosbenchError if there are none. Commands name the folders of
    the user that they need.
    """
    if not found:
        said = files.without_records(folder)
        if folder == files.LOCAL and files.MAIN.is_dir():
            said += f", or read the main board with `posbench board {files.MAIN}`"
        raise PosbenchError(said)
    board = board or board_of(folder)
    measured = MeasuredRuns.of(found, board)
    frames = {"leaderboard.csv": lengths_frame(measured), "runs.csv": runs_frame(measured)}
    contexts = more_context(measured)
    own, left_out = about(folder)
    warned = remarks(measured, audits)
    asked = standings_of(board, measured)
    standings = [*asked, *standings_beside(asked, measured)]
    parts = [ranked(board, each, measured) for each in standings]
    usual = standings[0].part.protocol if standings else ""
    tasks = list(task_parts(measured, board, usual))
    pretrained = OfTask.all_of(measured.lengths)
    # What such boards are about comes before what all boards have.
    likely = [*(each.part for each in pretrained), *context_parts(contexts)]
    more = [*budget_parts(board, asked), *contrast_parts(board, asked, contexts)]
    # A board whose sections say what they are about speaks for itself.
    speaks = any(each.part.rows.about for each in asked)
    # Several paragraphs say how a board was made as well, and are below.
    short = speaks and board.about.strip() and "\n\n" not in board.about
    judged = [board.about.strip()] if short else []
    first = findings.first_shown(asked or standings)
    doors = findings.doors(asked) if speaks else {}
    headline = [] if doors else [said for each in pretrained for said in each.answer]
    if not (doors or headline):
        headline = list(findings.headline(asked or standings))
    beside = boards_beside(folder)
    here = "".join(f": {name.lower()}" for name, href in beside.items() if href == HERE_ITSELF)
    own_board = folder.resolve().name == board.name  # not that of folders without one
    title = (board.question if own_board else "") or f"Leaderboard{here}"
    drawn = opening.picture(first, file=opening.FILE) if first and asked else None
    on_page = opening.picture(first) if first and not likely else None
    scale = opening.measured_on(measured, first) if first else []
    data = page_data.content(
        measured, standings, board, {*explanations(folder)}, folders, page_data.root_above(folder)
    )
    page = Page(
        title,
        [*likely, *parts, *more, Chapter("Task by task", tasks)],
        [origins(measured.records), MADE],
        lead=[*judged, *scale, *doubts(folder)],
        answer=[*measured.meaningless, *headline],
        doors=doors,
        beside=beside,
        about=own,
        notes=warned,
        picture=on_page,
        defined=[*fixed_before(board), *changes_of(board)] if speaks else [],
        data=page_data.as_script(data),
        **in_browser(),
    )
    text = Page(
        title,
        [
            *likely,
            *map(with_tasks, parts, standings),
            *([] if asked else tasks),
            *more,
            *([board_part(board, asked[0])] if asked else []),
        ],
        [Markdown(findings.MADE)],
        lead=[*judged, GUIDE_IS_BELOW],
        picture=drawn,
        notes=[*own, *warned],
        guide=MEANINGS,
    )
    pages = {
        PAGE: text.markdown(),
        "leaderboard.html": page.html(),
        **{name: csv(frame) for name, frame in frames.items()},
    }
    if drawn is not None:
        pages[drawn.file] = drawn.svg
    if sentences := findings.page(board, asked):
        pages[findings.FILE] = sentences.markdown()
    return GeneratedPages(
        pages,
        [*likely, *parts, *([] if asked else tasks), *more],
        [*own, *warned],
        measured,
        standings,
        left_out,
    )


ABOUT, LARGEST = "about.md", 1_000_000
"""Bytes of what a folder says of itself."""
BOARDS = {
    "Encodings": "encodings",
    "Short convolution": "parts",
    "Encodings, fixed steps": "main",
    "Extensions": "extensions",
    "One factor for all lengths": "served",
    "Windows of extensions": "windows",
    "Chosen settings": "tuned",
    "Bands, layers, best keys": "stretched",
    "Further training": "fine_tuned",
    "Bases and channels": "bases",
    "Patterns of layers": "layers",
    "Hybrids": "hybrids",
    "Packed contexts": "packed",
    "Wider models": "longer",
    "Other encodings": "everything",
    "Real text": "text",
    "Tasks": "tasks",
    "Real models": "pretrained",
    "Real models, one factor": "pretrained_served",
}
"""The published boards, by what they ask about; their folders are beside each other."""


HERE_ITSELF = "#tables"


def boards_beside(folder: Path) -> dict[str, str]:
    """The pages of published boards beside a folder, relative to it."""
    here = folder.resolve()
    return {
        title: HERE_ITSELF if here.name == name else f"../{name}/leaderboard.html"
        for title, name in BOARDS.items()
        if (here.parent / name / "leaderboard.html").is_file()
    }


def about(folder: Path) -> tuple[list[str], list[str]]:
    """What the folder's own about.md says, a paragraph each: it comes above the tables. Then, if
    it cannot be read, a sentence that says so.
    """
    path = folder / ABOUT
    try:
        text = read_text(path, LARGEST)
    except FileNotFoundError:
        return [], []
    except (OSError, ValueError) as error:
        return [], [f"{path} is not read ({reason(error)}): put text in UTF-8 there, or delete it"]
    paragraphs = (" ".join(part.split()) for part in text.split("\n\n"))
    return [printable(paragraph) for paragraph in paragraphs if paragraph], []


# -- the page for a browser ------------------------------------------------------------------------


def in_browser() -> dict[str, Any]:
    """The fields of a page with the script of boards, which draws its data."""
    return {
        "guide": MEANINGS,
        "style": _beside("leaderboard.css") + _beside("opening.css"),
        "script": "\n" + _beside("leaderboard.js"),
    }


def _beside(name: str) -> str:
    return (HERE / name).read_text(encoding="utf-8")


def doubts(folder: Path) -> list[Markdown]:
    """Links to the pages that answer doubts, where they are beside the page."""
    root = page_data.root_above(folder)
    pages = {
        "How it was measured, and what was decided when": "measured.md",
        "What the measures mean": f"{root}docs/measures.md" if root else "",
        "Answers to questions": f"{root}docs/answers.md" if root else "",
    }
    there = [(text, path) for text, path in pages.items() if path and (folder / path).is_file()]
    links = " · ".join(f"[{text}]({path})" for text, path in there)
    return [Markdown(links)] if links else []
