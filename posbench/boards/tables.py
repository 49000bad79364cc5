"""The tables of a board: what is ranked together, and the rows of each task by length.

One table serves every format: the page, Markdown, the terminal and LaTeX.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import pandas as pd

from posbench.boards import page_data, terms
from posbench.boards.by_length import TaskRows
from posbench.boards.measured import Measured
from posbench.boards.ranking import Ranked, score
from posbench.showing.table import NOTHING, Column, Line, Table, number, with_interval
from posbench.statistics.aggregates import Estimate, is_pretrained


def ranking(
    standing: Ranked,
    measured: Measured,
    own: str = "",
    sketched: Mapping[str, Mapping[str, str]] | None = None,
) -> Table:
    """The rows of a standing, best first. A column in which no row has anything is left out.

    Args:
        standing: what is ranked together
        measured: all runs
        own: the row that the page is about
        sketched: how the attention of each row is computed, as `page_data.sketches` has it
    """
    known = page_data.sketches() if sketched is None else sketched
    drawn = f"{terms.INTERVAL.short} Here {standing.drawn} are drawn."

    def other(name: str, about: str) -> Column:
        return Column(name, about, terminal=False, paper=False)

    columns = [
        Column("area", terms.AREA.short, heat=True),
        Column("95 %", drawn),
        Column("rank", terms.RANK.short, paper=False),
        *(
            Column(group, heat=True, terminal=False)
            for group in standing.groups
            if len(standing.groups) > 1
        ),
        Column("1x", terms.AT_TRAINING_LENGTH.short, paper=False),
        Column("learned", terms.LEARNED.short),
        Column("reach", terms.REACH.short),
        other("seeds", "The fewest of a task."),
        other("tasks", "How many it has been run on, where rows differ."),
        other("CPU s", terms.CPU.short),
        other("path", terms.PATH.short),
        other("keys", terms.KEYS.short),
    ]
    rows = list(map(str, standing.summary.index))
    cells = [_cells(standing, row, known.get(row, {})) for row in rows]
    filled = [any(each != NOTHING for each in column) for column in zip(*cells, strict=True)]
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
    return Table([Column("method"), *(columns[place] for place in kept)], lines)


def latex(standings: Iterable[Ranked], measured: Measured) -> str:
    """The tables of a board for papers, one a section."""
    needs = "% Written by python -m posbench.leaderboard; needs \\usepackage{booktabs}.\n"
    each = (ranking(one, measured).latex(one.part.title) for one in standings)
    return "\n".join([needs, *each])


def _cells(standing: Ranked, row: str, known: Mapping[str, str]) -> list[str]:
    """All cells of a row; `known` says how its attention is computed."""
    summary = standing.summary
    groups = standing.groups if len(standing.groups) > 1 else ()
    differing = summary["num_tasks"].nunique() > 1
    return [
        score(summary, "overall", row),
        standing.shown_interval(row),
        standing.shown_rank(row),
        *(score(summary, group, row) for group in groups),
        score(summary, "in_distribution", row),
        standing.shown_learned(row),
        str(standing.reach(row)),
        score(summary, "num_seeds", row, decimals=0),
        score(summary, "num_tasks", row, decimals=0) if differing else NOTHING,
        standing.shown_cost(row),
        known.get("path") or NOTHING,
        known.get("keys") or NOTHING,
    ]


def _marks(standing: Ranked, row: str, as_trained: bool, own: bool) -> list[str]:
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
            Column("method"),
            Column("area", terms.AREA.short),
            *(
                Column(heading, heat=True, terminal=heading in SHORT)
                for heading in task.lengths.values()
            ),
            Column("learned", terms.LEARNED.short),
        ]

        def line(row: str) -> Line:
            of_row = task.rows.loc[row]
            area = Estimate(float(of_row["area"]), float(of_row["area_half_width_95"]))
            scores = [number(float(of_row[n])) for n in task.lengths]
            tested = int(of_row["seeds_at_1x"])
            learned = f"{int(of_row['learned'])}/{tested}" if tested else NOTHING
            cells = [with_interval(area), *scores, learned]
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
    def tables(self) -> Iterator[tuple[str, Table]]:
        """A table a class."""
        for kind, lines in self.classes.items():
            yield kind, Table(self.columns, lines)


SHORT = ("1x", "2x", "4x", "8x")
"""The lengths of a task that a terminal has room for."""
