"""The tables of a board: what is ranked together, and the rows of each task by length.

One table serves every format: the page, Markdown, the terminal and LaTeX.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import pandas as pd

from posbench.boards import page_data, terms
from posbench.boards.by_length import TaskRows
from posbench.boards.measured import Measured
from posbench.boards.ranking import Standing, score
from posbench.showing.table import NOTHING, Row, Table, number, with_interval
from posbench.statistics.aggregates import Estimate, is_pretrained


@dataclass(frozen=True)
class Column:
    """A heading with what it means, and where it is shown."""

    name: str
    about: str = ""
    heat: bool = False  # whether its cells are coloured by their number
    terminal: bool = False  # whether a terminal has room for it


@dataclass(frozen=True)
class Cell:
    """A text, and in percent how strong its colour is; it is the text that says the number."""

    text: str
    heat: str = ""

    @classmethod
    def coloured(cls, value: float) -> Cell:
        if pd.isna(value):
            return EMPTY
        return cls(number(value), f"{100 * min(max(value, 0.0), 1.0):.0f}")


EMPTY = Cell(NOTHING)


@dataclass(frozen=True)
class Line:
    """A row of the board in a table."""

    row: str
    cells: Sequence[Cell]
    marks: Sequence[str] = ()  # said beside its name
    own: bool = False  # whether the page is about it
    lacking: bool = False  # whether it has no overall number


@dataclass(frozen=True)
class Ranking:
    """A table of rows, best first; the first column is that of their names."""

    columns: Sequence[Column]
    lines: Sequence[Line]

    @classmethod
    def of(
        cls,
        standing: Standing,
        measured: Measured,
        own: str = "",
        sketched: Mapping[str, Mapping[str, str]] | None = None,
    ) -> Ranking:
        """The rows of a standing. A column in which no row has anything is left out.

        Args:
            standing: what is ranked together
            measured: all runs
            own: the row that the page is about
            sketched: how the attention of each row is computed, as `page_data.sketches` has it
        """
        known = page_data.sketches() if sketched is None else sketched
        columns = [
            Column("area", terms.AREA.short, heat=True, terminal=True),
            Column("95 %", f"{terms.INTERVAL.short} Here {standing.drawn} are drawn.", False, True),
            Column("rank", terms.RANK.short, terminal=True),
            *(Column(group, heat=True) for group in standing.groups if len(standing.groups) > 1),
            Column("1x", terms.AT_TRAINING_LENGTH.short, terminal=True),
            Column("learned", terms.LEARNED.short, terminal=True),
            Column("reach", terms.REACH.short, terminal=True),
            Column("seeds", "The fewest of a task."),
            Column("tasks", "How many it has been run on, where rows differ."),
            Column("CPU s", terms.CPU.short),
            Column("path", terms.PATH.short),
            Column("keys", terms.KEYS.short),
        ]
        rows = list(map(str, standing.summary.index))
        cells = [_cells(standing, row, known.get(row, {})) for row in rows]
        filled = [any(each != EMPTY for each in column) for column in zip(*cells, strict=True)]
        kept = [place for place, shown in enumerate(filled) if shown or place == 0]
        lines = [
            Line(
                row,
                [of_row[place] for place in kept],
                _marks(standing, row, row in measured.as_trained, row == own),
                row == own,
                bool(pd.isna(standing.summary.loc[row, "overall"])),
            )
            for row, of_row in zip(rows, cells, strict=True)
        ]
        return cls([Column("method", terminal=True), *(columns[place] for place in kept)], lines)

    def plain(self, terminal: bool = False) -> Table:
        """The table without colours; for a terminal with few columns."""
        kept = [
            place
            for place, column in enumerate(self.columns[1:])
            if column.terminal or not terminal
        ]
        rows = [
            Row(line.row, [line.cells[place].text for place in kept], ", ".join(line.marks))
            for line in self.lines
        ]
        return Table(["method", *(self.columns[1:][place].name for place in kept)], rows)


def _cells(standing: Standing, row: str, known: Mapping[str, str]) -> list[Cell]:
    """All cells of a row; `known` says how its attention is computed."""
    summary = standing.summary
    groups = standing.groups if len(standing.groups) > 1 else ()
    differing = summary["num_tasks"].nunique() > 1
    return [
        Cell.coloured(summary.loc[row, "overall"]),
        Cell(standing.shown_interval(row)),
        Cell(standing.shown_rank(row)),
        *(Cell.coloured(summary.loc[row, group]) for group in groups),
        Cell(score(summary, "in_distribution", row)),
        Cell(standing.shown_learned(row)),
        Cell(str(standing.reach(row))),
        Cell(score(summary, "num_seeds", row, decimals=0)),
        Cell(score(summary, "num_tasks", row, decimals=0)) if differing else EMPTY,
        Cell(standing.shown_cost(row)),
        Cell(known.get("path") or NOTHING),
        Cell(known.get("keys") or NOTHING),
    ]


def _marks(standing: Standing, row: str, as_trained: bool, own: bool) -> list[str]:
    # An extension may lose what its training has learned.
    trained = as_trained and not is_pretrained(standing.kind)
    failed = "did not learn" if trained else "fails at 1x"
    said = {"yours": own, failed: standing.summary.loc[row, "learned"] == 0}
    return [mark for mark, holds in said.items() if holds]


# -- one task --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class TaskTable:
    """A task: every row that was run on it, class by class, with its score at each length."""

    name: str
    note: str
    columns: Sequence[Column]
    classes: Mapping[str, Sequence[Line]]

    @classmethod
    def of(cls, task: TaskRows, usual: str = "", own: str = "") -> TaskTable:
        """The table of a task; its name has the protocol if that is not the usual one."""
        columns = [
            Column("method", terminal=True),
            Column("area", terms.AREA.short, terminal=True),
            *(
                Column(heading, heat=True, terminal=heading in SHORT)
                for heading in task.lengths.values()
            ),
            Column("learned", terms.LEARNED.short, terminal=True),
        ]

        def line(row: str) -> Line:
            of_row = task.rows.loc[row]
            area = Estimate(float(of_row["area"]), float(of_row["area_half_width_95"]))
            scores = [number(float(of_row[n])) for n in task.lengths]
            tested = int(of_row["seeds_at_1x"])
            learned = f"{int(of_row['learned'])}/{tested}" if tested else NOTHING
            cells = [Cell(text) for text in (with_interval(area), *scores, learned)]
            return Line(row, cells, ["yours"] * (row == own), row == own)

        classes = {
            str(kind): [line(str(row)) for row in rows]
            for kind, rows in itertools.groupby(
                task.rows.index, key=lambda row: task.rows.loc[row, "class"]
            )
        }
        name = task.name if task.protocol in ("", usual) else f"{task.name}, {task.protocol}"
        return cls(name, task.note, columns, classes)

    @property
    def rankings(self) -> Iterator[tuple[str, Ranking]]:
        """A table a class."""
        for kind, lines in self.classes.items():
            yield kind, Ranking(self.columns, lines)


SHORT = ("1x", "2x", "4x", "8x")
"""The lengths of a task that a terminal has room for."""
