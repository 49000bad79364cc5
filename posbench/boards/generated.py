"""What is made of the records of a folder: pages, tables and what must be known beside them.

The same records give the same bytes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from posbench.base.disk import read_text
from posbench.base.errors import PosbenchError
from posbench.base.wording import printable
from posbench.boards import findings, opening, page_data
from posbench.boards.by_length import by_length, lengths_csv, runs_csv, task_rows
from posbench.boards.context import context_parts
from posbench.boards.contrasts import contrast_parts
from posbench.boards.measured import Measured, under_one_protocol
from posbench.boards.page import (
    GUIDE_IS_BELOW,
    MEANINGS,
    PAGE,
    board_part,
    document,
    ranked,
    task_parts,
    with_tasks,
)
from posbench.boards.ranking import Ranked, standings_of, standings_without_board
from posbench.boards.remarks import of_likelihoods, remarks
from posbench.config import board as definition
from posbench.config.board import Board
from posbench.records import files, tables
from posbench.records.record import Audit, Record
from posbench.showing.pages import Chapter, Page, Picture, explanations
from posbench.showing.table import Markdown

# -- the board that a folder is judged by ----------------------------------------------------------


def board_of(folder: Path, name: str | None, own: Sequence[Path] = ()) -> Board:
    """The board that a folder is judged by: the one named, the one it is called after, or main."""
    if name is None:
        name = folder.name if folder.name in definition.names(own) else "main"
    return definition.load(name, own)


def refuse_others(folder: Path, board: Board, found: Sequence[Record]) -> None:
    """Refuse records that were made for another definition, if the folder is called after the
    board: that is fixed before the runs.
    """
    others = [record for record in found if record.definition not in board.hashes]
    if others and folder.name == board.name:
        of = others[0].definition[:8] or "none"
        raise PosbenchError(
            f"{len(others)} of {len(found)} records in {folder} were made for another definition "
            f"({of}, not {board.hash[:8]}): board {board.name} takes no runs that it did not ask "
            "for; repeat them, or keep them in another folder"
        )


# -- all that is made ------------------------------------------------------------------------------

LARGEST = 1_000_000
"""Bytes of what a folder says of itself."""


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
    found: list[Record],
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
    board = board or board_of(folder, None)
    found = under_one_protocol(found, board)
    table = tables.table(found)
    own, left_out = about(folder)
    said = [*of_likelihoods(table), *own]
    warned = remarks(found, table, audits)
    measured = Measured.of(table)
    asked = standings_of(board, measured)
    standings = asked or standings_without_board(measured)
    lines = by_length(measured)
    parts = [ranked(board, each, measured) for each in standings]
    more_parts = [*contrast_parts(board, asked), *context_parts(found)]
    of_tasks = [] if asked else list(task_parts(task_rows(lines, measured)))
    first = [board_part(board, asked[0])] if asked else []
    in_text = map(with_tasks, parts, standings)
    drawn = opening.picture(asked[0], alone=True) if asked else ""
    text = Page(
        "posbench board",
        [*first, *in_text, *of_tasks, *more_parts],
        [Markdown(findings.MADE)],
        lead=[GUIDE_IS_BELOW],
        picture=Picture(drawn, opening.caption(asked[0]), "opening.svg") if drawn else None,
        notes=[*said, *warned],
        guide=MEANINGS,
    )
    page = document(
        *(board, measured, standings, found, [*parts, *more_parts], lines),
        warned,
        said,
        explained={*explanations(folder)},
        folders=folders,
        beside=boards_beside(folder),
        root=page_data.root_above(folder),
    )
    pages = {
        PAGE: text.markdown(),
        "leaderboard.html": page.html(),
        "leaderboard.csv": lengths_csv(lines),
        "runs.csv": runs_csv(measured),
    }
    if drawn:
        pages["opening.svg"] = drawn
    if sentences := findings.page(board, asked):
        pages[findings.FILE] = sentences.markdown()
    shown = [*parts, *of_tasks, *more_parts]
    return Generated(pages, shown, [*said, *warned], measured, standings, left_out)


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
