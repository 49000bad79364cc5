"""A table of text, as Markdown and for a terminal."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

RULES = {"l": "---", "r": "---:"}
"""What stands below the heading of a column that is set to the left or to the right."""


@dataclass(frozen=True)
class Row:
    name: str
    cells: list[str]
    mark: str = ""  # shown beside the name


@dataclass(frozen=True)
class Table:
    headings: list[str]
    rows: list[Row]

    @property
    def pipes(self) -> list[str]:
        """Its lines in Markdown."""
        rows = [
            [f"{row.name} *({row.mark})*" if row.mark else row.name, *row.cells]
            for row in self.rows
        ]
        return pipes(self.headings, rows)

    def aligned(self, without: Collection[str] = ()) -> list[str]:
        """Its lines for a terminal, without the columns of these headings."""
        rows = [
            [f"{row.name} ({row.mark})" if row.mark else row.name, *row.cells] for row in self.rows
        ]
        columns = [
            each for each in zip(self.headings, *rows, strict=True) if each[0] not in without
        ]
        widths = [max(map(len, column)) for column in columns]
        return [
            "  ".join(
                cell.rjust(width) if index else cell.ljust(width)
                for index, (cell, width) in enumerate(zip(line, widths, strict=True))
            ).rstrip()
            for line in zip(*columns, strict=True)
        ]


def pipes(headings: Sequence[str], rows: Iterable[Sequence[str]], columns: str = "") -> list[str]:
    """The lines of a table in Markdown; the text of a cell may have bars and line breaks.

    Args:
        headings: one a column
        rows: the cells of each row
        columns: l for a column that is set to the left and r for one to the right, as in LaTeX;
            left out, the first is set to the left and the others to the right
    """
    columns = columns or f"l{'r' * (len(headings) - 1)}"
    lines = [headings, [RULES[column] for column in columns], *rows]
    return [f"| {' | '.join(map(_in_a_cell, cells))} |" for cells in lines]


def _in_a_cell(text: str) -> str:
    return " ".join(text.splitlines()).replace("|", r"\|")
