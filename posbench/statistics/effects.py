"""How far rows reach of what they have learned: an additive model of rows and tasks.

    y(r, t) = a(r) + b(t) + e(r, t)

Here y is the mean over the trainings of row r that have learned task t of a score above chance, as
the area from 1x to 8x. The number of a row is the least-squares a(r) + the mean of b over all tasks
that some row has learned. For a row that has learned all of them it is the mean of its y, whatever
other rows have learned. A row that has not learned a task is neither blamed nor praised for it:
with what it lacks goes what is usual there.

A task counts as learned by a row if at least one of its trainings has learned it. That is the rule
for a single training, so that no seed is thrown away; and a training that failed by bad luck tells
nothing of how far another one reaches. All cells weigh the same however many trainings they have,
because rows differ more from task to task than trainings from seed to seed.

Every function takes a table of runs, one line a training, with columns `row`, `task`, `seed`,
`training` (hash: runs that share it share weights), `learned`, and those that are measured.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import pandas as pd
from scipy import sparse, special

from posbench.core.streams import stream_seed
from posbench.statistics.aggregates import DRAWS, FEWEST, Array, quantile
from posbench.statistics.randomisation import holm

CHUNK = 1_000
"""Draws that are held at once."""


@dataclass(frozen=True)
class AdditiveFit:
    """The model fitted to one table of runs, for several measures at once.

    Standard errors are those of draws in which tasks are drawn with replacement, and within each
    task the trainings of each row, of k of them k - 1; the model is fitted anew to each draw.
    Rows that share all trainings of a task, as the extensions of one host, draw the same. The
    errors of a row with n tasks are widened by sqrt(n / (n - 1)), which is what a resample of n
    lacks in variance, and its interval is that of Student's t with n - 1 degrees of freedom.

    Sources: Davison and Hinkley 1997, "Bootstrap methods and their application", section 3.8;
    McCarthy and Snowden 1985, "The bootstrap and finite population sampling" (k - 1 of k).
    """

    rows: list[str]
    tasks: list[str]  # those that some row has learned
    measures: list[str]
    cells: Array  # [row, task, measure]: mean over the trainings that learned; NaN without any
    numbers: Array  # [row, measure]
    drawn: Drawn
    runs: pd.DataFrame  # that it was fitted to, and those that have not learned
    known_errors: dict[str, Array] = field(default_factory=dict)  # by measure, once asked for

    @classmethod
    def of(
        cls,
        runs: pd.DataFrame,
        measures: Sequence[str] = ("area",),
        draws: int = DRAWS,
        seed: int = 0,
    ) -> AdditiveFit:
        """Fit the trainings of `runs` that learned and have all of the measures."""
        known = runs[runs["learned"].astype(bool) & runs[list(measures)].notna().all(axis=1)]
        known = known.sort_values(["row", "task", "seed"], kind="stable")
        rows, tasks = (sorted(known[name].unique()) for name in ("row", "task"))
        drawn = Drawn.of(known, rows, tasks, list(measures), draws, seed)
        numbers = _solved(drawn.means[None], drawn.mask, np.ones((1, len(tasks))))[0]
        numbers[~_connected(drawn.mask)] = np.nan
        cells = np.where(drawn.mask[:, :, None], drawn.means, np.nan)
        return cls(rows, tasks, list(measures), cells, numbers, drawn, runs)

    @functools.cached_property
    def num_learned(self) -> pd.Series:
        """How many tasks each row has learned."""
        return pd.Series(self.drawn.mask.sum(1), self.rows)

    def cell_means(self, measure: str = "area") -> pd.DataFrame:
        """The mean over the trainings that learned, [row, task]."""
        of = self.cells[:, :, self.measures.index(measure)]
        return pd.DataFrame(of, self.rows, self.tasks)

    def errors(self, measure: str = "area") -> Array:
        """The standard error of each number. Differences do without it."""
        if measure not in self.known_errors:
            parts = self.drawn.parts([self.measures.index(measure)])
            each = [_solved(values, self.drawn.mask, weights)[..., 0] for values, weights in parts]
            spread = _spread(np.concatenate(each))
            self.known_errors[measure] = spread * _widening(self.drawn.mask.sum(1))
        return self.known_errors[measure]

    def half_widths(self, measure: str = "area") -> Array:
        """Half of the 95 % interval of each number; NaN below three learned tasks."""
        return _quantile(self.num_learned.to_numpy()) * self.errors(measure)

    def number(self, measure: str = "area") -> pd.Series:
        """The number of each row, kept within 0 and 1. The model has no such limit: it puts a row
        that reaches all of one hard task above 1.
        """
        return pd.Series(self.numbers[:, self.measures.index(measure)], self.rows).clip(0, 1)

    def table(self, measure: str = "area") -> pd.DataFrame:
        """The number of each row with its 95 % interval, in columns `number`, `low` and `high`,
        all within 0 and 1; the bounds are NaN below three learned tasks.
        """
        number, half = self.numbers[:, self.measures.index(measure)], self.half_widths(measure)
        columns = {"number": number, "low": number - half, "high": number + half}
        return pd.DataFrame(columns, self.rows).clip(0, 1)

    def differences(
        self, first: str, rows: Sequence[str] | None = None, measure: str = "area"
    ) -> pd.DataFrame:
        """Each of these rows minus `first`, on the tasks that both have learned; all by default.

        On a task where two rows were run with other seeds, the seeds that both were run with are
        compared, if there are any: a seed has its own training data.

        Returns columns `difference` (mean over these tasks of the difference of cells), `low`,
        `high` (95 %), `common` (how many tasks), `p` (two-sided, of Student's t with common - 1
        degrees of freedom) and `p_holm`, corrected for the number of these rows. Bounds and p are
        NaN where fewer than three tasks are common. A sign-flip test over tasks would assume less,
        but cannot give less than 2 / 2^n: with ten tasks, nothing that survives 30 rows.
        """
        place = self.measures.index(measure)
        asked = [row for row in (self.rows if rows is None else rows) if row in set(self.rows)]
        names = list(dict.fromkeys([first, *asked]))
        here = [self.rows.index(row) for row in names]
        mask = self.drawn.mask[here]
        both = mask & mask[0]
        common, cells = both.sum(1), self.drawn.means[here, :, place]
        with np.errstate(invalid="ignore", divide="ignore"):
            difference = ((cells - cells[0]) * both).sum(1) / common
            each = [
                np.einsum("dt,rt,drt->dr", weights, both, values - values[:, [0]], optimize=True)
                / (weights @ both.T)
                for values, weights in (
                    (values[..., 0], weights) for values, weights in self.drawn.parts([place], here)
                )
            ]
            error = _spread(np.concatenate(each)) * _widening(common)
            t = np.abs(difference) / error
        p = 2 * special.stdtr(np.maximum(common - 1, 1), -t)
        p = np.where(np.round(difference, 9) == 0, 1.0, p)  # rows that are the same do not vary
        half = _quantile(common) * error
        found = {
            "difference": difference,
            "low": difference - half,
            "high": difference + half,
            "common": common,
            "p": np.where(common < FEWEST, np.nan, p),
        }
        kept = [row for row in (self.rows if rows is None else rows) if row != first]
        table = pd.DataFrame(found, names).reindex(kept)
        for row in kept:
            if (pair := self.with_common_seeds(first, row)) is not self:
                # No row is left without a seed that has learned.
                alike = pair.differences(first, [row], measure) if first in pair.rows else table[:0]
                table.loc[row] = alike.reindex([row]).fillna({"common": 0}).loc[row, table.columns]
        return table.assign(p_holm=holm(list(table["p"])))

    def with_common_seeds(self, first: str, second: str) -> AdditiveFit:
        """The model of two rows on the seeds that both were run with on a task, or on all of a task
        where they have none in common. It is this one where that leaves out no run.
        """
        one, other = (self._seeds.get(row, {}) for row in (first, second))
        left = {
            task: both
            for task in one.keys() & other.keys()
            if one[task] != other[task] and (both := one[task] & other[task])
        }
        if not left:
            return self
        runs = self.runs[self.runs["row"].isin([first, second])]
        fits = [
            task not in left or seed in left[task]
            for task, seed in zip(runs["task"], runs["seed"], strict=True)
        ]
        return AdditiveFit.of(runs[fits], self.measures, self.drawn.draws, self.drawn.seed)

    @functools.cached_property
    def _seeds(self) -> dict[str, dict[str, set[int]]]:
        """The seeds that each row was run with, by row and task."""
        found: dict[str, dict[str, set[int]]] = {}
        for row, task, seed in self.runs[["row", "task", "seed"]].itertuples(index=False):
            found.setdefault(row, {}).setdefault(task, set()).add(seed)
        return found

    def bounds(self, tasks: Sequence[str], rows: Sequence[str]) -> pd.DataFrame:
        """The mean over these tasks if what was not learned reached as little as can be (0), and
        as far as the best of all rows there (1 where there is none): columns `least` and `most`.
        A row may have learned nothing.
        """
        cells = self.cell_means().reindex(columns=list(tasks))
        best = cells.max().fillna(1.0)
        cells = cells.reindex(list(rows))
        return pd.DataFrame(
            {"least": cells.fillna(0.0).mean(1), "most": cells.fillna(best).mean(1)}
        )


@dataclass(frozen=True)
class Drawn:
    """Cell means, and how to draw their trainings again, which is done once somebody asks."""

    means: Array  # [row, task, measure], 0 where nothing was learned
    mask: npt.NDArray[np.bool_]  # [row, task]
    # Of the cells that draw the same, by their task and trainings: row, [training, measure].
    alike: dict[tuple[int, str], list[tuple[int, Array]]]
    tasks: list[str]
    draws: int
    seed: int

    @classmethod
    def of(
        cls,
        known: pd.DataFrame,
        rows: list[str],
        tasks: list[str],
        measures: list[str],
        draws: int,
        seed: int,
    ) -> Drawn:
        means = np.zeros((len(rows), len(tasks), len(measures)))
        mask = np.zeros(means.shape[:2], bool)
        alike: dict[tuple[int, str], list[tuple[int, Array]]] = {}
        # Plain arrays, cut at the ends of cells: a data frame for each of a thousand takes seconds.
        values = known[measures].to_numpy(float)
        names = list(zip(known["seed"].tolist(), known["training"].tolist(), strict=True))
        places = (
            pd.Index(rows).get_indexer(known["row"]),
            pd.Index(tasks).get_indexer(known["task"]),
        )
        ends = np.flatnonzero(np.diff(places[0] * len(tasks) + places[1], append=-1)) + 1
        for start, end in itertools.pairwise([0, *ends]):
            row, task = int(places[0][start]), int(places[1][start])
            means[row, task], mask[row, task] = values[start:end].mean(0), True
            place = task, repr([f"{each} {training}" for each, training in names[start:end]])
            alike.setdefault(place, []).append((row, values[start:end]))
        return cls(means, mask, alike, tasks, draws, seed)

    @functools.cached_property
    def blocks(self) -> list[tuple[list[int], int, Array, Array]]:
        """Of the cells that draw the same: their rows, task, [training, row, measure], and how
        often each training is in each draw, [draw, training].
        """
        found = []
        for (task, key), same in self.alike.items():
            count = len(same[0][1])
            if count > 1:  # a single training does not vary
                random = _random(self.seed, "seeds", self.tasks[task], key)
                drawn = random.integers(count, size=(self.draws, count - 1))
                times = (drawn[:, :, None] == np.arange(count)).sum(1) / (count - 1)
                each = np.stack([areas for _, areas in same], axis=1)
                found.append(([row for row, _ in same], task, each, times))
        return found

    @functools.cached_property
    def weights(self) -> Array:
        """How often each task is in each draw, [draw, task]."""
        count = len(self.tasks)
        chosen = _random(self.seed, "tasks").integers(count, size=(self.draws, count))
        return (chosen[:, :, None] == np.arange(count)).sum(1).astype(float)

    def parts(
        self, measures: Sequence[int], rows: Sequence[int] | None = None
    ) -> Iterator[tuple[Array, Array]]:
        """Cell means of these measures, of all rows or of these, and weights of tasks, CHUNK draws
        at a time.
        """
        chosen = list(measures)
        wanted = list(range(len(self.means)) if rows is None else rows)
        places = {row: place for place, row in enumerate(wanted)}
        means = self.means[wanted][:, :, chosen]
        blocks = []
        for of, task, each, times in self.blocks:
            if kept := [place for place, row in enumerate(of) if row in places]:
                there = [places[of[place]] for place in kept]
                blocks.append((there, task, each[:, kept][:, :, chosen], times))
        for start in range(0, len(self.weights), CHUNK):
            weights = self.weights[start : start + CHUNK]
            values = np.repeat(means[None], len(weights), axis=0)
            for there, task, each, times in blocks:
                drawn = times[start : start + CHUNK] @ each.reshape(len(each), -1)
                values[:, there, task] = drawn.reshape(len(drawn), *each.shape[1:])
            yield values, weights


def _random(*stream: str | int) -> np.random.Generator:
    return np.random.default_rng(stream_seed(*stream))


def _solved(values: Array, mask: npt.NDArray[np.bool_], weights: Array) -> Array:
    """The number of each row, [draw, row, measure], of cells [draw, row, task, measure].

    Task effects are eliminated, which leaves equations of the size of the rows. A row of which no
    task was drawn has NaN. Where every row has learned every task, the number is a plain mean,
    weighted by how often tasks were drawn.
    """
    if mask.all():
        sums = np.einsum("dt,drtm->drm", weights, values, optimize=True)
        return np.asarray(sums / weights.sum(1)[:, None, None])
    learned = mask.astype(float)
    of_task = learned.sum(0)  # rows by task
    share = learned / of_task
    of_all = np.einsum("rt,drtm->dtm", share, values)  # the mean of each task
    centred = values - of_all[:, None]
    right = np.einsum("dt,rt,drtm->drm", weights, learned, centred, optimize=True)
    pairs = (learned[:, None] * share[None]).reshape(-1, len(of_task))
    matrix = -(weights @ pairs.T).reshape(-1, len(learned), len(learned))
    own = weights @ learned.T  # [draw, row]
    # Effects of rows add up to 0; the last terms keep rows without a task from being singular.
    diagonal = np.where(own > 0, own, 1.0) + 1e-9
    matrix += 1 / len(learned) + diagonal[:, :, None] * np.eye(len(learned))
    effects = np.linalg.solve(matrix, right)
    rest = of_all - np.einsum("rt,drm->dtm", share, effects)
    level = np.einsum("dt,dtm->dm", weights, rest) / weights.sum(1)[:, None]
    found = effects + level[:, None]
    found[own == 0] = np.nan
    return np.asarray(found)


def _spread(drawn: Array) -> Array:
    """The standard deviation over draws, those left out in which nothing is known."""
    count = np.isfinite(drawn).sum(0)
    with np.errstate(invalid="ignore", divide="ignore"):
        mean = np.nansum(drawn, 0) / count
        return np.asarray(np.sqrt(np.nansum((drawn - mean) ** 2, 0) / (count - 1)))


def _widening(count: npt.NDArray[np.int64]) -> Array:
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.asarray(np.where(count > 1, np.sqrt(count / (count - 1)), np.nan))


def _quantile(count: npt.NDArray[np.int64]) -> Array:
    """Student's t of so many tasks; NaN below three."""
    return np.asarray(np.where(count >= FEWEST, quantile(count), np.nan))


def _connected(mask: npt.NDArray[np.bool_]) -> npt.NDArray[np.bool_]:
    """The rows that are linked to the most others by tasks that both have learned."""
    graph = sparse.csr_matrix(mask.astype(int) @ mask.astype(int).T)
    _, names = sparse.csgraph.connected_components(graph, directed=False)
    return np.asarray(names == np.bincount(names).argmax()) if len(names) else names.astype(bool)
