"""Some rows of a section of a board, in a README: overall, and group by group."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from posbench.base.errors import PosbenchError
from posbench.base.wording import counted
from posbench.boards.ranking import Standing, score, span
from posbench.config.board import Board
from posbench.showing.table import NOTHING, code, number, pipes


@dataclass(frozen=True)
class ExcerptOfGroups:
    """Rows of one section, which are ranked on the same tasks and seeds."""

    rows: tuple[str, ...]

    WORDS = "ROWS by group"

    @classmethod
    def of(cls, words: str) -> ExcerptOfGroups | None:
        """What a comment asks for with these words; None if that is something else."""
        found = re.fullmatch(r"([\w+\- ]+) by group", words)
        return None if found is None else cls(tuple(found[1].split()))

    def markdown(self, board: Board, ranked: Sequence[Standing]) -> str:
        """The table, the largest overall number first.

        While a section is under way, it is ranked on some of its tasks, and the heading says on how
        many.

        Raises:
            PosbenchError: if no section of the board has all of the rows, each with a place
        """
        standing = next((each for each in ranked if set(self.rows) <= set(each.complete)), None)
        if standing is None:
            raise PosbenchError(
                f"no section of the board has {', '.join(self.rows)} on all of its tasks that have "
                "been run: run what is missing, or name rows of one section"
            )
        summary, part = standing.summary, standing.part
        asked, lacking = part.asked(board), part.lacking(board)
        on = f" ({len(asked) - len(lacking)} of {counted(len(asked), 'task')})" if lacking else ""
        columns: dict[str, Callable[[str], str]] = {
            f"overall{on}": functools.partial(score, summary, "overall"),
            "95 % over tasks": lambda row: span(summary, row, "tasks"),
            **{group: functools.partial(score, summary, group) for group in standing.groups},
            "seeds": lambda row: f"{summary.loc[row, 'num_seeds']:.0f}",
            "CPU s": lambda row: number(float(part.cost[row]), 0),
        }
        named = [row for row in standing.complete if row in self.rows]
        cells = {heading: [show(row) for row in named] for heading, show in columns.items()}
        # There is no interval over tasks where a group has only one.
        cells = {heading: each for heading, each in cells.items() if set(each) != {NOTHING}}
        rows = [[code(row), *each] for row, *each in zip(named, *cells.values(), strict=True)]
        return "\n".join([*pipes(["method", *cells], rows), ""])
