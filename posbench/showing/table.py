"""A table of text, for every format: a page, Markdown, a terminal, LaTeX."""

from __future__ import annotations

import functools
import html
import io
import itertools
import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import pandas as pd

from posbench.base.wording import printable
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


def span(low: float, high: float, digits: int = 2) -> str:
    """An interval, as in ".10 to .60"; one number where both ends are the same, a dash for NaN."""
    ends = [number(low, digits), number(high, digits)]
    return ends[0] if ends[0] == ends[1] else " to ".join(ends)


def bounds(row: pd.Series) -> str:
    """What follows a number in a sentence, of its `low` and `high`: " (95 % .10 to .60)", or ""."""
    return "" if np.isnan(row["low"]) else f" (95 % {span(row['low'], row['high'])})"


def short_names(names: Sequence[str]) -> list[str]:
    """The names without what all of them have: a pretrained model behind an @; settings, where
    there are several names.
    """
    for sign in ("@", " ("):
        ends = {name.partition(sign)[2] for name in names}
        if len(ends) == 1 and (sign == "@" or len(names) > 1):
            names = [name.partition(sign)[0] for name in names]
    return list(names)


# -- tables ----------------------------------------------------------------------------------------

RULES = {"l": "---", "r": "---:"}
"""What is below the heading of a column that is set to the left or to the right."""


MOST = 7
"""Columns that a terminal has room for."""


@dataclass(frozen=True)
class Column:
    """A heading with what it means, and where and how it is shown."""

    name: str
    about: str = ""
    heat: bool = False  # whether its cells are coloured by their number on a page
    terminal: bool = True  # whether it is shown in a terminal
    paper: bool = True  # whether it is shown in LaTeX
    text: bool = False  # set to the left


@dataclass(frozen=True)
class Line:
    """A name with its cells."""

    name: str
    cells: Sequence[str]
    marks: Sequence[str] = ()  # shown beside the name
    own: bool = False  # the row that all is about
    lacking: bool = False  # it has no place among the others
    group: str = ""  # what is written above it and the next ones that have the same


@dataclass(frozen=True)
class Table:
    """Lines under columns, of which the first is that of the names; shown in every format."""

    columns: Sequence[Column]
    rows: Sequence[Line]
    kind = "table"

    @classmethod
    def of(cls, headings: Iterable[str], rows: Sequence[Line]) -> Table:
        """A table without more to say of its columns."""
        return cls(list(map(Column, headings)), rows)

    @property
    def headings(self) -> list[str]:
        return [column.name for column in self.columns]

    @property
    def groups(self) -> Iterator[tuple[str, Table]]:
        """Its lines in their order, and what is written above them."""
        for said, lines in itertools.groupby(self.rows, key=lambda line: line.group):
            yield said, Table(self.columns, list(lines))

    @property
    def pipes(self) -> list[str]:
        """Its lines in Markdown. The first column is set to the left, and a group is a table."""
        _, *rest = self.columns
        sides = "l" + "".join("l" if column.text else "r" for column in rest)
        headings = [plain(heading) for heading in self.headings]
        found: list[str] = []
        for said, table in self.groups:
            found += ([""] if found else []) + ([paragraph(said), ""] if said else [])
            rows = [[_named(line), *map(plain, line.cells)] for line in table.rows]
            found += pipes(headings, rows, sides)
        return found

    def aligned(self, indent: int = 0) -> list[str]:
        """Its lines for a terminal, with the columns that it has room for: plain where they go to
        a file or another program.

        Args:
            indent: columns of the terminal that are taken already
        """
        from rich import console, table  # as slow to import as all else that a short command needs
        from rich.text import Text

        styled = sys.stdout.isatty()
        wide = console.Console().width - indent if styled else WIDE
        shown = [place for place, column in enumerate(self.columns) if column.terminal][:MOST]
        grid = table.Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
        for place in shown:
            column = self.columns[place]
            side: Literal["left", "right"] = "right" if place and not column.text else "left"
            grid.add_column(Text(printable(column.name)), justify=side, overflow="fold")
        for row in self.rows:
            name = f"{row.name} ({', '.join(row.marks)})" if row.marks else row.name
            texts = [Text(printable(cell)) for cell in (name, *row.cells)]
            style = "bold" if row.own else "dim" if row.lacking else None
            grid.add_row(*(texts[place] for place in shown), style=style)
        written = io.StringIO()
        console.Console(file=written, width=wide, force_terminal=styled).print(grid)
        return [line.rstrip() for line in written.getvalue().splitlines()]

    def latex(self, caption: str | None = None) -> str:
        """The table for `booktabs`, with the columns for papers; our own row is in bold, and with a
        caption it floats.
        """
        shown = [place for place, column in enumerate(self.columns) if column.paper]
        rows = []
        for row in self.rows:
            cells = [escaped((row.name, *row.cells)[place]) for place in shown]
            rows.append([rf"\textbf{{{cell}}}" for cell in cells] if row.own else cells)
        text: str = pd.DataFrame(rows, columns=[escaped(self.headings[i]) for i in shown]).to_latex(
            index=False,
            escape=False,
            caption=None if caption is None else escaped(caption),
            column_format=f"l{'r' * (len(shown) - 1)}",
        )
        return text


WIDE = 10_000
"""Columns of what is no terminal: no name is broken there."""


def _named(line: Line) -> str:
    name = plain(line.name)
    return f"{name} *({plain(', '.join(line.marks))})*" if line.marks else name


def shade(cell: str) -> str:
    """How strongly a cell is coloured, in percent; "" of a cell without a number."""
    return "" if cell == NOTHING else f"{100 * min(max(float(cell), 0.0), 1.0):.0f}"


def pipes(headings: Sequence[str], rows: Iterable[Sequence[str]], columns: str = "") -> list[str]:
    """The lines of a table in Markdown, as the texts of its cells are, which may have bars and line
    breaks. What others have written goes through `plain` or `code` before.

    Args:
        headings: one a column
        rows: the cells of each row
        columns: l for a column that is set to the left and r for one to the right, as in LaTeX;
            left out, the first is set to the left and the others to the right
    """
    columns = columns or f"l{'r' * (len(headings) - 1)}"
    lines = [headings, [RULES[column] for column in columns], *rows]
    return [f"| {' | '.join(map(_in_a_cell, cells))} |" for cells in lines]


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


class Markdown(str):
    """A text with markup of our own, as links; any other text is shown as it is."""

    __slots__ = ()

    def __html__(self) -> str:
        """Its code and its links, on a page."""
        text = html.escape(self, quote=False)
        return functools.reduce(lambda found, each: each[0].sub(each[1], found), ON_A_PAGE, text)


ON_A_PAGE = (
    (re.compile(r"`([^`]+)`"), r"<code>\1</code>"),
    (re.compile(r"\[([^\]]+)\]\(([^()\s\"]+)\)"), r'<a href="\2">\1</a>'),
)


def plain(text: str) -> str:
    """A text that others may have written, as one line of Markdown that shows it as it is."""
    if isinstance(text, Markdown):
        return text
    return MARKUP.sub(r"\\\g<0>", " ".join(text.splitlines()))


def paragraph(text: str) -> str:
    """The same where a line begins with it."""
    if isinstance(text, Markdown):
        return text
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


# -- files of CSV ----------------------------------------------------------------------------------

FORMULAS = ("=", "+", "-", "@", "\t", "\r", "\n", "＝", "＋", "－", "＠")  # noqa: RUF001
"""Beginnings of what a spreadsheet calculates, in both widths."""


def csv(frame: pd.DataFrame) -> str:
    """A frame as CSV, with six digits, in which no text is a formula for a spreadsheet."""
    for name in frame.select_dtypes(["object", "string"]):
        # A column has few values, each of them in many lines.
        texts = {each for each in frame[name].unique() if isinstance(each, str)}
        if formulas := {each: f"'{each}" for each in texts if each.startswith(FORMULAS)}:
            frame = frame.assign(**{name: frame[name].replace(formulas)})
    return frame.to_csv(index=False, float_format="%.6g", lineterminator="\n")


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


def escaped(text: str) -> str:
    """A text as LaTeX shows it; a name may break behind an underscore."""
    return "".join(SIGNS.get(sign, sign) for sign in text).replace("\\_", "\\_\\allowbreak{}")
