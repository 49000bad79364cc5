"""A board as pages: the answer first, then what is ranked, part by part, then each task.

Records go one way through `generate`: frames (`measured`), the order of rows (`ranking`), sentences
(`remarks`, `findings`), tables (`tables`), a picture (`opening`), what a page draws from
(`page_data`), the page. The same records give the same bytes.

The page for a browser is one file that needs no network. Without JavaScript it shows its tables;
`leaderboard.js` adds filters, curves, what opens behind a row, and two rows beside each other.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from posbench.base.disk import read_text
from posbench.base.errors import PosbenchError
from posbench.base.wording import counted, printable
from posbench.boards import findings, opening, page_data
from posbench.boards.measured import Measured, lengths_frame, more_context, runs_frame
from posbench.boards.ranking import Ranked, standings_of, standings_without_board
from posbench.boards.remarks import of_likelihoods, origins, remarks
from posbench.boards.tables import (
    GUIDE,
    board_part,
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
from posbench.statistics.aggregates import is_pretrained

HERE = Path(__file__).parent
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
    frames = {"leaderboard.csv": lengths_frame(measured), "runs.csv": runs_frame(measured)}
    contexts = more_context(measured)
    own, left_out = about(folder)
    said, warned = [*of_likelihoods(measured.lengths), *own], remarks(measured, audits)
    asked = standings_of(board, measured)
    standings = asked or standings_without_board(measured)
    parts = [ranked(board, each, measured) for each in standings]
    more = [*findings.contrast_parts(board, asked), *context_parts(contexts)]
    usual = standings[0].part.protocol if standings else ""
    tasks = list(task_parts(measured, board, usual))
    first = findings.first_shown(asked)
    drawn = opening.picture(first, file="opening.svg") if first else None
    text = Page(
        "posbench board",
        [
            *([board_part(board, asked[0])] if asked else []),
            *map(with_tasks, parts, standings),
            *([] if asked else tasks),
            *more,
        ],
        [Markdown(findings.MADE)],
        lead=[GUIDE_IS_BELOW],
        picture=drawn,
        notes=[*said, *warned],
        guide=MEANINGS,
    )
    page = document(
        board, measured, standings, [*parts, *more], tasks, warned, said, None, folder, folders
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
    return Generated(
        pages,
        [*parts, *([] if asked else tasks), *more],
        [*said, *warned],
        measured,
        standings,
        left_out,
    )


LARGEST = 1_000_000
"""Bytes of what a folder says of itself."""
BOARDS = {
    "Encodings": "main",
    "Extensions": "extensions",
    "One factor for all lengths": "served",
    "Windows of extensions": "windows",
    "Chosen settings": "tuned",
    "Hybrids": "hybrids",
    "Tasks": "tasks",
    "Real models": "pretrained",
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
    tasks: Sequence[Chapter],
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
        tasks: each task by length
        notes: what must be known before a number is believed
        about: what the folder says of itself, a paragraph each
        focus: on a row of the user, where the page is about one
        folder: of the page, if it links to other boards, to explanations and to the code
        folders: of the user, which commands name where they need them
    """
    asked = any(each.part.rows.about for each in standings)
    title, own, said, foot = "Leaderboard", "", [], MADE
    boards_of = boards_beside(folder) if folder else {}
    if focus is not None:
        title, own, said, foot = focus.title, focus.row, [*focus.said], MADE_BY_COMPARE
    else:
        about_what = "".join(
            f": {name.lower()}" for name, href in boards_of.items() if href == HERE_ITSELF
        )
        title = f"{f'Board {board.name}' if asked else title}{about_what}"
    first = findings.first_shown(standings)
    lead = [
        *(question(board) if asked and focus is None else []),
        *(measured_on(measured, first) if first else []),
        *(doubts(folder) if folder else []),
        *([TO_ITS_ROW] if own else []),
    ]
    doors = findings.doors(standings) if asked and focus is None else {}
    answer = [*measured.meaningless, *said, *([] if doors else findings.headline(standings))]
    drawn = opening.picture(first, own) if first else None
    data = page_data.content(
        measured,
        standings,
        board,
        {*explanations(folder)} if folder else (),
        folders,
        {own: focus.sketch} if focus is not None and focus.sketch is not None else {},
        page_data.root_above(folder) if folder else "",
    )
    return Page(
        title,
        [*parts, Chapter("Task by task", tasks)],
        [f"{'; '.join(origins(measured.records))}.", foot],
        lead=lead,
        answer=answer,
        doors=doors,
        beside=boards_of,
        about=about,
        notes=notes,
        picture=drawn,
        guide=MEANINGS,
        defined=[*fixed_before(board), *changes_of(board)] if asked else [],
        style=_beside("leaderboard.css") + _beside("opening.css"),
        script="\n" + _beside("leaderboard.js"),
        data=page_data.as_script(data),
    )


def _beside(name: str) -> str:
    return (HERE / name).read_text(encoding="utf-8")


TO_ITS_ROW = Markdown("[To its row](#own)")


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


def question(board: Board) -> list[str]:
    """What the board asks, if it says so in one paragraph. Longer texts say how it was made, and
    are below.
    """
    return [] if "\n\n" in board.about else [each for each in [board.about.strip()] if each]


def measured_on(measured: Measured, first: Ranked) -> list[str]:
    """What was measured on what, and how a score is read: before any number."""
    runs, known = first.part.runs, measured.lengths
    of_runs = known[known["protocol_name"] == first.part.protocol]
    of_runs = of_runs[of_runs["task_name"].isin(first.tasks)]
    low, high = (int(of_runs["train_positions"].agg(end)) for end in ("min", "max"))
    positions = f"{low:,} positions"
    if low != high:
        positions = f"{low:,} to {high:,} positions, depending on the task"
    size = round(int(of_runs["parameters"].median()), -3)
    trained = is_pretrained(first.kind)
    model = "Each model is a small transformer of"
    if trained:
        models = sorted({row.partition("@")[2] for row in first.known} - {""})
        named = f" {models[0]}," if len(models) == 1 else ","
        model = f"Others trained the model{named} which has"
    unit, solve = ("sample", "are answered") if trained else ("training", "solve their task")
    made = runs if trained else runs.drop_duplicates(["task", "seed", "training"])  # some share it
    rows, tasks = counted(len(first.summary), "row"), counted(len(first.tasks), "task")
    farthest = float(of_runs["multiple"].max())
    more = f", of which areas count those up to {first.longest:g} times" * (
        farthest > first.longest
    )
    return [
        f"{model} about {size:,} parameters. Its longest training sequence has {positions}, and "
        f"its longest test {farthest:g} times as many{more}. “{first.part.title}” has {rows}, "
        f"{tasks} and {counted(len(made), unit)}.",
        f"“Learned” is the share of a row's {unit}s that {solve} at the training length. “Reaches” "
        f"says how far those go: the area under their score from 1x to {first.longest:g}x, where 1 "
        "is no error and 0 is guessing.",
    ]
