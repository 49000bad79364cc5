"""The tables of a board: what is ranked together, and the rows of each task by length.

One table serves every format: the page, Markdown, the terminal and LaTeX.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import pandas as pd

from posbench.base.wording import counted
from posbench.boards import page_data
from posbench.boards.by_length import TaskRows
from posbench.boards.findings import FEW
from posbench.boards.measured import Measured
from posbench.boards.ranking import AT, Ranked, score, span
from posbench.showing.table import NOTHING, Column, Line, Table, number, with_interval
from posbench.statistics.aggregates import Estimate, is_pretrained
from posbench.statistics.standings import SIGNIFICANT

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
LEARNED = Term(
    "Learned",
    "The share of trainings that pass the gate of their task at 1x: a score of .95 for most tasks.",
    "Every task weighs the same. An extension counts by its training, before it was extended.",
)
TASKS = Term(
    "Tasks",
    "How many tasks the row has learned, with one training at least, of those that it was run on.",
)
STEPS = Term(
    "Steps",
    "The median number of steps until the validation score passed the gate, over the trainings "
    "that learned.",
    "Behind it: how many trainings never got there. The median is over other tasks where a row has "
    "learned others.",
)
MULTIPLICATIONS = Term(
    "Products",
    "The median number of multiplications until then, in units of 10^12.",
    "They are counted over one step. Records of earlier code lack them.",
)
REACHES = Term(
    "Reaches",
    "The area under the score from 1x to 8x, on a logarithmic axis of lengths and corrected for "
    "guessing, of the trainings that learned: 1 is no error up to 8x, 0 is guessing.",
    "Rows have learned different tasks, and tasks are not alike. So a model of rows and tasks is "
    "fitted to the mean of each row and task, and the number of a row is its effect at the mean of "
    "all tasks. Of a row that has learned all tasks it is the plain mean.",
)
INTERVAL = Term(
    "95 %",
    "The 95 % interval of that number, as other tasks and other seeds would have given it.",
    "Tasks are drawn again, and seeds within them. Below three learned tasks there is none. Behind "
    "the area of a single task, ± is half of the interval over seeds, from three seeds on. On "
    "simulated boards of twelve tasks the interval holds the true number in 96 to 99 of 100 cases, "
    "also where a quarter of the trainings or tasks fails by luck.",
)
BOUNDS = Term(
    "Bounds",
    "The mean over all tasks if the row reached as little as can be (0), or as far as the best "
    "row, where it has not learned the task or was not run.",
)
DIFFERS = Term(
    "Less the first",
    "The row less the first row, on the tasks that both have learned, with its 95 % interval.",
    "It differs if Student's t over these tasks gives p < .05, corrected by Holm for the number of "
    "rows in the table.",
)
AT_LENGTHS = Term(
    "1x, 2x, 4x, 8x",
    "The score at a length, corrected for guessing, on one scale over tasks in the same way.",
)
CLASS = Term(
    "Class",
    "Rows are put into classes by what they were given, and are ranked within their class alone.",
    "Zero-shot rows saw only training lengths. The settings of tuned rows were chosen on a "
    "validation length beyond training. Fine-tuned rows went on training; their controls did so "
    "without an extension. Other rows were trained on positions beyond the training length, or are "
    "given ids by the task. A ceiling is no method: it is a model trained at each length.",
)
BELOW = Term(
    "Below the table",
    "A row that has learned fewer than two thirds of the tasks has no place among the others.",
    "Its number says how far it reaches on few tasks.",
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
GUIDE = (
    *(SCORE, LEARNED, TASKS, STEPS, MULTIPLICATIONS, REACHES, INTERVAL, BOUNDS, DIFFERS),
    *(AT_LENGTHS, BELOW, CLASS, PATH, KEYS),
)
"""Terms of the tables, in the order in which a reader meets them."""

# -- what is ranked together -----------------------------------------------------------------------


def ranking(
    standing: Ranked,
    measured: Measured,
    own: str = "",
    sketched: Mapping[str, Mapping[str, str]] | None = None,
) -> Table:
    """The rows of a standing, best first, and those below the table, which are marked as lacking.
    A column in which no row has anything is left out.

    Args:
        standing: the rows
        measured: all runs
        own: the row that all is about
        sketched: lines of `posbench.explain.sketches` by row, of all rows; its own unless given
    """
    sketched = page_data.sketches() if sketched is None else sketched
    rows = list(map(str, standing.summary.index))
    lengths = [each for each in AT if standing.part.is_of_a_host and each in standing.lengths]
    columns = [
        Column("learned", LEARNED.short),
        Column("tasks", TASKS.short),
        Column("reaches", REACHES.short, heat=True),
        Column("95 %", INTERVAL.short),
        Column("bounds", BOUNDS.short, terminal=False),
        Column("less the first", DIFFERS.short),
        *(Column(f"{each:g}x", heat=True, terminal=False) for each in lengths),
        Column("steps", STEPS.short, terminal=False, paper=False),
        Column("products", MULTIPLICATIONS.short, terminal=False, paper=False),
        Column("seeds", terminal=False, paper=False),
        Column("path", PATH.short, terminal=False, paper=False),
        Column("keys", KEYS.short, terminal=False, paper=False),
    ]
    at = [standing.at(each)["number"] for each in lengths]
    cells = [
        _cells(standing, row, [number(of[row]) for of in at], sketched.get(row, {})) for row in rows
    ]
    filled = [
        any(each not in ("", NOTHING) for each in column) for column in zip(*cells, strict=True)
    ]
    kept = [place for place, shown in enumerate(filled) if shown]
    lines = [
        Line(
            row,
            [of_row[place] for place in kept],
            _marks(standing, row, row in measured.as_trained, row == own),
            row == own,
            lacking := not standing.summary.loc[row, "placed"],
            BELOW.full if lacking else "",
        )
        for row, of_row in zip(rows, cells, strict=True)
    ]
    return Table([Column("method"), *(columns[place] for place in kept)], lines)


def latex(standings: Iterable[Ranked], measured: Measured) -> str:
    """The tables of a board for papers, one a section."""
    needs = "% Written by posbench board; needs \\usepackage{booktabs}.\n"
    each = (ranking(one, measured).latex(one.part.title) for one in standings)
    return "\n".join([needs, *each])


def _cells(standing: Ranked, row: str, at: Sequence[str], known: Mapping[str, str]) -> list[str]:
    """All cells of a row; `known` says how its attention is computed."""
    summary = standing.summary
    line = summary.loc[row]
    steps = score(summary, "steps", row, 0) if "steps" in summary else NOTHING
    if steps != NOTHING and line["censored"]:
        steps += f", {line['censored']:.0f} never"
    return [
        share(line["learned"]),
        f"{line['tasks']:.0f}/{line['num_tasks']:.0f}",
        score(summary, "reaches", row),
        NOTHING if pd.isna(line["low"]) else f"{number(line['low'])} to {number(line['high'])}",
        span(line["least"], line["most"]),
        less_the_first(line),
        *at,
        steps,
        products(line.get("multiplications", float("nan"))),
        score(summary, "num_seeds", row, decimals=0),
        known.get("path") or NOTHING,
        known.get("keys") or NOTHING,
    ]


def share(value: float) -> str:
    return NOTHING if pd.isna(value) else f"{100 * value:.0f} %"


def products(value: float) -> str:
    return NOTHING if pd.isna(value) else f"{value / 1e12:.2g}"


def less_the_first(line: pd.Series) -> str:
    """The difference, its interval, the number of tasks, and whether it survives the correction."""
    if pd.isna(line["difference"]):
        return NOTHING
    said, tasks = number(line["difference"]), counted(int(line["common"]), "task")
    if not pd.isna(line["p_holm"]):
        said += f" ({number(line['difference_low'])} to {number(line['difference_high'])})"
    return f"{said}, {tasks}{', differs' if line['p_holm'] < SIGNIFICANT else ''}"


def _marks(standing: Ranked, row: str, as_trained: bool, own: bool) -> list[str]:
    # An extension may lose what its training has learned.
    runs = standing.part.runs
    tested = runs[(runs["row"] == row) & runs["in_distribution"].notna()]
    passes = tested.empty or bool(tested["passes"].any())
    learned = standing.summary.loc[row, "learned"]
    trained = as_trained and not is_pretrained(standing.kind)
    failed = "did not learn" if trained else "fails at 1x"
    said = {"yours": own, failed: learned == 0 if trained else not passes}
    return [mark for mark, holds in said.items() if holds]


def reaches(standing: Ranked) -> Table:
    """Rows by tasks: what the trainings that learned reach; a dash where none has learned."""
    cells = standing.cells()
    columns = [Column("method"), *(Column(task, heat=True) for task in cells)]
    rows = [
        Line(str(row), list(map(number, values)))
        for row, values in zip(cells.index, cells.to_numpy(), strict=True)
    ]
    return Table(columns, rows)


def learned_by_task(first: Ranked) -> Table:
    """Of each task, how many rows and trainings learned it, and what reaches furthest."""
    runs, cells = first.part.runs, first.cells()
    rows = []
    for task in first.tasks:
        here = runs[runs["task_name"] == task]
        of_row = here.groupby("row")["learned"].any()
        best = number(cells[task].max()) if cells[task].notna().any() else NOTHING
        furthest = [str(row) for row in cells.index[cells[task].map(number) == best]]
        named = furthest if len(furthest) <= FEW else [counted(len(furthest), "row")]
        shown = "" if best == NOTHING else f"{', '.join(named)} ({best})"
        cell = f"{of_row.sum()} of {len(of_row)}"
        rows.append(Line(task, [cell, share(here["learned"].mean()), shown]))
    headings = ["task", "rows that learned it", "trainings that did", "reaches furthest"]
    return Table.of(headings, rows)


# -- one task --------------------------------------------------------------------------------------

SHORT = ("1x", "2x", "4x", "8x")
"""The lengths of a task that a terminal has room for."""


def of_task(task: TaskRows, own: str = "") -> Table:
    """Every row that was run on a task, class by class, with its score at each length."""
    scores = [
        Column(heading, heat=True, terminal=heading in SHORT) for heading in task.lengths.values()
    ]
    columns = [
        Column("method"),
        Column("reaches", REACHES.short),
        *scores,
        Column("learned", LEARNED.short),
    ]
    lines = []
    for row, line in task.rows.iterrows():
        reach = Estimate(float(line["reaches"]), float(line["reaches_half_width_95"]))
        tested = int(line["seeds_at_1x"])
        learned = f"{int(line['learned'])}/{tested}" if tested else NOTHING
        cells = [with_interval(reach), *(number(float(line[n])) for n in task.lengths), learned]
        marks = ["yours"] * (row == own)
        lines.append(Line(str(row), cells, marks, group=str(line["class"])))
    return Table(columns, lines)
