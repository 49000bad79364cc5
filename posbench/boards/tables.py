"""The tables of a board, made of its frames: what is ranked together, each task by length, and what
more context does; and the chapters that hold them.

One table serves every format: the page, Markdown, the terminal and LaTeX.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import pandas as pd

from posbench.base.wording import agreeing, counted
from posbench.boards import findings
from posbench.boards.findings import FEW
from posbench.boards.measured_runs import MULTIPLES, ROW, MeasuredRuns, MoreContext
from posbench.boards.ranking import AT, RankedRows, unrun_parts
from posbench.config.board import Board
from posbench.showing.pages import Chapter
from posbench.showing.table import NOTHING, Column, Line, Table, number, span, with_interval
from posbench.statistics.aggregates import Estimate, is_pretrained
from posbench.statistics.standings import SIGNIFICANT, within

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
RIGHT = Term("Learned", "The share of samples that are right at 1x. Nothing was trained here.")
"""The same of a pretrained model."""
TASKS = Term(
    "Tasks",
    "How many tasks the row has learned, with one training at least, of those that it was run on.",
)
STEPS = Term(
    "Steps",
    "The median number of steps until the validation score passed the gate, over the trainings "
    "that learned.",
    "After it: how many trainings never passed. Rows that learned different tasks have medians "
    "over different tasks.",
)
MULTIPLICATIONS = Term(
    "TMACs",
    "The median number of multiplications until then, in units of 10^12.",
    "Each goes with an addition. They are counted over one step, and older records lack them.",
)
REACHES = Term(
    "Reaches",
    "The area under the score from 1x to 8x, on a logarithmic axis of lengths: 1 is no error, 0 is "
    "a blind guess. Only trainings that learned count.",
    "A row that has learned all tasks has their plain mean. For the others an additive model, with "
    "an effect for each row and each task, estimates that mean. It is fitted to the mean of each "
    "row and task.",
)
INTERVAL = Term(
    "95 %",
    "The 95 % interval of that number: how much other tasks and other seeds might change it.",
    "A bootstrap draws tasks, and seeds within them. A row with fewer than three learned tasks has "
    "none. After the area of a single task, ± is half of the interval over three seeds or more. On "
    "simulated boards of twelve tasks the interval has the true number in 96 to 99 of 100 cases, "
    "even if a quarter of the trainings or tasks fails by luck.",
)
BOUNDS = Term(
    "Bounds",
    "The mean over all tasks with the tasks that a row has not learned set to 0, or to the number "
    "of the best row there.",
    "“Reaches” comes from a model without these limits. Its number can be above “most” where a row "
    "has not learned a task that is hard for all others too, and below “least” where the model "
    "puts that task below 0.",
)
DIFFERS = Term(
    "Minus the first",
    "The row minus the first row, on the tasks that both have learned, with a 95 % interval.",
    "It differs if Student's t over these tasks gives p < .05, corrected by Holm for the number of "
    "rows in the table.",
)
AT_LENGTHS = Term(
    "1x, 2x, 4x, 8x",
    "The score at a length, corrected for blind guessing, on one scale over tasks in the same way.",
)
CLASS = Term(
    "Class",
    "Rows are in classes by what they were given, and are ranked only within their class.",
    "Zero-shot rows saw only training lengths. The settings of tuned rows were chosen on a "
    "validation length beyond training. Fine-tuned rows went on training; their controls did so "
    "without an extension. Other rows were trained on positions beyond the training length, or are "
    "given ids by the task. A ceiling is no method: it is a model trained at each length.",
)
BELOW = Term(
    "Below the table",
    "A row is ranked once it has learned two thirds of the tasks. Rows below the table have not, "
    "so their numbers rest on few tasks.",
)
PATH = Term(
    "Attention",
    "How attention is computed: in a fused kernel, fused row by row with a mask, or from the whole "
    "matrix of scores.",
    "It was measured on an untrained layer.",
)
KEYS = Term(
    "Keys",
    "Whether the keys of earlier tokens can be cached while others follow.",
    "Yes: a cached key never changes. At one scale: it is valid while the extension keeps its "
    "factor. No: later tokens change earlier keys. No keys: scores are not products with keys "
    "here. It was measured on an untrained layer.",
)
GUIDE = (
    *(SCORE, LEARNED, TASKS, STEPS, MULTIPLICATIONS, REACHES, INTERVAL, BOUNDS, DIFFERS),
    *(AT_LENGTHS, BELOW, CLASS, PATH, KEYS),
)
"""Terms of the tables, in the order in which a reader meets them."""

# -- what is ranked together -----------------------------------------------------------------------


def of_kind(kind: str) -> Term:
    """What learned means of rows of a class."""
    return RIGHT if is_pretrained(kind) else LEARNED


def ranking(standing: RankedRows, measured: MeasuredRuns, own: str = "") -> Table:
    """The rows of a standing, best first, and those below the table, which are marked as lacking.
    A column in which no row has anything is left out.

    Args:
        standing: the rows
        measured: all runs
        own: the row that all is about
    """
    lengths = [each for each in AT if standing.part.is_of_a_host and each in standing.lengths]
    at = {f"{each:g}x": standing.number_at(each) for each in lengths}
    known = [measured.sketches.get(str(row), {}) for row in standing.summary.index]
    # A frame of what is known of each row, and how a column writes it.
    summary = standing.summary.assign(
        path=[each.get("path") or NOTHING for each in known],
        keys=[each.get("keys") or NOTHING for each in known],
        **at,
    )
    columns: dict[Column, Callable[[pd.Series], str]] = {
        Column("learned", of_kind(standing.kind).short): lambda row: share(row["learned"]),
        Column("tasks", TASKS.short): lambda row: f"{row['tasks']:.0f}/{row['num_tasks']:.0f}",
        Column("reaches", REACHES.short, heat=True): _number("reaches"),
        Column("95 %", INTERVAL.short): lambda row: span(row["low"], row["high"]),
        Column("bounds", BOUNDS.short, terminal=False): lambda row: span(row["least"], row["most"]),
        Column("minus the first", DIFFERS.short): less_the_first,
        **{Column(name, heat=True, terminal=False): _number(name) for name in at},
        Column("steps", STEPS.short, terminal=False, paper=False): _steps,
        Column("TMACs", MULTIPLICATIONS.short, terminal=False, paper=False): _tera,
        Column("seeds", terminal=False, paper=False): _seeds,
        Column("attention", PATH.short, terminal=False, paper=False): operator.itemgetter("path"),
        Column("keys", KEYS.short, terminal=False, paper=False): operator.itemgetter("keys"),
    }
    rows = [row for _, row in summary.iterrows()]
    texts = {column: list(map(text, rows)) for column, text in columns.items()}
    kept = {column: cells for column, cells in texts.items() if {*cells} != {NOTHING}}
    lines = [
        Line(
            str(row.name),
            cells,
            _marks(standing, row, str(row.name) in measured.as_trained, str(row.name) == own),
            own=str(row.name) == own,
            lacking=not row["placed"],
            group="" if row["placed"] else BELOW.full,
        )
        for row, *cells in zip(rows, *kept.values(), strict=True)
    ]
    return Table([Column("method"), *kept], lines)


def latex(standings: Iterable[RankedRows], measured: MeasuredRuns) -> str:
    """The tables of a board for papers, one a section."""
    needs = "% Written by posbench board; needs \\usepackage{booktabs}.\n"
    each = (ranking(one, measured).latex(one.part.title) for one in standings)
    return "\n".join([needs, *each])


def _number(name: str) -> Callable[[pd.Series], str]:
    return lambda row: number(row[name])


def share(value: float) -> str:
    return NOTHING if pd.isna(value) else f"{100 * value:.0f} %"


def _seeds(row: pd.Series) -> str:
    """Of each task; the least and the most where tasks differ."""
    least, most = row["num_seeds"], row["most_seeds"]
    return f"{least:.0f}" if least == most else f"{least:.0f} to {most:.0f}"


def _steps(row: pd.Series) -> str:
    """The median, and how many trainings never got there."""
    said = number(row.get("steps", float("nan")), 0)
    never = row.get("censored", 0)
    return f"{said}, {never:.0f} never" if said != NOTHING and never else said


def _tera(row: pd.Series) -> str:
    value = row.get("multiplications", float("nan"))
    return NOTHING if pd.isna(value) else f"{value / 1e12:.2g}"


def less_the_first(row: pd.Series) -> str:
    """The difference, its interval, the number of tasks, and whether it survives the correction."""
    if pd.isna(row["difference"]):
        return NOTHING
    said, tasks = number(row["difference"]), counted(int(row["common"]), "task")
    if not pd.isna(row["p_holm"]):
        said += f" ({number(row['difference_low'])} to {number(row['difference_high'])})"
    return f"{said}, {tasks}{', differs' if row['p_holm'] < SIGNIFICANT else ''}"


def _marks(standing: RankedRows, row: pd.Series, as_trained: bool, own: bool) -> list[str]:
    # An extension may lose what its training has learned.
    runs = standing.part.runs
    tested = runs[(runs["row"] == row.name) & runs["in_distribution"].notna()]
    passes = tested.empty or bool(tested["passes"].any())
    trained = as_trained and not is_pretrained(standing.kind)
    failed = "did not learn" if trained else "fails at 1x"
    said = {"yours": own, failed: row["learned"] == 0 if trained else not passes}
    return [mark for mark, holds in said.items() if holds]


def reaches(standing: RankedRows) -> Table:
    """Rows by tasks: what the trainings that learned reach; a dash where none has learned."""
    cells = standing.cells()
    columns = [Column("method"), *(Column(task, heat=True) for task in cells)]
    rows = [
        Line(str(row), list(map(number, values)))
        for row, values in zip(cells.index, cells.to_numpy(), strict=True)
    ]
    return Table(columns, rows)


def learned_by_task(first: RankedRows) -> Table:
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
        trainings = here.drop_duplicates(["task", "seed", "training"])  # some rows share them
        rows.append(Line(task, [cell, share(trainings["learned"].mean()), shown]))
    headings = ["task", "rows that learned it", "trainings that did", "reaches furthest"]
    return Table.of(headings, rows)


# -- each task by length ---------------------------------------------------------------------------

SHORT = ("1x", "2x", "4x", "8x")
"""The lengths of a task that a terminal has room for."""


def task_parts(
    measured: MeasuredRuns, board: Board, usual: str, own: str = ""
) -> Iterator[Chapter]:
    """A part a task, those of the board first: every row that was run on it, class by class, with
    its score at each length. Headings of lengths that do not count are in brackets.
    """
    trained = measured.lengths.groupby(ROW[:2])["train_positions"].first()
    lines = measured.by_length
    found = dict(list(lines[lines["multiple"] >= 1].groupby(ROW[:2])))
    for protocol, task in sorted(found, key=lambda key: (key[0], *board.place(key[1]))):
        part = found[protocol, task]
        tested = part.drop_duplicates("test_length").sort_values("test_length")
        columns = tested[["test_length", "multiple", "aggregated"]]
        lengths = {
            int(n): f"{multiple:g}x" if counts else f"({multiple:g}x)"
            for n, multiple, counts in columns.itertuples(index=False, name=None)
        }
        said = (
            f"{part.iloc[0]['measure']}; trained on {trained[protocol, task]} positions, tested at "
            f"n = {', '.join(map(str, lengths))}."
        )
        title = task if protocol == usual else f"{task}, {protocol}"
        yield Chapter(title, [said, _of_task(part, lengths, own)], "task")


def _of_task(part: pd.DataFrame, lengths: Mapping[int, str], own: str) -> Table:
    columns = [
        Column("method"),
        Column("reaches", REACHES.short),
        *(Column(each, heat=True, terminal=each in SHORT) for each in lengths.values()),
        Column("learned", LEARNED.short),
    ]
    scores = part.pivot(index="row", columns="test_length", values="score")
    lines = []
    for row, line in part.drop_duplicates("row").set_index("row").join(scores).iterrows():
        reach = Estimate(float(line["reaches"]), float(line["reaches_half_width_95"]))
        tested = int(line["seeds_at_1x"])
        learned = f"{int(line['learned'])}/{tested}" if tested else NOTHING
        cells = [with_interval(reach), *(number(float(line[n])) for n in lengths), learned]
        lines.append(Line(str(row), cells, ["yours"] * (row == own), group=str(line["class"])))
    return Table(columns, lines)


# -- what more context gives or takes --------------------------------------------------------------

SAME_TOKENS = (
    "The same tokens are asked for at every length, and only what comes before them grows. "
    "Differences are in nats a token, those of a length minus those at 1x: above 0, more context "
    "does harm. right is the share of these tokens that are predicted, and its difference. "
    "Intervals are those of texts drawn again, 95 %. Another seed may lie outside of them."
)


def context_parts(found: Iterable[MoreContext]) -> Iterator[Chapter]:
    """A part for each protocol and task with such tests; the best at the longest comes first."""
    longest = MULTIPLES[-1]
    headings = ["method", "seeds", "nats at 1x", *(f"at {m:g}x" for m in MULTIPLES)]
    headings += ["right at 1x", f"right at {longest:g}x"]
    for each in found:
        lines = [
            Line(
                str(name),
                [
                    f"{row['seeds']}",
                    f"{row['nats']:.3f}",
                    *(str(row[multiple]) for multiple in MULTIPLES),
                    number(row["right"], 3),
                    str(row["gained"]),
                ],
            )
            for name, row in each.rows.iterrows()
        ]
        title = f"{each.task}: what more context gives or takes ({each.protocol})"
        below = [_beside_the_first(title, each)] if len(lines) > 1 else []
        yield Chapter(title, [SAME_TOKENS, Table.of(headings, lines), *below])


def _beside_the_first(title: str, found: MoreContext) -> Chapter:
    """What each row loses at the longest multiple more than the first of them."""
    first, longest = found.rows.index[0], MULTIPLES[-1]
    lines = [Line(row, [str(less), number(less.p, 4)]) for row, less in found.beside.items()]
    note = f"In nats a token at {longest:g}x. p is adjusted over all pairs of rows, by Holm."
    shown = Table.of(["method", f"less {first}", "p"], lines)
    return Chapter(f"{title}: beside {first}", [note, shown])


# -- chapters, which every format shows ------------------------------------------------------------


def board_part(board: Board, found: Sequence[RankedRows]) -> Chapter:
    """What the board is, as it was written down, and what the rows of its first part learned."""
    notes = about_board(board, found)
    return Chapter(f"Board {board.name}", [*notes, learned_by_task(found[0])])


def about_board(board: Board, found: Sequence[RankedRows]) -> list[str]:
    """What was fixed before the runs, a paragraph each, what was mended after the first, and which
    parts have no run.
    """
    unrun = [f"“{title}”" for title in unrun_parts(board, (each.part for each in found))]
    parts = f"No row has been run of these parts of the board: {', '.join(unrun)}."
    lengths = ", ".join(f"{multiple:g}x" for multiple in board.multiples)
    tests = f"Tests are at {lengths} of the positions of the longest training sequence. "
    return [
        *(" ".join(paragraph.split()) for paragraph in board.about.split("\n\n") if paragraph),
        f"{tests if lengths else ''}Definition {board.hash[:8]}, protocol {board.protocol}.",
        *(f"{change.date}: {change.why} (before: {change.of[:8]})" for change in board.changes),
        *([parts] if unrun else []),
    ]


def ranked(board: Board, standing: RankedRows, measured: MeasuredRuns, own: str = "") -> Chapter:
    """One part and class of a board: its rows, and those below the table; see `ranking`."""
    part = standing.part
    ends = "" if standing.longest == 8 else f"Areas end at {standing.longest:g}x."
    about = " ".join([*part.rows.about.split(), ends]).strip()
    notes = [about] if about else []
    notes += [*_waiting(board, standing), *findings.answer(standing)]
    return Chapter(part.title, [*notes, ranking(standing, measured, own)], "ranked")


def with_tasks(shown: Chapter, standing: RankedRows) -> Chapter:
    """The same with the areas of each task, which a page draws as a map."""
    if standing.fitted is None or len(standing.tasks) < 2:
        return shown
    said = "Areas of the trainings that learned; a dash where none has, or none was run."
    below = Chapter(f"{shown.title}: task by task", [said, reaches(standing)])
    return Chapter(shown.title, [*shown.blocks, below], shown.look)


def _waiting(board: Board, standing: RankedRows) -> Iterator[str]:
    """What the section waits for, in sentences: tasks, and rows that have not been run."""
    if lacks := standing.part.lacks(board):
        yield lacks
    if unrun := standing.part.unrun:
        have = agreeing(unrun, "has", "have")
        yield f"{counted(unrun, 'row')} that the board asks for {have} not been run."


# -- what was learned for the same computation -----------------------------------------------------


def budget_parts(board: Board, found: Sequence[RankedRows]) -> Iterator[Chapter]:
    """What the rows that train from scratch had learned for the multiplications of the board's
    first reference; nothing where records do not count them.
    """
    usual = [each for each in found if each.part.protocol == found[0].part.protocol]
    scratch = [each.part.runs for each in usual if not each.part.is_extended]
    if not scratch or not board.references:
        return
    runs = pd.concat(scratch).drop_duplicates(["row", "task", "seed"])
    reference = board.references[0]
    table = within(runs, reference)
    if table.empty:
        return
    tasks = counted(int(table.loc[reference, "num_tasks"]), "task")
    note = (
        f"The budget of a task is what the slowest training of {reference} needed until a "
        f"validation passed the gate. There is one for {tasks}. The table has the share of "
        "trainings that passed it within the budget and had learned the task in the end."
    )
    lines = [
        Line(str(name), [f"{100 * share:.0f} %", f"{some:.0f}/{every:.0f}"])
        for name, share, some, every in table.itertuples()
    ]
    title = f"What was learned with the multiplications of {reference}"
    yield Chapter(title, [note, Table.of(["method", "learned by then", "tasks"], lines)])
