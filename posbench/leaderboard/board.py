"""The leaderboard: reads records, writes `leaderboard.md`, `.html` and `.csv`, and `runs.csv`.

`python -m posbench.leaderboard [FOLDER]` reads FOLDER/records (your own runs by default),
writes the files into FOLDER and prints the tables; a board with groups has a page for each of
its tasks as well, in FOLDER/tasks. The same records give the same bytes. Nothing here imports
torch.
"""

from __future__ import annotations

import argparse
import io
import shlex
import sys
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path

from posbench import commands
from posbench.boards import definition
from posbench.boards.definition import Board
from posbench.composing.compose import composing
from posbench.composing.exit_status import exit_status
from posbench.errors import PosbenchError
from posbench.leaderboard import csv_files, findings, markdown
from posbench.leaderboard.board_sections import board_sections
from posbench.leaderboard.comparisons import agreements, discriminations
from posbench.leaderboard.excerpt import excerpts
from posbench.leaderboard.explanations import explanations
from posbench.leaderboard.latex import latex
from posbench.leaderboard.measured import Measured
from posbench.leaderboard.page import document
from posbench.leaderboard.ranking import Standing, standings_of, standings_without_board
from posbench.leaderboard.remarks import remarks
from posbench.leaderboard.section import Section
from posbench.leaderboard.sections import DETAILS, sections
from posbench.records import files, tables
from posbench.records.record import Audit, Record
from posbench.statistics import likelihoods

COMMAND = "python -m posbench.leaderboard"
MEASURES = (
    "Mean: of the scores at the lengths beyond that of training. The page ranks by area, which "
    "begins at 1x and is corrected for guessing; leaderboard.md has both."
)
"""What the number is that tables in the terminal are ordered by."""


def show(shown: list[Section], notes: list[str], emit: Callable[[str], None]) -> None:
    """Print the tables in the terminal, without the columns in `DETAILS`."""
    for section in shown:
        emit(f"{section.title}\n")
        for line in section.table.aligned(without=DETAILS):
            emit(f"  {line}")
        emit("")
    emit(MEASURES + "\n")
    for note in notes:
        emit(f"Note: {note}")


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


@dataclass(frozen=True)
class Generated:
    """All that is made of the records of a folder."""

    pages: dict[str, str]  # by the names of their files
    sections: list[Section]
    notes: list[str]
    measured: Measured
    ranked: list[Standing]


def generate(
    folder: Path,
    found: list[Record],
    audits: Sequence[Audit] = (),
    board: Board | None = None,
    folders: Sequence[Path] = (),
) -> Generated:
    """What is made of the records; PosbenchError if there are none. Commands name the folders of
    one's own that they need.
    """
    if not found:
        hint = "run `python -m posbench` first"
        if folder != files.MAIN and files.MAIN.is_dir():
            hint += f", or read the main board with `python -m posbench.leaderboard {files.MAIN}`"
        raise PosbenchError(f"no records in {folder}: {hint}")
    table = tables.table(found)
    said = [*likelihoods.sentences(table), *about(folder)]
    warned = remarks(found, table, audits)
    notes = [*said, *warned]
    board = board or board_of(folder, None)
    measured = Measured.of(table)
    summaries = measured.boards
    asked = standings_of(board, measured)
    ranked = asked or standings_without_board(board, measured)
    of_board, others = (
        board_sections(board, asked),
        sections(
            summaries,
            tables.views(found, longest=True),
            discriminations(measured),
            agreements(summaries),
            tables.choices(found),
            table,
        ),
    )
    pages = {
        **markdown.pages(of_board, others, notes),
        "leaderboard.html": document(
            board,
            measured,
            ranked,
            found,
            warned,
            said,
            explained={*explanations(folder)},
            folders=folders,
        ),
        "leaderboard.csv": csv_files.of_lengths(summaries),
        "runs.csv": csv_files.of_runs(measured),
    }
    if sentences := findings.markdown(board, measured, asked):
        pages[findings.FILE] = sentences
    return Generated(pages, of_board + others, notes, measured, ranked)


def about(folder: Path) -> list[str]:
    """What the folder's own about.md says, a paragraph each: it stands above the tables."""
    path = folder / "about.md"
    text = path.read_text(encoding="utf-8") if path.exists() else ""
    paragraphs = (" ".join(part.split()) for part in text.split("\n\n"))
    return [paragraph for paragraph in paragraphs if paragraph]


def _made_before(folder: Path) -> list[Path]:
    """Pages that not every folder has, where an earlier call has left them."""
    paths = [folder / findings.FILE, *sorted(folder.glob(f"{markdown.TASKS}/*.md"))]
    return [
        path
        for path in paths
        if path.exists() and path.read_text(encoding="utf-8").endswith(f"{markdown.MADE}\n")
    ]


def main(arguments: list[str] | None = None, emit: Callable[[str], None] = print) -> int:
    parser = commands.parser(COMMAND, "Records in, leaderboard out.", check=True)
    parser.add_argument(
        "folder", nargs="?", type=Path, default=files.LOCAL, help="default: %(default)s"
    )
    parser.add_argument(
        "--excerpt",
        type=Path,
        metavar="README",
        help="also write the rows that a comment in this file asks for, and their picture",
    )
    parser.add_argument(
        "--pictures", type=Path, metavar="DIR", help="also write pictures into it, SVG and PNG"
    )
    parser.add_argument(
        "--latex", type=Path, metavar="FILE", help="also write the tables into it, for booktabs"
    )
    parser.add_argument(
        "--board", help="default: the board that the folder is called after, or main"
    )
    commands.add_config_dir(
        parser, "a folder like conf/ of your own: its boards, and the classes of its methods"
    )
    chosen = parser.parse_args(arguments)

    def written() -> int:
        # Rows of one's own are known by their files; without any Hydra need not be asked.
        own = composing(*chosen.config_dir) if chosen.config_dir else nullcontext()
        with files.keeping_all(), own:
            return _made(chosen, emit)

    return exit_status(written, own=chosen.config_dir)


def _made(chosen: argparse.Namespace, emit: Callable[[str], None]) -> int:
    board = board_of(chosen.folder, chosen.board, chosen.config_dir)
    held = files.read_folder(chosen.folder)
    found, audits, unreadable = held.records, held.audits, held.unreadable
    for sentence in unreadable:
        print(f"posbench: left out: {sentence}", file=sys.stderr)
    refuse_others(chosen.folder, board, found)
    made = generate(chosen.folder, found, audits, board, chosen.config_dir)
    written = {chosen.folder / name: content.encode() for name, content in made.pages.items()}
    if chosen.excerpt is not None:
        texts = excerpts(chosen.excerpt, chosen.folder, made.measured, board, made.ranked)
        written |= {path: text.encode() for path, text in texts.items()}
    written |= _for_papers(chosen, made)
    # Nothing is left that these could say.
    left_over = [path for path in _made_before(chosen.folder) if path not in written]
    again = (
        f"run `{COMMAND} {shlex.quote(str(chosen.folder))}` with the versions of constraints.txt, "
        "and commit the result"
    )
    commands.write_or_check(written, chosen.check, again, left_over)
    if chosen.check:
        emit(f"{chosen.folder}: up to date{' with the others' if unreadable else ''}.")
        return 1 if unreadable else 0
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")  # a terminal without ± still gets its tables
    show(made.sections, made.notes, emit)
    emit(f"Written, with more columns: {', '.join(map(str, written))}")
    emit(f"Open the page in a browser: {chosen.folder / 'leaderboard.html'}")
    return 1 if unreadable else 0


def _for_papers(chosen: argparse.Namespace, made: Generated) -> dict[Path, bytes]:
    """The pictures and the tables that were asked for, by their paths."""
    found: dict[Path, bytes] = {}
    if chosen.pictures is not None:
        from posbench.leaderboard import pictures  # and with it matplotlib: a second

        drawn = pictures.pictures(made.measured, made.ranked)
        found |= {chosen.pictures / name: content for name, content in drawn.items()}
    if chosen.latex is not None:
        found[chosen.latex] = latex(made.ranked).encode()
    return found
