"""A table of text, as Markdown and for a terminal."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass


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
        lines = [
            " | ".join(" ".join(cell.split()).replace("|", "\\|") for cell in cells)
            for cells in [self.headings, *rows]
        ]
        lines.insert(1, " | ".join(["---"] + ["---:"] * (len(self.headings) - 1)))
        return [f"| {line} |" for line in lines]

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
