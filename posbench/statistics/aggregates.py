"""The numbers of a board, from one line a training.

    task = mean over seeds,  group = mean of its tasks,  overall = mean of the groups

Every function takes a table of runs: one line a training and what was measured on it, with columns

    row       label of the method
    task      name of the task
    group     name of the capability that the task stands for; its own name, if it is in no group
    seed      of the training
    area      share of 1, see `posbench.statistics.measures.area`
    training  (may be left out) hash of all that the weights depend on: runs that share it share
              weights, and so the luck of a seed
    host      (may be left out; used if there is no `training`) name of what was trained

A row without an area for some task has no overall number.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pandas as pd
from scipy import special

from posbench.base.errors import PosbenchError

CONFIDENCE = 0.95
FEWEST = 3
"""Seeds that an interval needs: two that agree by luck would give none, and Student's t of two is
wider than the scale. The tasks of a single group are drawn from as many.
"""
COLUMNS = ("row", "task", "group", "seed", "area")

Array = npt.NDArray[np.float64]


def checked(runs: pd.DataFrame) -> pd.DataFrame:
    """The table in a fixed order, once it is known to be one of runs.

    Sums in another order would differ in their last bits. Raises `PosbenchError` if a column is
    missing, if there is no run or one is there twice, or if a task is in several groups.
    """
    if missing := [name for name in COLUMNS if name not in runs]:
        alone = missing == ["area"]
        hint = "; or `score` and `multiple`, as in the table of posbench.results.load" * alone
        raise PosbenchError(
            f"a table of runs needs columns {', '.join(missing)}: it has one line a run, with "
            f"columns {', '.join(COLUMNS)}{hint}"
        )
    if runs.empty:
        raise PosbenchError("there is no run in the table: run something first")
    if not pd.api.types.is_numeric_dtype(runs["area"]):
        raise PosbenchError(
            f"area must hold numbers, shares of 1, and holds {runs['area'].dtype}: convert it with "
            "pandas.to_numeric"
        )
    several = runs.groupby("task")["group"].nunique(dropna=False)
    if (several != 1).any():
        raise PosbenchError(f"task {several.idxmax()!r} must be in one group, of one name")
    twice = runs.duplicated(["row", "task", "seed"])
    if twice.any():
        row, task, seed = runs.loc[twice, ["row", "task", "seed"]].iloc[0]
        raise PosbenchError(f"{row} has seed {seed} of {task} twice: keep one of the two runs")
    return runs.sort_values(["row", "task", "seed"], kind="stable")


def repeated(runs: pd.DataFrame) -> bool:
    """Whether each row has enough seeds of each task for an interval."""
    return bool(runs.groupby(["row", "task"]).size().min() >= FEWEST)


def has_tasks_to_draw(runs: pd.DataFrame) -> bool:
    """Whether there are tasks enough for an interval: in each group several, because a single one
    is in every draw, and in all two more than groups, as three of one group or two of each of two.
    """
    _, groups = means_and_groups(runs)
    counts = [len(tasks) for tasks in drawn_within(groups).values()]
    return min(counts) > 1 and sum(counts) - len(counts) >= FEWEST - 1


def drawn_within(groups: Mapping[str, Sequence[str]]) -> dict[str, list[str]]:
    """The groups within which tasks are drawn: one of all, where no task is in a group."""
    if all([group] == list(tasks) for group, tasks in groups.items()):
        return {"": list(groups)}
    return {group: list(tasks) for group, tasks in groups.items()}


def task_means(runs: pd.DataFrame) -> pd.DataFrame:
    """Mean area over seeds, [row, task]; NaN without a run, or if one of the runs has no area."""
    return means_and_groups(runs)[0]


def means_and_groups(runs: pd.DataFrame) -> tuple[pd.DataFrame, dict[str, list[str]]]:
    """`task_means`, and group -> its tasks, both in the order of their names."""
    runs = checked(runs)
    pairs = runs[["group", "task"]].drop_duplicates().sort_values(["group", "task"])
    groups: dict[str, list[str]] = {}
    for group, task in pairs.itertuples(index=False):
        groups.setdefault(str(group), []).append(task)
    places = pd.MultiIndex.from_frame(runs[["row", "task"]])
    # Cut at the ends of cells, and averaged together where they have as many seeds.
    starts = np.flatnonzero(~places.duplicated())
    counts, areas = np.diff(starts, append=len(runs)), runs["area"].to_numpy(float)
    means = np.empty(len(starts))
    for count in np.unique(counts):
        same = counts == count
        means[same] = areas[starts[same][:, None] + np.arange(count)].mean(1)
    return pd.Series(means, places[starts]).unstack("task"), groups


def group_means(runs: pd.DataFrame) -> pd.DataFrame:
    """Mean over the tasks of each group, [row, group]; NaN if the row lacks one of them."""
    return means_of_groups(*means_and_groups(runs))


def means_of_groups(means: pd.DataFrame, groups: Mapping[str, Sequence[str]]) -> pd.DataFrame:
    """`group_means` of the means of tasks, [row, task]."""
    each = {group: means[list(tasks)].to_numpy().mean(1) for group, tasks in groups.items()}
    return pd.DataFrame(each, index=means.index)


def overall(runs: pd.DataFrame) -> pd.Series:
    """Mean over groups, by row; NaN if the row lacks a task."""
    return group_means(runs).mean(axis=1, skipna=False)


# -- A mean over seeds, with its interval by Student's t -------------------------------------------


@dataclass(frozen=True)
class Estimate:
    """A mean over seeds and half the width of its interval, which is NaN for one seed or two."""

    mean: float
    half_width: float

    @classmethod
    def over(cls, seeds: Iterable[float]) -> Estimate:
        [found] = cls.each(np.array(list(seeds), float)[None])
        return found

    @classmethod
    def each(cls, values: Array) -> list[Estimate]:
        """One estimate for each thing, all measured on the same seeds, [thing, seed]."""
        count = values.shape[1]
        means = values.mean(1) if count else np.full(len(values), np.nan)
        if count < FEWEST:
            return [cls(mean, np.nan) for mean in means.tolist()]
        quantile = special.stdtrit(count - 1, (1 + CONFIDENCE) / 2)
        widths = quantile * values.std(1, ddof=1) / count**0.5
        return list(map(cls, means.tolist(), widths.tolist()))


# -- the classes of rows, by what each row was given -----------------------------------------------

ZERO_SHOT = "zero-shot"
PRETRAINED = "pretrained"
"""What the classes of rows of pretrained models begin with."""


def zero_shot_first(kind: str) -> tuple[bool, str]:
    """The order of classes on every board, to sort by."""
    return kind != ZERO_SHOT, kind


def is_pretrained(kind: str) -> bool:
    return kind.startswith(PRETRAINED)


# -- runs as they are ------------------------------------------------------------------------------


def profiles(runs: pd.DataFrame, thresholds: npt.ArrayLike) -> pd.DataFrame:
    """The share of runs with an area above each threshold: a performance profile, by row.

        F(tau) = mean over tasks of (share of seeds with area > tau)

    Tasks weigh the same whatever their number of seeds. A profile that lies above another
    everywhere is of a better row by any mean, median or quantile. Returns [threshold, row].

    Source: Agarwal et al. 2021, arXiv 2108.13264, section 4.2.
    """
    taus = np.asarray(thresholds, float)
    found = {}
    for row, part in checked(runs).dropna(subset="area").groupby("row", sort=True):
        shares = [
            (seeds.to_numpy()[:, None] > taus).mean(0) for _, seeds in part.groupby("task")["area"]
        ]
        found[row] = np.mean(shares, axis=0)
    return pd.DataFrame(found, index=pd.Index(taus, name="threshold"))


def p_improvement(runs: pd.DataFrame, a: str, b: str) -> float:
    """The chance that a run of `a` is above a run of `b` on the same task, a tie counting half.

        P(a > b) = mean over tasks of U / (n m),  U of Mann and Whitney

    The mean is over the tasks that both have; NaN if there are none. It says how often, not by
    how much. Source: Agarwal et al. 2021, arXiv 2108.13264, section 4.3.
    """
    each = []
    for _, part in checked(runs).dropna(subset="area").groupby("task"):
        one, other = (part.loc[part["row"] == row, "area"].to_numpy(float) for row in (a, b))
        if len(one) and len(other):
            difference = one[:, None] - other
            each.append(((difference > 0) + 0.5 * (difference == 0)).mean())
    return float(np.mean(each)) if each else np.nan
