"""The board that a folder of records is judged by, and which records it may hold."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from posbench.base.errors import PosbenchError
from posbench.config import board as definition
from posbench.config.board import Board
from posbench.records.record import Record


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
