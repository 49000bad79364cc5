"""What a page of the documentation may say of the rows of one section of a board.

Numbers, intervals and verbs; `posbench.boards.answers` puts them into templates.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd
from scipy.stats import ttest_rel

from posbench.base.errors import PosbenchError
from posbench.base.wording import closest, counted, listed
from posbench.boards.measured_runs import MeasuredRuns
from posbench.boards.ranking import RankedRows
from posbench.boards.tables import ranking
from posbench.config.board import Board
from posbench.config.names import labelled
from posbench.showing.table import NOTHING, bounds, code, number, pipes, span, with_interval
from posbench.statistics.aggregates import Estimate
from posbench.statistics.correlation import Agreement, rank_correlation
from posbench.statistics.effects import AdditiveFit
from posbench.statistics.randomisation import holm
from posbench.statistics.standings import SIGNIFICANT

MOST = 9
"""Rows of a table in the documentation."""


@dataclass(frozen=True)
class SectionFacts:
    """What a template may ask of the rows of one section of a board.

    A length is a multiple of the positions of training. Without one, numbers are areas from 1x to
    8x, as the board ranks them.
    """

    standing: RankedRows
    measured: MeasuredRuns
    board: Board

    def of(self, row: str) -> pd.Series:
        """The line of a row; PosbenchError if the section has none of that name."""
        summary = self.standing.summary
        if row not in summary.index:
            near = closest(row, map(str, summary.index))
            hint = f": did you mean {near}?" if near else ""
            raise PosbenchError(f"{self.standing.part.title} has no row {row}{hint}")
        line: pd.Series = summary.loc[row]
        return line

    def number(self, row: str, length: float | None = None) -> str:
        """How far a row reaches, or its score at a length."""
        return number(self.value(row, length))

    def value(self, row: str, length: float | None = None) -> float:
        """The same for a condition, not rounded."""
        self.of(row)
        return float(self._numbers(length).loc[row, "number"])

    def reach(self, row: str, length: float | None = None) -> str:
        """The same with its interval."""
        self.of(row)
        line = self._numbers(length).loc[row]
        return f"{number(line['number'])}{bounds(line)}"

    def learned(self, row: str) -> str:
        """The share of its trainings that learned."""
        return f"{100 * self.of(row)['learned']:.0f} %"

    def on(self, row: str) -> str:
        """The tasks that it has learned, of those that it was run on."""
        line = self.of(row)
        return f"{line['tasks']:.0f} of {counted(int(line['num_tasks']), 'task')}"

    def less(self, row: str, other: str, length: float | None = None) -> str:
        """A row minus another on the tasks that both have learned, with the interval."""
        line = self._less(row, other, length)
        ends = "" if pd.isna(line["low"]) else f"95 % {span(line['low'], line['high'])}, "
        return f"{number(line['difference'])} ({ends}{counted(int(line['common']), 'task')})"

    def gap(self, row: str, other: str, length: float | None = None) -> float:
        """The same difference for a condition, not rounded."""
        return float(self._less(row, other, length)["difference"])

    def compared(self, row: str, other: str, length: float | None = None) -> str:
        """The verb between two rows: what the interval of their difference allows to say."""
        line = self._less(row, other, length)
        if line["low"] > 0:
            return "reaches further than" if length is None else "scores higher than"
        if line["high"] < 0:
            return "reaches less far than" if length is None else "scores lower than"
        return "is not shown to differ from"

    def change(self, row: str, other: str, length: float | None = None) -> str:
        """The same for a cell of a table; a star marks what has one sign in every seed."""
        line = self._less(row, other, length)
        star = "\\*" if self.agreed(row, other, length) else ""
        return f"{number(line['difference'])}{bounds(line)}{star}"

    def agreed(self, row: str, other: str, length: float | None = None) -> bool:
        """Whether the difference has one sign in every seed, by its mean over tasks of a seed."""
        by_seed = self._by_seed(row, other, length)
        return len(by_seed) > 0 and bool((by_seed < 0).all() or (by_seed > 0).all())

    def loses_less(
        self, pair: tuple[str, str], other: tuple[str, str], length: float | None = None
    ) -> bool:
        """Whether a row minus another is above the difference of a second pair in every seed."""
        more = self._by_seed(*pair, length) - self._by_seed(*other, length)
        return len(more) > 0 and bool((more > 0).all())

    def _by_seed(self, row: str, other: str, length: float | None) -> pd.Series:
        """A row minus another by seed, in the mean over the tasks that both learned with it."""
        runs, _ = self.measured.with_scores(self.standing.pool, self.standing.longest)
        runs = runs[runs["trained"] & runs["row"].isin([row, other])]
        of, over = (
            runs[runs["row"] == each].set_index(["task", "seed"])[_measure(length)]
            for each in (row, other)
        )
        by_seed: pd.Series = (of - over).dropna().groupby("seed").mean().round(9)
        return by_seed

    def over_seeds(self, row: str, other: str, task: str) -> str:
        """A row minus another on one task, with the interval over the seeds that both learned."""
        of, over = (self._learned_areas(each, task) for each in (row, other))
        return with_interval(Estimate.over((of - over).dropna()))

    def seeds_of(self, row: str, task: str) -> str:
        """How many of its seeds learned a task, as in "1 of 5"."""
        return f"{len(self._learned_areas(row, task))} of {len(self._runs(row, task))}"

    def learns(self, row: str, task: str) -> bool:
        """Whether every seed of a row learned a task."""
        mine = self._runs(row, task)
        return len(mine) > 0 and bool(mine["learned"].all())

    def positions(self, row: str, task: str) -> int:
        """Of the longest training sequence of a row on a task."""
        lengths = self.measured.lengths
        mine = lengths[(lengths["row"] == row) & (lengths["task_name"] == task)]
        return int(mine["train_positions"].max())

    def steps(self, row: str, task: str) -> str:
        """Until the gate, in the median of the trainings that learned a task; "never" if all that
        learned it did so in the test alone, and no validation before was at the gate.
        """
        mine = self._runs(row, task)
        steps = mine.loc[mine["learned"], "steps_to_gate"].median()
        return "never" if pd.isna(steps) else f"{steps:,.0f}"

    def _runs(self, row: str, task: str) -> pd.DataFrame:
        runs = self.standing.part.runs
        return runs[(runs["row"] == row) & (runs["task_name"] == task)]

    def _learned_areas(self, row: str, task: str) -> pd.Series:
        self.of(row)
        mine = self._runs(row, task)
        areas: pd.Series = mine[mine["learned"]].set_index("seed")["area"]
        return areas

    def on_task(self, row: str, other: str, task: str, length: float | None = None) -> str:
        """A row minus another on one task, in the mean of the seeds that learned it."""
        return number(self.gap_on(row, other, task, length))

    def gap_on(self, row: str, other: str, task: str, length: float | None = None) -> float:
        """The same difference for a condition, not rounded; NaN unless both learned the task."""
        cells = self._fitted.with_common_seeds(other, row).cell_means(_measure(length))
        of_task = cells.reindex(columns=[task])[task]
        return float(of_task[row] - of_task[other])

    def cell(self, row: str, task: str, seed: int | None = None) -> str:
        """How far a row reaches on one task; a dash where none of its trainings learned it."""
        return number(self.area(row, task, seed))

    def area(self, row: str, task: str, seed: int | None = None) -> float:
        """The same for a condition, not rounded, of all its seeds or of one; NaN for the dash."""
        areas = self._learned_areas(row, task)
        return float((areas if seed is None else areas[areas.index == seed]).mean())

    def right(
        self,
        row: str,
        task: str,
        n: int,
        above: float = 0,
        up_to: float = 1,
        seed: int | None = None,
    ) -> float:
        """The share of tokens that are right at a test length, of all seeds or of one, among those
        whose source is that far: as a share of the largest distance in training, by whole bins.
        """
        self.of(row)
        bins = [
            (tokens, tokens * share)
            for shown, record in self.measured.shown
            if shown == (self.standing.part.protocol, task, row) and seed in (None, record.seed)
            for view in record.views
            if (view.by, view.test_length) == ("distance", n)
            for low, high, tokens, share in zip(
                view.above,
                view.up_to,
                view.num_tokens,
                view.token_accuracy_teacher_forced,
                strict=True,
            )
            if above <= low and high is not None and high <= up_to
        ]
        if not (asked := sum(tokens for tokens, _ in bins)):
            raise PosbenchError(f"{row} has no such tokens on {task} at {n}")
        return sum(right for _, right in bins) / asked

    def best(self, task: str, length: float) -> float:
        """The highest mean score of a row on a task at a length; 0 where none has learned it."""
        return float(self._fitted.cell_means(_measure(length)).get(task, pd.Series([0])).max())

    def furthest_on(self, task: str) -> list[str]:
        """The rows that have learned a task, the one that reaches furthest on it first."""
        known = self.standing.cells()[task].dropna()
        return [*map(str, known.sort_values(ascending=False, kind="stable").index)]

    def keys(self, row: str) -> str:
        """Whether the keys of earlier tokens can be cached."""
        return self._cell(row, "keys")

    @property
    def placed(self) -> list[str]:
        """The rows that have learned two thirds of the tasks, furthest first."""
        return self.standing.placed

    def first_at(self, length: float) -> str:
        """The row that is highest at a length."""
        return str(self.standing.at(length)["number"].idxmax())

    def on_common(self, rows: Sequence[str]) -> tuple[pd.Series, int]:
        """How far each of these rows reaches on average on the tasks that all of them have learned,
        furthest first, and how many tasks these are.
        """
        cells = self.standing.cells().loc[list(rows)].dropna(axis=1)
        return cells.mean(axis=1).sort_values(ascending=False), cells.shape[1]

    @property
    def leading(self) -> list[str]:
        """The rows above the widest gap between two neighbours in the upper half of the table."""
        return self.placed[: self._above_gap(len(self.placed) // 2)]

    @property
    def above_widest(self) -> int:
        """How many rows are above the widest gap of the whole table."""
        return self._above_gap(len(self.placed))

    def _above_gap(self, rows: int) -> int:
        """How many rows are above the widest gap that is below one of so many."""
        reaches = self.standing.summary.loc[self.placed, "reaches"]
        gaps = -reaches.diff().iloc[1 : rows + 1]
        return int(gaps.argmax()) + 1

    @property
    def level(self) -> int:
        """How many rows with a place are not shown to differ from the first."""
        summary = self.standing.summary
        return int((summary["placed"] & (summary["p_holm"] >= SIGNIFICANT)).sum())

    def differing_at(self, length: float) -> tuple[int, int]:
        """Of the rows other than the highest at a length: how many differ from it after Holm's
        correction, and how many there are.
        """
        first, rows = self.first_at(length), list(map(str, self.standing.at(length).index))
        less = self._fitted.differences(first, rows, _measure(length))
        return int((less["p_holm"] < SIGNIFICANT).sum()), len(less)

    def further_than(self, row: str) -> list[str]:
        """The rows with a place that reach further than one of them, after Holm's correction."""
        less = self._fitted.differences(row, self.placed).reindex(self.placed)
        further = (less["p_holm"] < SIGNIFICANT) & (less["difference"] > 0)
        return [each for each in self.placed if further[each]]

    def further_with_zeros(self, row: str) -> list[str]:
        """The same where a task that a row has not learned counts as 0 for that row, by Student's t
        over all tasks.
        """
        cells = self.standing.cells().loc[self.placed].fillna(0)
        others = [each for each in self.placed if each != row]
        tested = ttest_rel(cells.loc[others], cells.loc[[row]], axis=1)
        level = holm(list(tested.pvalue))
        return [
            other
            for other, t, p in zip(others, tested.statistic, level, strict=True)
            if t > 0 and p < SIGNIFICANT
        ]

    @property
    def waiting(self) -> list[str]:
        """The tasks of its board that too few rows have been run on."""
        return self.standing.part.lacking(self.board)

    @property
    def num_rows(self) -> int:
        """How many rows there are, with those that have no place."""
        return len(self.standing.summary)

    @property
    def num_tasks(self) -> int:
        """How many tasks a row was run on."""
        return len(self.standing.tasks)

    def seeds(self, row: str) -> str:
        """How many seeds a row has on each of its tasks."""
        self.of(row)
        runs = self.standing.part.runs
        counts = runs[runs["row"] == row].groupby("task")["seed"].nunique()
        least, most = int(counts.min()), int(counts.max())
        return counted(most, "seed") if least == most else f"{least} to {counted(most, 'seed')}"

    @property
    def seeds_of_tasks(self) -> str:
        """How many seeds every row has, as in "2 seeds on 6 tasks and 1 seed on 4 tasks"."""
        runs = self.standing.part.runs
        least = runs.groupby(["task", "row"])["seed"].nunique().groupby("task").min()
        counts = least.value_counts().sort_index(ascending=False)
        return listed([f"{counted(k, 'seed')} on {counted(n, 'task')}" for k, n in counts.items()])

    @property
    def overturning(self) -> list[str]:
        """The tasks and seeds without each of which another row than the first is first."""
        seeds = [f"seed {seed}" for seed in sorted({*self.standing.part.runs["seed"]})]
        return [
            each
            for each in (*sorted(self.standing.tasks), *seeds)
            if self.standing.first_without.get(each, self.placed[0]) not in (self.placed[0], None)
        ]

    @property
    def overturned(self) -> str:
        """What another row needs to be first, as a sentence."""
        if not self.overturning:
            return "It stays first whichever task or seed is left out."
        return f"Leave out {listed(self.overturning, 'or')}, and another row comes first."

    def gains_by_seed(self, row: str, of: SectionFacts, other: str) -> list[float]:
        """The row minus a row of another section, for each seed, on the tasks that both learned."""
        sides = [
            runs[(runs["row"] == name) & runs["learned"].astype(bool)].set_index(["seed", "task"])
            for runs, name in ((self.standing.part.runs, row), (of.standing.part.runs, other))
        ]
        both = (sides[0]["area"] - sides[1]["area"]).dropna()
        return [float(gain) for gain in both.groupby("seed").mean()]

    def agreement(self, other: SectionFacts) -> Agreement:
        """Whether another section, with other settings, puts the same rows into the same order.

        Tasks that this section waits for do not count: most of its rows would have a number there
        that a few rows decide.
        """
        sides, waiting = [], self.waiting
        for part in (self.standing.part, other.standing.part):
            rows = part.runs["row"].str.removesuffix(labelled("", sorted(part.rows.settings)))
            runs = part.runs.assign(row=rows)
            sides.append(runs[~runs["task"].isin(waiting)])
        return Agreement.of(*sides)

    def rank_correlation(self, task: str, other: str) -> tuple[float, int]:
        """Whether two tasks order rows alike: Spearman's correlation of how far the rows reach
        that have learned both, and how many these are.
        """
        both = self.standing.cells()[[task, other]].dropna()
        return rank_correlation(both[task], both[other]), len(both)

    def spread(self, task: str, other: str, least: float) -> tuple[float, float, int]:
        """The least and the most that rows reach on a task, of those that reach at least this on
        the other, and how many these are.
        """
        cells = self.standing.cells()
        found = cells.loc[cells[other] >= least, task].dropna()
        return float(found.min()), float(found.max()), len(found)

    def within(self, gap: float) -> int:
        """How many rows with a place reach less far than the first by less than this."""
        reaches = self.standing.summary.loc[self.placed, "reaches"]
        return int((reaches.iloc[0] - reaches < gap).sum()) - 1

    @property
    def split(self) -> tuple[int, int]:
        """Of the pairs of row and task with several seeds: how many have a seed that learned and
        one that did not, and how many there are.
        """
        runs = self.standing.part.runs
        of = runs.groupby(["row", "task"])["learned"].agg(["mean", "size"])
        several = of[of["size"] > 1]
        return int(several["mean"].between(0, 1, inclusive="neither").sum()), len(several)

    def cost(self, row: str, reference: str) -> str:
        """The multiplications until a row had learned over those of a reference, in the median of
        the tasks that both have learned.
        """
        return number(float(self.costs(row, reference).median()))

    def costs(self, row: str, reference: str) -> pd.Series:
        """The same by task, in the mean of the seeds that both have learned it with."""
        self.of(row)
        runs = self.standing.pool
        runs = runs[runs["learned"].astype(bool)]
        spent = runs.set_index(["row", "task", "seed"])["multiplications"]
        by_task: pd.Series = (spent[row] / spent[reference]).dropna().groupby("task").mean()
        return by_task

    def by_share(self, method: str) -> dict[float, str]:
        """The rows of a method by the share of the positions that its setting has, furthest first.

        A row whose name has no setting has the method's default: the share that is left over.
        """
        share = re.compile(r"positions:([\d.]+)")
        rows = [row for row in self.standing.known if row.partition(" (")[0] == method]
        found = {row: float(of[1]) for row in rows if (of := share.search(row))}
        asked = {float(each) for each in share.findall(" ".join(self.standing.part.rows.settings))}
        if len(left := asked.difference(found.values())) != len(rows) - len(found) or len(left) > 1:
            raise PosbenchError(f"{method} has not one row for each of {sorted(asked)}")
        return {found[row] if row in found else min(left): row for row in rows}

    def table(self, rows: Sequence[str], columns: Sequence[str], first: str = "method") -> str:
        """Rows in Markdown; a column is one of the board, a task, a length such as "4x", or
        "minus ROW".
        """
        if len(rows) > MOST:
            raise PosbenchError(f"a table of {len(rows)} rows is too long: at most {MOST}")
        shown = [[code(row), *(self._cell(row, column) for column in columns)] for row in rows]
        headings = [re.sub(r"^minus (\w+)$", r"minus `\1`", each) for each in columns]
        return "\n".join(pipes([first, *headings], shown))

    def _numbers(self, length: float | None) -> pd.DataFrame:
        if length is not None:
            return self.standing.at(length)
        return self.standing.summary.rename(columns={"reaches": "number"})

    @property
    def _fitted(self) -> AdditiveFit:
        if self.standing.fitted is None:
            raise PosbenchError(f"no row of {self.standing.part.title} has learned a task")
        return self.standing.fitted

    def _less(self, row: str, other: str, length: float | None) -> pd.Series:
        # Rows of other sections are there too.
        for each in {row, other}.difference(self._fitted.rows):
            self.of(each)
        line: pd.Series = self._fitted.differences(other, [row], _measure(length)).loc[row]
        return line

    def _cell(self, row: str, column: str) -> str:
        self.of(row)
        headings = self._ranking.headings[1:]
        if column in headings:
            cells = {line.name: line.cells for line in self._ranking.rows}
            return cells[row][headings.index(column)]
        if column.startswith("minus "):
            other = column.removeprefix("minus ")
            return NOTHING if row == other else self.less(row, other)
        if re.fullmatch(r"[\d.]+x", column):
            return self.number(row, float(column[:-1]))
        if column in self.standing.tasks:
            return self.cell(row, column)
        raise PosbenchError(f"{self.standing.part.title} has no column {column}")

    @functools.cached_property
    def _ranking(self) -> Any:
        return ranking(self.standing, self.measured)


def _measure(length: float | None) -> str:
    """What the model is fitted to: areas, or the scores at a length."""
    return "area" if length is None else f"{length:g}x"
