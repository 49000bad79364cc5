"""Comparisons of tasks and of protocols.

Which methods does a task tell apart, and do two protocols put methods into the same order?
"""

from __future__ import annotations

import itertools
import operator
from dataclasses import dataclass

import numpy as np
import pandas as pd

from posbench.boards.labels import BOARD, METHOD, TASK
from posbench.boards.measured import Measured
from posbench.boards.summaries import Summary, TaskBoard
from posbench.statistics.aggregates import ZERO_SHOT
from posbench.statistics.correlation import rank_correlation


@dataclass(frozen=True)
class Discrimination:
    """How well a task tells methods apart: information, by which no task is chosen.

    It is measured on the trainings that were tested without an extension.
    """

    task: str
    num_solved: int
    num_trainings: int
    solved_step: float  # median over the trainings that got there
    cpu_seconds: float  # mean
    num_encodings: int  # that some training of has solved it
    # by multiple: the standard deviation between these, over the trainings that solved the task;
    # NaN where there is one alone
    spread: dict[float, float]
    ceiling: dict[float, float]  # by multiple: the score of a model trained at that length

    @classmethod
    def of(cls, runs: pd.DataFrame) -> Discrimination | None:
        """Measure one task under one protocol, whose rows are `runs`.

        None if fewer than two encodings were tested.
        """
        plain = runs[runs["plain"] & (runs["method_class"] == ZERO_SHOT)]
        if plain["method_hash"].nunique() < 2:
            return None
        trainings = plain.drop_duplicates([*METHOD, "seed"])
        lengths = sorted(set(plain.loc[plain["aggregated"] & (plain["multiple"] > 1), "multiple"]))
        # A training that did not learn says nothing about extrapolation, but would by itself make a
        # spread.
        solved = plain[plain["solved"]]
        means = solved.groupby(["multiple", *METHOD])["score"].mean().groupby("multiple")
        between = means.std(ddof=0).where(means.size() > 1)
        ceiling = runs[runs["method_class"] == "ceiling"].groupby("multiple")["score"].mean()
        return cls(
            task=str(plain.iloc[0]["task_name"]),
            num_solved=int(trainings["solved"].sum()),
            num_trainings=len(trainings),
            solved_step=float(trainings["solved_step"].median()),
            cpu_seconds=float(trainings["train_cpu_seconds"].mean()),
            num_encodings=len(solved.drop_duplicates(METHOD)),
            spread={multiple: float(between.get(multiple, np.nan)) for multiple in lengths},
            ceiling={multiple: float(ceiling.get(multiple, np.nan)) for multiple in lengths},
        )


def discriminations(measured: Measured) -> list[list[Discrimination]]:
    """One list per protocol, in the order of `Measured.boards`.

    Tasks whose settings were changed are left out.
    """
    found = []
    for _, protocol in measured.lengths.groupby(BOARD):
        each = [
            Discrimination.of(runs)
            for _, runs in protocol.groupby(TASK)
            if not runs.iloc[0]["task_changed"]
        ]
        found.append([task for task in each if task is not None])
    return found


@dataclass(frozen=True)
class Agreement:
    """Whether two protocols put the same methods into the same order on a task."""

    task: str
    protocols: tuple[str, str]
    num_methods: int
    num_seeds: int
    num_shared: int  # runs whose weights are the same under both
    correlation: float  # Spearman's, between the means over seeds
    # the same between two seeds under one protocol, averaged over all such pairs; NaN without any
    between_seeds: float
    first: tuple[str, str]  # the best method under each

    @classmethod
    def of(cls, one: TaskBoard, other: TaskBoard) -> Agreement | None:
        """Compare two boards of one task over the methods and seeds that both have.

        None if they share fewer than three methods, or no seed.
        """
        ranked = [_ranked(board) for board in (one, other)]
        both = set.intersection(*({row.method for row in rows} for rows in ranked))
        if len(both) < 3:
            return None
        ranked = [[row for row in rows if row.method in both] for rows in ranked]
        # [seed, method]
        scores, weights = (
            [
                pd.DataFrame({row.method: pd.Series(values(row), row.seeds) for row in rows})
                for rows in ranked
            ]
            for values in (operator.attrgetter("scores"), operator.attrgetter("trainings"))
        )
        common = sorted(set(scores[0].columns) & set(scores[1].columns))
        # Keep the seeds that every method was run with.
        complete = [each[common].dropna() for each in scores]
        seeds = sorted(set(complete[0].index) & set(complete[1].index))
        if len(common) < 3 or not seeds:
            return None
        means = [each.loc[seeds].mean() for each in complete]
        noise = [
            rank_correlation(each.loc[a], each.loc[b])
            for each in complete
            for a, b in itertools.combinations(each.index, 2)
        ]
        return cls(
            task=one.task,
            protocols=(one.protocol, other.protocol),
            num_methods=len(common),
            num_seeds=len(seeds),
            num_shared=int(
                (weights[0].loc[seeds, common] == weights[1].loc[seeds, common]).sum(axis=None)
            ),
            correlation=rank_correlation(*means),
            between_seeds=float(pd.Series(noise, dtype=float).mean()),
            first=(str(means[0].idxmax()), str(means[1].idxmax())),
        )


def agreements(found: list[list[TaskBoard]]) -> list[Agreement]:
    """Compare every pair of protocols on every task that both have.

    Pairs with fewer than three zero-shot methods in common are left out.
    """
    by_task: dict[str, list[TaskBoard]] = {}
    for board in itertools.chain.from_iterable(found):
        by_task.setdefault(board.task, []).append(board)
    said: list[Agreement | None] = []
    for _, several in sorted(by_task.items()):
        said += [Agreement.of(one, other) for one, other in itertools.combinations(several, 2)]
    return [each for each in said if each is not None]


def _ranked(board: TaskBoard) -> list[Summary]:
    return [
        row
        for row in board.summaries
        if row.method_class == ZERO_SHOT and not np.isnan(row.scores).all()
    ]
