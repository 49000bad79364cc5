"""The numbers of a board as they might have come out: seeds and tasks drawn again.

All functions take a table of runs, see `posbench.statistics.aggregates`. A row without an area for
some task is left out of draws and ranks.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pandas as pd
from scipy import special

from posbench.base.errors import PosbenchError
from posbench.core.streams import stream_seed
from posbench.statistics.aggregates import (
    CONFIDENCE,
    Array,
    checked,
    drawn_within,
    means_and_groups,
)

DRAWS = 10_000
EQUIVALENT = 0.02
"""The equivalence margin: a smaller difference of areas is none."""


Chosen = npt.NDArray[np.bool_]
"""Whether each draw is one of those chosen."""


@dataclass(frozen=True)
class Draws:
    """Board numbers as they might have come out: resampled, with the estimates they vary around.

    What is drawn from two or three values varies as it should on average, but a percentile of it is
    that of a normal distribution whose spread is known. It is estimated, and so deviations from
    the estimate are widened by t / z, the quantiles of Student's t and of the normal distribution
    that bound 95 %: 2.2 times for three seeds of one task, 1.05 times for three of each of twelve.
    """

    rows: list[str]  # those that have all tasks, in the order of their names
    groups: list[str]
    estimates: Array  # [group, row]
    values: Array  # [draw, group, row]
    freedom: Array  # [group, row]: degrees of freedom of what they were drawn from

    @functools.cached_property
    def overall(self) -> Array:
        """[draw, row]. Rounded, so that rows that are the same in exact arithmetic tie."""
        estimates = self.estimates.mean(0)
        return np.round(_widened(self.values.mean(1), estimates, self.freedom.sum(0)), 9)

    def of_group(self, group: str) -> Array:
        """[draw, row]."""
        place = self.groups.index(group)
        return _widened(self.values[:, place], self.estimates[place], self.freedom[place])

    def intervals(
        self, confidence: float = CONFIDENCE, groups: Sequence[str] | None = None
    ) -> pd.DataFrame:
        """Percentile intervals of the overall number and of groups, all of them unless told.

        Returns columns (name, "low" or "high") by row; the name is "overall" or that of a group.
        Bounds are kept within 0 and 1, as areas are.
        """
        tails = [(1 - confidence) / 2, (1 + confidence) / 2]
        found = {"overall": np.quantile(self.overall, tails, axis=0)}
        for group in self.groups if groups is None else groups:
            found[group] = np.quantile(self.of_group(group), tails, axis=0)
        columns = {
            (name, side): bound
            for name, bounds in found.items()
            for side, bound in zip(("low", "high"), np.clip(bounds, 0.0, 1.0), strict=True)
        }
        return pd.DataFrame(columns, index=pd.Index(self.rows, name="row"))

    def ranks(self, margin: float = EQUIVALENT) -> pd.Series:
        """The rank of each estimate: 1 + the number of rows above it by the margin at least."""
        estimates = np.round(self.estimates.mean(0), 9)[None]
        return pd.Series(_ranks(estimates, margin)[0], index=self._index, name="rank")

    def rank_intervals(
        self, confidence: float = CONFIDENCE, margin: float = EQUIVALENT
    ) -> pd.DataFrame:
        """The smallest ranks that bound the share `confidence` of the draws, by row.

        Bounds are ranks that were drawn (`inverted_cdf`), in columns `low` and `high`.
        """
        tails = [(1 - confidence) / 2, (1 + confidence) / 2]
        low, high = np.quantile(_ranks(self.overall, margin), tails, axis=0, method="inverted_cdf")
        return pd.DataFrame({"low": low, "high": high}, index=self._index).astype(int)

    def p_best(self) -> pd.Series:
        """The share of draws in which a row has the largest number; rows that tie share a draw."""
        best = self.overall == self.overall.max(1, keepdims=True)
        return pd.Series((best / best.sum(1, keepdims=True)).mean(0), index=self._index)

    def order(self, a: str, b: str, margin: float = EQUIVALENT) -> Order:
        """How often row `a` comes out above row `b`, equivalent to it, and below it."""
        one, other = (self.overall[:, self._place(name)] for name in (a, b))
        difference = np.round(one - other, 9)
        above, below = _above(difference, margin), _above(-difference, margin)
        shares = [float(each.mean()) for each in (above, ~above & ~below, below)]
        return Order(*shares)

    def above(self, margin: float = EQUIVALENT) -> pd.DataFrame:
        """How often each row comes out above each other one by the margin at least, [row, row]."""
        shares = [
            _above(np.round(self.overall[:, [row]] - self.overall, 9), margin).mean(0)
            for row in range(len(self.rows))
        ]
        return pd.DataFrame(np.array(shares), index=self._index, columns=self.rows)

    def difference(self, a: str, b: str, confidence: float = CONFIDENCE) -> tuple[float, float]:
        """The percentile interval of the overall number of `a` less that of `b`."""
        drawn = self.overall[:, self._place(a)] - self.overall[:, self._place(b)]
        low, high = np.quantile(drawn, [(1 - confidence) / 2, (1 + confidence) / 2])
        return float(low), float(high)

    @property
    def _index(self) -> pd.Index:
        return pd.Index(self.rows, name="row")

    def _place(self, row: str) -> int:
        if row not in self.rows:
            raise PosbenchError(f"there is no row {row!r} that has all tasks")
        return self.rows.index(row)


@dataclass(frozen=True)
class Order:
    """Shares of draws; they add up to 1."""

    above: float  # by the equivalence margin at least
    equivalent: float
    below: float


@dataclass(frozen=True)
class _Block:
    """The runs of one task whose rows draw the same seeds."""

    key: str  # what names its stream of random numbers
    places: list[int]  # of its rows
    areas: Array  # [seed, row]


@dataclass(frozen=True)
class Sample:
    """The runs of all rows that have all tasks, and how to draw their seeds."""

    rows: list[str]
    groups: dict[str, list[str]]
    means: pd.DataFrame  # [row, task]
    blocks: dict[str, list[_Block]]  # by task
    draws: int
    seed: int

    @classmethod
    def of(cls, runs: pd.DataFrame, draws: int, seed: int) -> Sample:
        runs = checked(runs)
        means, groups = means_and_groups(runs)
        means = means.dropna()
        if means.empty:
            raise PosbenchError("no row has an area on every task: give the runs of fewer tasks")
        rows = list(means.index)
        return cls(rows, groups, means, _blocks(runs, rows), draws, seed)

    def estimate(self, tasks: list[str]) -> Array:
        """The mean of the tasks, [row]."""
        return self.means[tasks].to_numpy().mean(1)

    def seed_means(self, task: str, place: int = 0, among: Chosen | None = None) -> Array:
        """Means over resampled seeds, [draw, row], of some of the draws; another `place` gives
        other draws.
        """
        at = np.ones(self.draws, bool) if among is None else among
        found = np.empty((int(at.sum()), len(self.rows)))
        for block in self.blocks[task]:
            count = len(block.areas)
            drawn = max(count - 1, 1)
            names = (self.seed, "seeds", place, task, block.key)
            chosen = _choices(self.draws, count, drawn, *names)[at]
            # How often each seed was drawn: one product serves all rows of the block.
            places = chosen + count * np.arange(len(chosen))[:, None]
            times = np.bincount(places.ravel(), minlength=len(chosen) * count)
            times = times.reshape(len(chosen), count)
            found[:, block.places] = times @ block.areas / drawn
        return found

    def given_tasks(self) -> Draws:
        """See the function of that name."""
        values = [
            np.mean([self.seed_means(task) for task in tasks], axis=0)
            for tasks in self.groups.values()
        ]
        freedom = [self._freedom_of_seeds(tasks) for tasks in self.groups.values()]
        return self._drawn(self.groups, values, freedom)

    def over_tasks(self) -> Draws:
        """See the function of that name."""
        values, freedom, groups = [], [], drawn_within(self.groups)
        for group, tasks in groups.items():
            count, estimate = len(tasks), self.estimate(tasks)
            chosen = _choices(self.draws, count, count, self.seed, "tasks", group)
            total = np.zeros((self.draws, len(self.rows)))
            # A task that is drawn twice is drawn with other seeds: each place has draws of its own.
            for place, (index, task) in itertools.product(range(count), enumerate(tasks)):
                at = chosen[:, place] == index
                total[at] += self.seed_means(task, place, at)
            widened = (count / (count - 1)) ** 0.5 if count > 1 else 1.0
            values.append(estimate + widened * (total / count - estimate))
            of_tasks = np.full(len(self.rows), count - 1.0)
            freedom.append(of_tasks if count > 1 else self._freedom_of_seeds(tasks))
        return self._drawn(groups, values, freedom)

    def _freedom_of_seeds(self, tasks: list[str]) -> Array:
        """[row]: one less than the seeds of each task, in all."""
        found = np.zeros(len(self.rows))
        for block in (block for task in tasks for block in self.blocks[task]):
            found[block.places] += len(block.areas) - 1
        return found

    def _drawn(
        self, groups: dict[str, list[str]], values: list[Array], freedom: list[Array]
    ) -> Draws:
        estimates = np.stack([self.estimate(tasks) for tasks in groups.values()])
        return Draws(
            self.rows, list(groups), estimates, np.stack(values, axis=1), np.stack(freedom)
        )


def _blocks(runs: pd.DataFrame, rows: list[str]) -> dict[str, list[_Block]]:
    """By task, its rows together that were trained alike for their seeds; of a checked table."""
    host = next((name for name in ("training", "host") if name in runs), "row")
    trained: dict[tuple[str, str], list[str]] = {}
    areas: dict[tuple[str, str], list[float]] = {}
    # Lists: a data frame for each of a thousand cells takes seconds.
    columns = (runs[name].tolist() for name in ("task", "row", "seed", host, "area"))
    for task, row, seed, name, area in zip(*columns, strict=True):
        trained.setdefault((task, row), []).append(f"{seed} {name}")
        areas.setdefault((task, row), []).append(area)
    places = {row: place for place, row in enumerate(rows)}
    alike: dict[str, dict[str, list[str]]] = {}
    for (task, row), names in trained.items():
        if row in places:
            alike.setdefault(task, {}).setdefault(repr(names), []).append(row)
    return {
        task: [
            _Block(
                key,
                [places[row] for row in same],
                np.stack([np.array(areas[task, row], float) for row in same], axis=1),
            )
            for key, same in by_key.items()
        ]
        for task, by_key in alike.items()
    }


def _choices(draws: int, count: int, drawn: int, *stream: str | int) -> npt.NDArray[np.uint16]:
    """Which of `count` things are drawn, [draw, drawn]."""
    generator = np.random.default_rng(stream_seed(*stream))
    return generator.integers(count, size=(draws, drawn), dtype=np.uint16)


def given_tasks(runs: pd.DataFrame, draws: int = DRAWS, seed: int = 0) -> Draws:
    """Resample seeds with replacement within each row and task, the tasks being what they are.

    The interval says what other seeds would have given on these very tasks, and nothing about
    other tasks. Rows whose runs of a task share all their weights (the same seeds of the same
    trainings, as the extensions of one host) draw the same seeds, so that their differences keep
    the pairing. A row that shares only some of them draws for itself, which is conservative. Each
    task and training has a stream of random numbers of its own; other rows of the table, and
    their order, change nothing. Of k seeds k - 1 are drawn: the mean of k would have (k - 1) / k of
    the variance that an unbiased estimate has, two thirds with three seeds. A single seed has none.

    Source: the stratified bootstrap of Agarwal et al. 2021, arXiv 2108.13264; k - 1 draws of k
    after McCarthy and Snowden 1985, "The bootstrap and finite population sampling".
    """
    return Sample.of(runs, draws, seed).given_tasks()


def over_tasks(runs: pd.DataFrame, draws: int = DRAWS, seed: int = 0) -> Draws:
    """Resample tasks with replacement within each group, and seeds within each task drawn.

    The interval says what other tasks of the same groups would have given, the groups being what
    they are. Tasks that are in no group are drawn as those of a single one. All rows see the same
    tasks. Of n tasks a resample has (n - 1) / n of the variance
    that an unbiased estimate would have, which is half of it for the two tasks of a group; so
    deviations from the estimate are widened by sqrt(n / (n - 1)), which is sqrt 2 for two. Nothing
    can be resampled in a group of a single task, which adds its seeds alone. Seeds are part of
    what measured tasks differ by, and are drawn once more within them: the interval is
    conservative, by at most the variance of the seeds.

    Source: the nested bootstrap of Davison and Hinkley 1997, "Bootstrap methods and their
    application", section 3.8, which discusses both effects.
    """
    return Sample.of(runs, draws, seed).over_tasks()


def _widened(values: Array, estimates: Array, freedom: Array) -> Array:
    """Deviations from the estimates as of Student's t; `values` are [draw, row], the rest [row]."""
    tail = (1 + CONFIDENCE) / 2
    # What has no degree of freedom does not vary.
    factor = special.stdtrit(np.maximum(freedom, 1), tail) / special.ndtri(tail)
    return np.asarray(estimates + np.where(freedom > 0, factor, 1.0) * (values - estimates))


def _above(difference: Array, margin: float) -> npt.NDArray[np.bool_]:
    return (difference >= margin) & (difference > 0)


def _ranks(values: Array, margin: float) -> npt.NDArray[np.int64]:
    """1 + the number of rows above by the margin at least; `values` and result are [draw, row].

    In units of the ninth decimal, to which values are rounded, comparisons are exact; and one
    search serves all draws if each has a stretch of the axis of its own.
    """
    units = np.rint(values * 1e9).astype(np.int64)
    least = max(1, int(np.ceil(np.round(margin * 1e9, 3))))
    units -= units.min()
    stretch = int(units.max()) + least + 1
    places = units + stretch * np.arange(len(units))[:, None]
    ordered = np.sort(places, axis=1).ravel()
    ends = values.shape[1] * (1 + np.arange(len(units)))[:, None]
    return 1 + ends - np.searchsorted(ordered, places + least)
