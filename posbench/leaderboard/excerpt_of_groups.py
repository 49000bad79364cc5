"""Some rows of a board with groups, in a README: overall, and group by group."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from posbench.boards.definition import Board
from posbench.errors import PosbenchError
from posbench.leaderboard.ranking import Standing, span
from posbench.showing.numbers import number
from posbench.showing.table import pipes


@dataclass(frozen=True)
class ExcerptOfGroups:
    """Rows of any part of the board that has all of its tasks, each with its intervals."""

    rows: tuple[str, ...]

    WORDS = "ROWS by group"

    @classmethod
    def of(cls, words: str) -> ExcerptOfGroups | None:
        """What a comment asks for with these words; None if that is something else."""
        found = re.fullmatch(r"([\w+\- ]+) by group", words)
        return None if found is None else cls(tuple(found[1].split()))

    def markdown(self, board: Board, ranked: Sequence[Standing]) -> str:
        """The table, the largest mean of the groups first.

        Raises:
            PosbenchError: if no part of the board has a row with all of its tasks
        """
        most = max((len(standing.part.asked(board)) for standing in ranked), default=0)
        places = {
            row: standing
            for standing in reversed(ranked)  # what stands in several parts counts in the first
            if len(standing.part.asked(board)) == most and not standing.part.lacking(board)
            for row in standing.complete
        }
        if lacking := [row for row in self.rows if row not in places]:
            raise PosbenchError(
                f"no part of the board has {', '.join(lacking)} on all of its tasks: run what is "
                "missing, or leave the row out"
            )
        numbers = {row: places[row].summary.loc[row] for row in self.rows}
        groups = places[self.rows[0]].groups
        rows = [
            [
                f"`{row}`",
                number(numbers[row]["overall"]),
                f"{numbers[row]['num_seeds']:.0f}",
                span(places[row].summary, row, "tasks"),
                *(number(numbers[row][group]) for group in groups),
                number(float(places[row].part.cost[row]), 0),
            ]
            for row in sorted(self.rows, key=lambda row: (-numbers[row]["overall"], row))
        ]
        headings = ["method", "overall", "seeds", "95 % over tasks", *groups, "CPU s"]
        return "\n".join([*pipes(headings, rows), ""])
