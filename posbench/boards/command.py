"""The command: reads records, writes `leaderboard.md`, `.html` and `.csv`, and `runs.csv`.

`posbench board [FOLDER]` reads FOLDER/records (your own runs by default),
writes the files into FOLDER and prints the tables. The same records give the same bytes. Nothing
here imports torch.
"""

from __future__ import annotations

import argparse
import io
import itertools
import shlex
import sys
from collections.abc import Callable, Iterable, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any

from posbench.base.errors import PosbenchError
from posbench.base.wording import complaint, printable
from posbench.boards.measured_runs import under_one_protocol
from posbench.boards.page import generate
from posbench.boards.tables import LEARNED, REACHES, Term, latex, of_kind
from posbench.config import command_lines
from posbench.config.board import Board, board_of, load, names
from posbench.config.board_rows import pairs
from posbench.config.compose import composing
from posbench.config.exit_status import exit_status
from posbench.records import files
from posbench.records.record import Record
from posbench.showing.pages import Chapter

COMMAND = "posbench board"
SAID = 100
"""Sentences on what is left out."""


def show(
    parts: Sequence[Chapter], notes: Sequence[str], emit: Callable[[str], None], learned: Term
) -> None:
    """Print the tables in the terminal, with the columns that it has room for."""
    for part in parts:
        emit(printable(f"{part.title}\n"))
        for table in part.tables:
            for said, group in table.groups:
                for line in [*([said, ""] if said else []), *group.aligned(indent=2)]:
                    emit(f"  {printable(line)}" if line == said else f"  {line}".rstrip())
                emit("")
    of_trainings = f" reaches: {REACHES.short}" if learned is LEARNED else ""
    emit(f"learned: {learned.short}{of_trainings}\n")
    for note in notes:
        emit(printable(f"Note: {note}"))


def main(arguments: list[str] | None = None, emit: Callable[[str], None] = print) -> int:
    parser = command_lines.parser(COMMAND, "Records in, leaderboard out.", check=True)
    parser.add_argument("folder", nargs="*", type=Path, help=f"default: {files.LOCAL}")
    parser.add_argument(
        "--latex", type=Path, metavar="FILE", help="also write the tables into it, for booktabs"
    )
    parser.add_argument(
        "--board", help="default: the board that the folder is called after, or main"
    )
    command_lines.add_config_dir(
        parser, "a folder like conf/ of your own: its boards, and the classes of its methods"
    )
    chosen = parser.parse_args(arguments)

    def written() -> int:
        chosen.folder = _one_folder(chosen.folder)
        # Rows of the user are known by their files; without any Hydra need not be asked.
        own = composing(*chosen.config_dir) if chosen.config_dir else nullcontext()
        with files.keeping_all(), own:
            return _made(chosen, emit)

    return exit_status(written, own=chosen.config_dir)


def say_left_out(sentences: Iterable[str]) -> None:
    """The first of these, and how many more there are: a file may have 100,000 bad lines."""
    left = iter(sentences)
    for sentence in itertools.islice(left, SAID):
        print(complaint(f"left out: {sentence}"), file=sys.stderr)
    if more := sum(1 for _ in left):
        print(complaint(f"left out: {more:,} more, which are not told one by one"), file=sys.stderr)


def _one_folder(given: Sequence[Path]) -> Path:
    """The folder whose page is made; PosbenchError for several, or for what is none."""
    if len(given) > 1:
        raise PosbenchError(
            f"{' '.join(map(str, given))} are {len(given)} folders, and a page is of one: give "
            "the command once for each"
        )
    folder = given[0] if given else files.LOCAL
    if folder.is_file():
        raise PosbenchError(
            f"{folder} is a file: name the folder that holds records/, as {files.MAIN}"
        )
    return folder


def _made(chosen: argparse.Namespace, emit: Callable[[str], None]) -> int:
    board = board_of(chosen.folder, chosen.board, chosen.config_dir)
    held = files.read_folder(chosen.folder)
    say_left_out(held.unreadable)
    refuse_others(chosen.folder, board, held.records)
    made = generate(chosen.folder, held.records, held.audits, board, chosen.config_dir)
    say_left_out(made.left_out)
    unreadable = [*held.unreadable, *made.left_out]
    written = {chosen.folder / name: content.encode() for name, content in made.pages.items()}
    if chosen.latex is not None:
        written[chosen.latex] = latex(made.ranked, made.measured).encode()
    again = (
        f"run `{COMMAND} {shlex.quote(str(chosen.folder))}` with the versions of constraints.txt, "
        "and commit the result"
    )
    command_lines.write_or_check(written, chosen.check, again, within=chosen.folder)
    if chosen.check:
        emit(f"{chosen.folder}: up to date{' with the others' if unreadable else ''}.")
        return 1 if unreadable else 0
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")  # a terminal without ± still gets its tables
    kinds = [each.kind for each in made.ranked]
    show(made.parts, made.notes, emit, of_kind(kinds[0]) if len({*kinds}) == 1 else LEARNED)
    emit(f"Written, with more columns: {', '.join(map(str, written))}")
    emit(f"Open the page in a browser: {chosen.folder / 'leaderboard.html'}")
    return 1 if unreadable else 0


def refuse_others(folder: Path, board: Board, found: Sequence[Record]) -> None:
    """Refuse what was not asked for before it was run, if the folder is called after the board.

    What another panel asked for counts where this one asks for it too: panels share rows, and none
    is run twice.
    """
    if folder.name != board.name:
        return
    asked = board.hashes
    others = [record for record in found if record.definition not in asked]
    fixed = {each for name in names() for each in load(name).hashes} if others else set()
    strange = [record for record in others if record.definition not in fixed]
    if strange := strange or _unasked(board, others):
        of = strange[0].definition[:8] or "none"
        raise PosbenchError(
            f"{len(strange)} of {len(found)} records in {folder} were made for another definition "
            f"({of}, not {board.hash[:8]}): board {board.name} takes no runs that it did not ask "
            "for; repeat them, or keep them in another folder"
        )


def _unasked(board: Board, others: Sequence[Record]) -> list[Record]:
    """Records of other panels that no part of this board asks for. Experiments have tasks of their
    own, so a board with some takes all.
    """
    if not others or any(rows.experiments for rows in board.parts.values()):
        return []
    asked = {
        (*pair, seed, task, rows.protocol or board.protocol)
        for rows in board.parts.values()
        for pair in pairs(rows)
        for task in rows.tasks or board.all_tasks
        for seed in rows.seeds_of(task)
    }
    found = under_one_protocol(others, board)

    def place(each: Record) -> tuple[Any, ...]:
        return (*each.method.row, each.seed, each.task.label, each.protocol.label)

    return [each for each in found if place(each) not in asked]
