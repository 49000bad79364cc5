"""A few rows of a board in a README.

They stand between two comments of it, of which the first says what they are, in one of two ways:

    <!-- board results/main: direct pi ntk yarn of rope_short_base at 1 2 4 8 -->
    ...
    <!-- end of board -->

    <!-- board results/main: rope alibi fox rope_yarn by group -->
    ...
    <!-- end of board -->

`python -m posbench.leaderboard results/main --excerpt README.md` writes those of results/main, and
the picture excerpt.svg of the first comment of the first kind beside the records; with `--check` it
fails if that would change anything.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from posbench.base.errors import PosbenchError
from posbench.boards.excerpt_of_groups import ExcerptOfGroups
from posbench.boards.excerpt_of_lengths import ExcerptOfLengths
from posbench.boards.measured import Measured
from posbench.boards.ranking import Standing
from posbench.config.board import Board

MARKED = re.compile(
    r"(<!-- board (?P<folder>\S+): (?P<words>[^>\n]+?) -->\n).*?(<!-- end of board -->)", re.DOTALL
)
PICTURE = "excerpt.svg"


def excerpts(
    readme: Path, folder: Path, measured: Measured, board: Board, ranked: Sequence[Standing]
) -> dict[Path, str]:
    """The README with its rows, and the picture if there is one, by their paths.

    Raises:
        PosbenchError: if the README asks for nothing of this folder, or for what it lacks
    """
    text = readme.read_text(encoding="utf-8")
    folders = {Path(found["folder"]).resolve() for found in MARKED.finditer(text)}
    if folder.resolve() not in folders:
        raise PosbenchError(
            f"{readme} has no comment that asks for a board of {folder}: write "
            f"<!-- board {folder}: {ExcerptOfLengths.WORDS} --> or "
            f"<!-- board {folder}: {ExcerptOfGroups.WORDS} -->, and <!-- end of board --> after it"
        )
    made: dict[Path, str] = {}

    def filled(found: re.Match[str]) -> str:
        if Path(found["folder"]).resolve() != folder.resolve():
            return found[0]
        if lengths := ExcerptOfLengths.of(found["words"]):
            scores = lengths.scores(measured.lengths, board.protocol)
            rows = lengths.markdown(scores)
            if folder / PICTURE not in made:
                made[folder / PICTURE] = lengths.picture(scores)
        elif groups := ExcerptOfGroups.of(found["words"]):
            rows = groups.markdown(board, ranked)
        else:
            raise PosbenchError(
                f"{readme} asks for {found['words']!r} of {folder}: write "
                f"{ExcerptOfLengths.WORDS}, or {ExcerptOfGroups.WORDS}"
            )
        return f"{found[1]}\n{rows}\n{found[found.re.groups]}"

    made[readme] = MARKED.sub(filled, text)
    return made
