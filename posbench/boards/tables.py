"""The tables of a board: what is ranked together, and the rows of each task by length.

One table serves every format: the page, Markdown, the terminal and LaTeX.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import pandas as pd

from posbench.boards import page_data
from posbench.boards.by_length import TaskRows
from posbench.boards.measured import Measured
from posbench.boards.ranking import Ranked, score
from posbench.showing.table import NOTHING, Column, Line, Table, number, with_interval
from posbench.statistics.aggregates import Estimate, is_pretrained

# -- what the columns mean -------------------------------------------------------------------------


@dataclass(frozen=True)
class Term:
    """A word with its definition, which a heading shows, and what else must be known of it."""

    name: str
    short: str
    more: str = ""

    @property
    def full(self) -> str:
        return f"{self.short} {self.more}".rstrip()


SCORE = Term(
    "Score",
    "The share of sequences in which every answer token and the end is right.",
    "A task that measures something else says so above its table. Lengths are multiples of the "
    "positions of the longest training sequence.",
)
AREA = Term(
    "Area",
    "The area under the score from 1x to 8x on a logarithmic axis of lengths, corrected for chance "
    "and not below 0.",
    "It is 1 if there is no error up to 8x. Of several tasks it is the mean of their groups, each "
    "the mean of its tasks; a row that lacks a task has none and comes last. Tests that end before "
    "8x give none, except where the page says that areas end before 8x.",
)
INTERVAL = Term(
    "95 %",
    "The 95 % interval of the area, from the bootstrap.",
    "It is drawn over seeds and over tasks of the same groups, and over seeds alone where some "
    "group has a single task. Behind the area of a single task, ± is half of the interval over "
    "seeds (Student's t), from three seeds on. Over seeds alone it is too narrow where no seed has "
    "learned a task, for the next one may. Of simulated boards that learn as often as the main one "
    "it holds the true number in 91 %. Where a quarter of the tasks is learned by luck, that is "
    "77 %.",
)
RANK = Term(
    "Rank",
    "The 95 % interval of the place within the section.",
    "It comes from the same draws. A place is one more than the number of rows that are at least "
    ".02 above.",
)
AT_TRAINING_LENGTH = Term(
    "1x",
    "The score at the training length.",
    "In tables of several tasks it is corrected for chance.",
)
REACH = Term(
    "Reach",
    "The length, in multiples of training, up to which the corrected score is at least .5; the "
    "median over tasks and seeds, in which every task counts the same.",
    "< 1 means that it is below .5 at the training length already, > 8 that it is not below .5 at "
    "any length that was measured. The median of such runs and others may be a bound as well, as "
    "< 1.6.",
)
LEARNED = Term(
    "Learned",
    "The share of runs that pass the gate of their task in the test at 1x: a score of .95 for most "
    "tasks.",
    "A row without such a run is marked “did not learn”, and says nothing about extrapolation. "
    "“Fails at 1x” marks a row that had passed at some step of its training and fails the test, "
    "mostly because an extension has lost the training length. Unsolved runs stay in every mean, "
    "and those whose training diverged count as 0.",
)
CLASS = Term(
    "Class",
    "Rows are put into classes by what they were given, and are ranked within their class alone.",
    "Zero-shot rows saw only training lengths. The settings of tuned rows were chosen on a "
    "validation length beyond training. Fine-tuned rows went on training; their controls did so "
    "without an extension. Other rows were trained on positions beyond the training length, or are "
    "given ids by the task. A ceiling is no method: it is a model trained at each length.",
)
CPU = Term(
    "CPU s",
    "CPU seconds of a training, and of fine-tuning or searching where a row has that; the mean "
    "over tasks and seeds.",
    "Extensions of the same trained weights share them, and their cost. GPU seconds, where there "
    "are any, are those of the shared training alone.",
)
PATH = Term(
    "Path",
    "How attention is computed: in a fused kernel, fused row by row with a mask, or from the whole "
    "matrix of scores.",
    "It was measured on an untrained layer.",
)
KEYS = Term(
    "Keys",
    "Whether the keys of earlier tokens can be cached while others follow.",
    "Yes: a key stays what it is. At one scale: it does as long as the extension keeps its factor. "
    "No: keys change as tokens follow. No keys: scores are not products with keys. It was measured "
    "on an untrained layer.",
)


# -- what is ranked together -----------------------------------------------------------------------


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
    drawn = f"{INTERVAL.short} Here {standing.drawn} are drawn."

    def other(name: str, about: str) -> Column:
        return Column(name, about, terminal=False, paper=False)

    columns = [
        Column("area", AREA.short, heat=True),
        Column("95 %", drawn),
        Column("rank", RANK.short, paper=False),
        *(
            Column(group, heat=True, terminal=False)
            for group in standing.groups
            if len(standing.groups) > 1
        ),
        Column("1x", AT_TRAINING_LENGTH.short, paper=False),
        Column("learned", LEARNED.short),
        Column("reach", REACH.short),
        other("seeds", "The fewest of a task."),
        other("tasks", "How many it has been run on, where rows differ."),
        other("CPU s", CPU.short),
        other("path", PATH.short),
        other("keys", KEYS.short),
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
    needs = "% Written by posbench board; needs \\usepackage{booktabs}.\n"
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
            Column("area", AREA.short),
            *(
                Column(heading, heat=True, terminal=heading in SHORT)
                for heading in task.lengths.values()
            ),
            Column("learned", LEARNED.short),
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
