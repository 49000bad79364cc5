"""The tables of the page: what is ranked together, and each task with every row that was run on it.

They hold texts and numbers; `leaderboard.html.j2` makes HTML of them.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from posbench.boards import page_data, terms
from posbench.boards.labels import SHOWN
from posbench.boards.measured import Measured
from posbench.boards.ranking import Standing
from posbench.boards.summaries import Summary, TaskBoard
from posbench.config.methods import AS_TRAINED
from posbench.showing.table import NOTHING, number, with_interval
from posbench.statistics.aggregates import Estimate, is_pretrained, zero_shot_first


@dataclass(frozen=True)
class Column:
    """A heading with what it means, and whether its cells are coloured by their number."""

    name: str
    about: str = ""
    heat: bool = False


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
    marks: Sequence[str]  # said beside its name
    own: bool  # whether the page is about it


@dataclass(frozen=True)
class RankedLine(Line):
    """A row among those that are ranked together."""

    place: int  # among the rows of the data
    lacking: bool  # whether it has no overall number


@dataclass(frozen=True)
class Ranking:
    """The table of a section."""

    columns: Sequence[Column]
    lines: Sequence[RankedLine]

    @classmethod
    def of(cls, standing: Standing, data: Mapping[str, Any], own: str) -> Ranking:
        known = {row["name"]: (place, row) for place, row in enumerate(data["rows"])}
        columns = [
            Column("overall", terms.OVERALL.short, heat=True),
            Column("95 %", f"{terms.INTERVAL.short} Here {standing.drawn} are drawn."),
            Column("rank", terms.RANK.short),
            Column("tier", terms.TIER.short),
            *(Column(group, heat=True) for group in standing.groups),
            Column("reach", terms.REACH.short),
            Column("solved", terms.SOLVED.short),
            Column("CPU s", terms.CPU.short),
            Column("path", terms.PATH.short),
            Column("keys", terms.KEYS.short),
        ]
        rows = list(map(str, standing.summary.index))
        cells = [_cells(standing, row, known[row][1]) for row in rows]
        # A column that no row has anything in is left out: models of others were not trained here.
        # The overall number, with which lines are sorted, stays.
        filled = [any(each != EMPTY for each in column) for column in zip(*cells, strict=True)]
        kept = [place for place, shown in enumerate(filled) if shown or place == 0]
        lines = [
            RankedLine(
                row,
                [of_row[place] for place in kept],
                _marks(standing, row, own, known[row][1]["extension"]),
                row == own,
                known[row][0],
                bool(pd.isna(standing.summary.loc[row, "overall"])),
            )
            for row, of_row in zip(rows, cells, strict=True)
        ]
        return cls([Column("method"), *(columns[place] for place in kept)], lines)


def _cells(standing: Standing, row: str, known: Mapping[str, Any]) -> list[Cell]:
    """All cells of a row; `known` is what the data say of it."""
    summary = standing.summary
    return [
        Cell.coloured(summary.loc[row, "overall"]),
        Cell(standing.shown_interval(row)),
        Cell(standing.shown_rank(row)),
        Cell(standing.shown_tier(row)),
        *(Cell.coloured(summary.loc[row, group]) for group in standing.groups),
        Cell(str(standing.reach(row)[0])),
        Cell(standing.shown_solved(row)),
        Cell(standing.shown_cost(row)),
        Cell(known["path"] or NOTHING),
        Cell(known["keys"] or NOTHING),
    ]


def _marks(standing: Standing, row: str, own: str, extension: str) -> list[str]:
    # An extension may lose what its training has learned.
    trained = extension == AS_TRAINED and not is_pretrained(standing.kind)
    failed = "did not learn" if trained else "fails at 1x"
    said = {"yours": row == own, failed: standing.summary.loc[row, "learned"] == 0}
    return [mark for mark, holds in said.items() if holds]


# -- one task --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Task:
    """A task of the page: every row that was run on it, class by class."""

    name: str
    note: str
    columns: Sequence[Column]
    classes: Mapping[str, Sequence[Line]]

    @classmethod
    def of(cls, name: str, board: TaskBoard, areas: Mapping[str, Estimate], own: str) -> Task:
        """The scores of every row at each length from that of training on."""
        lengths = [length for length in board.lengths if length.multiple >= 1]
        columns = [
            Column("method"),
            Column("area"),
            *(Column(length.heading, heat=True) for length in lengths),
            Column("seeds"),
        ]

        def order(row: Summary) -> tuple[bool, str, float, str]:
            area = float(np.nan_to_num(areas[row.method].mean))
            return *zero_shot_first(row.method_class), -area, row.method

        def line(row: Summary) -> Line:
            mine = row.method == own
            scores = [number(row.cells[length.multiple].accuracy.mean) for length in lengths]
            texts = [with_interval(areas[row.method]), *scores, str(len(row.seeds))]
            return Line(row.method, list(map(Cell, texts)), ["yours"] * mine, mine)

        ordered = sorted(board.summaries, key=order)
        classes = {
            kind: list(map(line, rows))
            for kind, rows in itertools.groupby(ordered, key=lambda row: row.method_class)
        }
        tested = ", ".join(str(length.test_length) for length in lengths)
        trained = f"trained on {board.train_positions} positions, tested at n = {tested}"
        return cls(name, f"{board.measure}; {trained}", columns, classes)


def tasks(
    measured: Measured, standings: Sequence[Standing], data: Mapping[str, Any], own: str
) -> Iterator[Task]:
    """A table a task, in the order of the data."""
    boards = {(each.protocol, each.task): each for several in measured.boards for each in several}
    ranked = page_data.as_ranked(measured.runs, standings)
    areas = {key: Estimate.over(of_row) for key, of_row in ranked.groupby(SHOWN[:-1])["area"]}
    if not data["tasks"]:
        return
    usual = (data["sections"] or data["tasks"])[0]["protocol"]
    for task in data["tasks"]:
        board = boards[task["protocol"], task["name"]]
        of_board = {
            row.method: areas[board.protocol, board.task, row.method] for row in board.summaries
        }
        name = board.task if board.protocol == usual else f"{board.task}, protocol {board.protocol}"
        yield Task.of(name, board, of_board, own)
