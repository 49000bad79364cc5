"""Tasks and protocols compared: what a task tells apart, and whether two protocols put methods into
one order.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import numpy as np
import pandas as pd

from posbench.leaderboard.summaries import (
    BOARD,
    METHOD,
    TASK,
    Summary,
    TaskBoard,
    named,
    without_repeats,
)

NEARLY_ALL, SECONDS, SEPARATES = 0.85, 90.0, 0.15
"""What makes a task fit: the share of trainings that solve it, CPU seconds, the spread at two
lengths.
"""


@dataclass(frozen=True)
class Discrimination:
    """What a task tells apart, over the trainings that were tested without an extension: is it fit
    for a board?
    """

    task: str
    num_solved: int
    num_trainings: int
    solved_step: float  # median over those that got there
    cpu_seconds: float  # mean
    spread: dict[
        float, float
    ]  # by multiple: the standard deviation between encodings, of the trainings that solved it
    ceiling: dict[float, float]  # by multiple: of the model trained there

    @classmethod
    def of(cls, runs: pd.DataFrame) -> Discrimination | None:
        """`runs`: the rows of one task under one protocol. None where no two encodings were
        tested.
        """
        plain = runs[runs["plain"] & (runs["method_class"] == "zero-shot")]
        if plain["method_hash"].nunique() < 2:
            return None
        trainings = plain.drop_duplicates([*METHOD, "seed"])
        lengths = sorted(set(plain.loc[plain["aggregated"] & (plain["multiple"] > 1), "multiple"]))
        # A training that did not learn says nothing about extrapolation, and alone would make a
        # spread.
        means = plain[plain["solved"]].groupby(["multiple", *METHOD])["score"].mean()
        between = means.groupby("multiple").std(ddof=0)
        ceiling = runs[runs["method_class"] == "ceiling"].groupby("multiple")["score"].mean()
        return cls(
            task=str(plain.iloc[0]["task_name"]),
            num_solved=int(trainings["solved"].sum()),
            num_trainings=len(trainings),
            solved_step=float(trainings["solved_step"].median()),
            cpu_seconds=float(trainings["train_cpu_seconds"].mean()),
            spread={multiple: float(between.get(multiple, np.nan)) for multiple in lengths},
            ceiling={multiple: float(ceiling.get(multiple, np.nan)) for multiple in lengths},
        )

    @property
    def fit(self) -> bool:
        """Solved by nearly all, in the time of a coffee, and telling encodings apart at two lengths
        at least.
        """
        separates = sum(spread >= SEPARATES for spread in self.spread.values()) >= 2
        return (
            self.num_solved >= NEARLY_ALL * self.num_trainings
            and self.cpu_seconds <= SECONDS
            and separates
        )


def discriminations(table: pd.DataFrame) -> list[list[Discrimination]]:
    """One list a protocol, in the order of `boards`; tasks whose settings were changed are left
    out.
    """
    ordered = named(without_repeats(table))
    found = []
    for _, protocol in ordered.groupby(BOARD):
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
    correlation: float  # Spearman's, of the means over seeds
    # the same of two seeds under one protocol, a mean over all such pairs; NaN where none are
    between_seeds: float
    first: tuple[str, str]  # the best method under each

    @classmethod
    def of(cls, one: TaskBoard, other: TaskBoard) -> Agreement | None:
        """Over what both have; None where that is less than three methods."""
        ranked = [_ranked(board) for board in (one, other)]
        scores = [
            pd.DataFrame({row.method: row.scores for row in rows}) for rows in ranked
        ]  # [seed, method]
        weights = [pd.DataFrame({row.method: row.trainings for row in rows}) for rows in ranked]
        common = sorted(set(scores[0].columns) & set(scores[1].columns))
        complete = [
            each[common].dropna() for each in scores
        ]  # seeds that every method was run with
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
    """Of each pair of protocols and each task of both, where three zero-shot methods or more are in
    common.
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
        if row.method_class == "zero-shot" and row.scores.notna().any()
    ]


def rank_correlation(one: pd.Series, other: pd.Series) -> float:
    """Spearman's, with average ranks for ties; NaN where one side is all ties."""
    if one.nunique() < 2 or other.nunique() < 2:
        return np.nan
    return float(one.corr(other, method="spearman"))
