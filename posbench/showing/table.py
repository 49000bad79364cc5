"""A table of text, as Markdown and for a terminal."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from posbench.statistics.aggregates import Estimate

# -- numbers as they are read ----------------------------------------------------------------------

NOTHING = "\N{EN DASH}"


def number(value: float, decimals: int = 2) -> str:
    """The text of a number without its leading zero, as accuracies are read: .93, 1.00, -.07."""
    if np.isnan(value):
        return NOTHING
    text = f"{round(value, decimals) + 0.0:.{decimals}f}"  # + 0.0: no negative zero
    return text.replace("0.", ".", 1) if text.startswith(("0.", "-0.")) else text


def with_interval(estimate: Estimate) -> str:
    """The mean, with half the width of its interval where it has one: .93 ±.02."""
    if np.isnan(estimate.half_width):
        return number(estimate.mean)
    return f"{number(estimate.mean)} ±{number(estimate.half_width)}"


# -- all together ----------------------------------------------------------------------------------

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
        """Its lines in Markdown, in which none of its texts is markup."""
        rows = [
            [
                f"{plain(row.name)} *({plain(row.mark)})*" if row.mark else plain(row.name),
                *map(plain, row.cells),
            ]
            for row in self.rows
        ]
        return [_line(cells) for cells in _ruled(list(map(plain, self.headings)), rows)]

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
    """The lines of a table in Markdown, as the texts of its cells are, which may have bars and line
    breaks. What others have written goes through `plain` or `code` before.

    Args:
        headings: one a column
        rows: the cells of each row
        columns: l for a column that is set to the left and r for one to the right, as in LaTeX;
            left out, the first is set to the left and the others to the right
    """
    return [_line(map(_in_a_cell, cells)) for cells in _ruled(headings, rows, columns)]


def _ruled(
    headings: Sequence[str], rows: Iterable[Sequence[str]], columns: str = ""
) -> list[Sequence[str]]:
    columns = columns or f"l{'r' * (len(headings) - 1)}"
    return [headings, [RULES[column] for column in columns], *rows]


def _line(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"


BAR = re.compile(r"(?<!\\)((?:\\\\)*)\|")
"""A bar that is not escaped already."""
MARKUP = re.compile(
    r"""\\(?=[!-/:-@\[-`{-~])   # what would escape the sign after it
    | [`|]
    | <(?=[A-Za-z/!?])           # a tag, a comment, a link
    | !(?=\[)                    # a picture
    | (?<=\])[(\[:]              # where a link leads, also by a name
    """,
    re.VERBOSE,
)
BEGINNING = re.compile(r"\d+(?=[.)]\s)|(?=[#>*+=~-])")
"""What would begin a heading, a quotation, a list or another block, up to the sign that does."""


def plain(text: str) -> str:
    """A text that others may have written, as one line of Markdown that shows it as it is."""
    return MARKUP.sub(r"\\\g<0>", " ".join(text.splitlines()))


def paragraph(text: str) -> str:
    """The same where a line begins with it."""
    line = plain(text)
    start = BEGINNING.match(line)
    return f"{line[: start.end()]}\\{line[start.end() :]}" if start else line


def code(text: str) -> str:
    """A name between signs that make it code, of which it may have some itself."""
    line = " ".join(text.splitlines())
    longest = max(map(len, re.findall("`+", line)), default=0)
    fence, space = "`" * (longest + 1), " " * bool(longest)
    return f"{fence}{space}{line}{space}{fence}"


def _in_a_cell(text: str) -> str:
    return BAR.sub(r"\1\|", " ".join(text.splitlines()))


# -- tables for papers -----------------------------------------------------------------------------

SIGNS = {
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    **{sign: f"\\{sign}" for sign in "&%$#_{}"},
    NOTHING: "--",
}


def tabular(
    headings: Sequence[str], rows: Iterable[Sequence[str]], caption: str | None = None
) -> str:
    """A table for `booktabs`, whose cells are LaTeX already; the first column is set to the left.

    With a caption it floats.
    """
    cells = pd.DataFrame(list(rows), columns=list(headings))
    columns = f"l{'r' * (len(headings) - 1)}"
    text: str = cells.to_latex(index=False, escape=False, caption=caption, column_format=columns)
    return text


def escaped(text: str) -> str:
    """A text as LaTeX shows it; a name may break behind an underscore."""
    return "".join(SIGNS.get(sign, sign) for sign in text).replace("\\_", "\\_\\allowbreak{}")
