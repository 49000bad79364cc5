"""How far the order of a board depends on which tasks were chosen."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence

import numpy as np
import numpy.typing as npt
import pandas as pd

from posbench.base.errors import PosbenchError
from posbench.statistics.aggregates import means_and_groups, means_of_groups

CHUNK = 100_000
"""Choices of tasks that are averaged at once."""
MOST = 20_000_000
"""More choices than this are refused: they take minutes."""


def leave_one_out(runs: pd.DataFrame, by: str) -> pd.DataFrame:
    """Ranks of the overall number without one task, or one group, of all: [row, left out].

    The mean is that of the board: a group that loses a task is what its other tasks say. Rows
    that tie share the better rank. NaN for a row that lacks one of the tasks that remain.

    Args:
        runs: see `posbench.statistics.aggregates`
        by: "task" or "group"
    """
    if by not in ("task", "group"):
        raise PosbenchError(f"by={by!r}: leave out a 'task' or a 'group'")
    names = sorted(runs[by].unique())
    if len(names) < 2:
        raise PosbenchError(f"there is a single {by}: without it nothing is left to rank by")
    means, groups = means_and_groups(runs)
    left = {
        name: means_of_groups(means, _without(groups, by, name)).mean(axis=1, skipna=False)
        for name in names
    }
    ranks = pd.DataFrame(left).round(9).rank(ascending=False, method="min")
    return ranks.rename_axis(index="row")


def _without(groups: Mapping[str, Sequence[str]], by: str, name: str) -> dict[str, list[str]]:
    """The groups without one of them, or without a task, and with it a group that had no other."""
    left = {
        group: [task for task in tasks if name != (group if by == "group" else task)]
        for group, tasks in groups.items()
    }
    return {group: tasks for group, tasks in left.items() if tasks}


def share_of_choices(means: pd.DataFrame, size: int) -> pd.Series:
    """In what share of all choices of `size` tasks each row has the highest mean over them.

    There are C(n, size) choices of n tasks. Rows that tie share a choice, so the shares add up
    to 1. Rows that lack a task are never first, and have NaN.

    Args:
        means: [row, task], see `posbench.statistics.aggregates.task_means`
        size: how many tasks are chosen
    """
    count = len(means.columns)
    if not 1 <= size <= count:
        raise PosbenchError(f"size={size}: choose between 1 and {count} tasks")
    return _share(means, itertools.combinations(range(count), size), math.comb(count, size))


def share_of_balanced_choices(
    means: pd.DataFrame, groups: Mapping[str, Sequence[str]], size: int
) -> pd.Series:
    """In what share of all choices of `size` tasks from each group each row has the highest mean.

    Groups weigh the same, for each has as many tasks. With groups of n_g tasks there are
    prod C(n_g, size) choices.

    Args:
        means: [row, task], see `posbench.statistics.aggregates.task_means`
        groups: the tasks of each group, see `posbench.statistics.aggregates.means_and_groups`
        size: how many tasks are chosen from each group
    """
    smallest = min(map(len, groups.values()))
    if not 1 <= size <= smallest:
        raise PosbenchError(f"size={size}: choose between 1 and {smallest} tasks of each group")
    places = {task: place for place, task in enumerate(means.columns)}
    each = [
        list(itertools.combinations([places[task] for task in tasks], size))
        for tasks in groups.values()
    ]
    chosen = (tuple(itertools.chain(*parts)) for parts in itertools.product(*each))
    return _share(means, chosen, math.prod(map(len, each)))


def balanced_choices(runs: pd.DataFrame) -> pd.DataFrame:
    """`share_of_balanced_choices` of runs: [row, tasks a group], for every possible number."""
    means, groups = means_and_groups(runs)
    sizes = range(1, 1 + min(map(len, groups.values())))
    return pd.DataFrame({size: share_of_balanced_choices(means, groups, size) for size in sizes})


def _share(means: pd.DataFrame, choices: Iterable[tuple[int, ...]], count: int) -> pd.Series:
    if count > MOST:
        raise PosbenchError(f"{count} choices of tasks are too many: choose fewer tasks")
    complete = means.dropna()
    if complete.empty:
        raise PosbenchError("no row has all tasks: give the means of fewer tasks")
    values, first = complete.to_numpy(float), np.zeros(len(complete))
    for chunk in _chunks(choices):
        sums = np.zeros((len(chunk), len(values)))
        for places in chunk.T:
            sums += values[:, places].T
        sums = np.round(sums, 9)  # so that what ties in exact arithmetic ties here
        best = sums == sums.max(1, keepdims=True)
        first += (best / best.sum(1, keepdims=True)).sum(0)
    return pd.Series(first / count, index=complete.index).reindex(means.index)


def _chunks(choices: Iterable[tuple[int, ...]]) -> Iterator[npt.NDArray[np.int64]]:
    waiting = iter(choices)
    while chunk := list(itertools.islice(waiting, CHUNK)):
        yield np.array(chunk)
