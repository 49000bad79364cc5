"""Means over seeds, by method and task, computed once for every format of the board."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from posbench.boards.labels import METHOD
from posbench.showing.table import NOTHING
from posbench.statistics.aggregates import Array, Estimate, is_pretrained, zero_shot_first

THRESHOLD, HALF = 0.95, 0.5
"""The mean scores that a length needs to count towards the `effective` and the `half` length."""
LENGTH = ["test_length", "total_length", "multiple", "aggregated", "chance"]
"""The columns of the long table that a length is made of, in its order."""


@dataclass(frozen=True)
class Length:
    """A test length of a task."""

    test_length: int
    total_length: int
    multiple: float
    aggregated: bool
    chance: float

    @property
    def heading(self) -> str:
        return f"{self.multiple:g}x" if self.aggregated else f"({self.multiple:g}x)"

    @property
    def in_mean(self) -> bool:
        return self.aggregated and self.multiple > 1


@dataclass(frozen=True)
class Cell:
    """The scores of one method on one task at one length, over its seeds."""

    accuracy: Estimate
    lowest: float
    highest: float
    token_accuracy: float
    within: float  # token accuracy where the source is no farther than in training; or NaN
    beyond: float  # token accuracy where it is farther; NaN without such tokens
    loss: float
    untrained: float  # share of the encoding's parameters used here that training did not reach


MEASURES = [
    "score",
    "token_accuracy_teacher_forced",
    "token_accuracy_within_trained_distance",
    "token_accuracy_beyond_trained_distance",
    "loss",
    "untrained",
]
"""The columns of the long table that a cell is made of, in its order."""


def _cells(
    measured: Array, there: npt.NDArray[np.bool_], lengths: Sequence[Length]
) -> dict[float, Cell]:
    """By multiple, of what was measured, [measure, length, seed], where seeds were tested.

    Beyond the mean, seeds that got there are no fair sample of all: scores are NaN unless every
    seed did.
    """
    scores, others = measured[0], known_means(measured[1:]).T.tolist()
    estimates, lowest, highest = Estimate.each(scores), scores.min(1), scores.max(1)
    found = {}
    for place, n in enumerate(lengths):
        told = estimates[place], float(lowest[place]), float(highest[place])
        if n.aggregated and not there[place].all():
            tested = scores[place, there[place]]
            bounds = (float(tested.min()), float(tested.max())) if len(tested) else (np.nan, np.nan)
            told = Estimate.over(tested), *bounds
        found[n.multiple] = Cell(*told, *others[place])
    return found


def known_means(values: Array) -> Array:
    """Means over the last axis of what is not NaN; NaN where nothing is known."""
    known = ~np.isnan(values)
    with np.errstate(invalid="ignore"):
        return np.asarray(np.where(known, values, 0.0).sum(-1) / known.sum(-1))


def known_mean(values: Array) -> float:
    return float(known_means(values))


def effective(scores: Mapping[float, float], threshold: float) -> float:
    """The largest multiple up to which every score is at least the threshold.

    NaN if the shortest length misses it.
    """
    found = np.nan
    for multiple in sorted(scores):
        if not scores[multiple] >= threshold:  # also if it is NaN
            break
        found = multiple
    return found


def effective_50(scores: Mapping[float, float], lengths: Sequence[Length]) -> float:
    """`effective` at HALF; NaN if guessing gets as far."""
    return np.nan if any(n.chance >= HALF for n in lengths) else effective(scores, HALF)


def lengths_of(runs: pd.DataFrame) -> list[Length]:
    """The test lengths of a task, in ascending order."""
    different = runs.drop_duplicates("test_length").sort_values("test_length")
    return [Length(*row) for row in different[LENGTH].itertuples(index=False, name=None)]


def mean_of(values: Sequence[float] | Array) -> float:
    return float(np.mean(values)) if len(values) else np.nan


SAID = ("task_name", "row", "method_class", "parameters")
OF_SEED = (
    "area",
    "solved",
    "solved_step",
    "training_hash",
    "train_cpu_seconds",
    "train_gpu_seconds",
)
SUMMARISED = list(dict.fromkeys([*METHOD, "seed", "multiple", *MEASURES, *SAID, *OF_SEED]))
"""The columns of the long table that a summary is made of."""


@dataclass(frozen=True)
class Summary:
    """One method on one task, over its seeds: everything that a table says about it."""

    task: str
    method: str  # as it is shown
    label: str  # as records have it: with the hash, what tells it from the others
    method_hash: str
    method_class: str
    cells: dict[float, Cell]  # by multiple
    seeds: list[int]
    accuracy: Array  # [length, seed], in the order of the cells
    scores: Array  # by seed: the mean accuracy beyond the training length
    mean: Estimate  # of the scores
    areas: Array  # by seed: see `posbench.statistics.measures.area`
    effective_50: float  # see the function of that name
    solved: npt.NDArray[np.bool_]  # by seed
    trainings: list[str]  # by seed: the hash of all that the weights depend on
    solved_step: float
    parameters: int
    cpu_seconds: Array  # by seed
    gpu_seconds: Array  # by seed

    @classmethod
    def of(cls, runs: Mapping[str, npt.NDArray[Any]], lengths: Sequence[Length]) -> Summary:
        """Summarise the rows of one method on one task, `runs` by column, at `lengths`."""
        seeds, places, whose = np.unique(runs["seed"], return_index=True, return_inverse=True)
        column = {n.multiple: place for place, n in enumerate(lengths)}
        at = np.array([column[multiple] for multiple in runs["multiple"].tolist()], dtype=int)
        measured = np.full((len(MEASURES), len(lengths), len(seeds)), np.nan)
        measured[:, at, whose] = [runs[name] for name in MEASURES]
        there = np.zeros((len(lengths), len(seeds)), dtype=bool)
        there[at, whose] = True
        # A record that lacks a length gets no mean, not a mean over other lengths.
        meant = measured[0, [n.in_mean for n in lengths]]
        scores = meant.mean(axis=0) if meant.size else np.full(len(seeds), np.nan)
        cells = _cells(measured, there, lengths)
        by_seed = {name: runs[name][places] for name in OF_SEED}
        return cls(
            task=str(runs["task_name"][0]),
            method=str(runs["row"][0]),
            label=str(runs["method"][0]),
            method_hash=str(runs["method_hash"][0]),
            method_class=str(runs["method_class"][0]),
            cells=cells,
            seeds=seeds.tolist(),
            accuracy=measured[0],
            scores=scores,
            mean=Estimate.over(scores),
            areas=by_seed["area"],
            effective_50=effective_50(
                {multiple: cell.accuracy.mean for multiple, cell in cells.items()}, lengths
            ),
            solved=by_seed["solved"].astype(bool),
            trainings=by_seed["training_hash"].tolist(),
            solved_step=known_mean(by_seed["solved_step"]),
            parameters=int(runs["parameters"][0]),
            cpu_seconds=by_seed["train_cpu_seconds"],
            gpu_seconds=by_seed["train_gpu_seconds"],
        )

    def at(self, seeds: Sequence[int]) -> list[int]:
        """The places of some of its seeds."""
        places = {seed: place for place, seed in enumerate(self.seeds)}
        return [places[seed] for seed in seeds]

    @property
    def area(self) -> Estimate:
        return Estimate.over(self.areas)

    @property
    def num_solved(self) -> int:
        return int(self.solved.sum())

    @property
    def mean_of_solved(self) -> float:
        return mean_of(self.scores[self.solved])

    @property
    def tested_at_1x(self) -> npt.NDArray[np.bool_]:
        """Which seeds were: a pretrained model may have been tested at other lengths alone."""
        if 1.0 not in self.cells:
            return np.zeros(len(self.seeds), dtype=bool)
        return ~np.isnan(self.accuracy[list(self.cells).index(1.0)])

    @property
    def shown_solved(self) -> str:
        tested = int(self.tested_at_1x.sum())
        return f"{self.num_solved}/{tested}" if tested else NOTHING

    @property
    def effective_95(self) -> float:
        """`effective` of the mean scores at THRESHOLD; may be NaN."""
        return effective(
            {multiple: cell.accuracy.mean for multiple, cell in self.cells.items()}, THRESHOLD
        )

    @property
    def learned(self) -> bool:
        """Whether some seed was solved at some step of its training.

        What an extension has made of it since does not matter. A pretrained model was not trained
        on the task.
        """
        pretrained = is_pretrained(self.method_class)
        return self.num_solved > 0 or pretrained or not np.isnan(self.solved_step)

    @property
    def mark(self) -> str:
        if self.num_solved or not self.tested_at_1x.any():
            return ""
        return "fails at 1x" if self.learned else "did not learn"


@dataclass(frozen=True)
class TaskBoard:
    """All methods on one task under one protocol, best first."""

    protocol: str
    task: str
    changed: bool  # whether settings of the task differ from its own
    labels: dict[str, str]  # of protocol and task, as records have them
    hashes: dict[str, Any]  # of the same, and the task's version
    train_length: int
    train_positions: int
    measure: str  # what the score measures
    lengths: list[Length]
    summaries: list[Summary]

    @classmethod
    def of(cls, runs: pd.DataFrame) -> TaskBoard:
        """Build the board from `runs`, the rows of one task under one protocol."""
        lengths, first = lengths_of(runs), runs.iloc[0]
        return cls(
            protocol=str(first["protocol_name"]),
            task=str(first["task_name"]),
            changed=bool(first["task_changed"]),
            labels={name: str(first[name]) for name in ("protocol", "task")},
            hashes={name: first[name] for name in ("protocol_hash", "task_hash", "task_version")},
            train_length=int(first["train_length"]),
            train_positions=int(first["train_positions"]),
            measure=str(first["measure"]),
            lengths=lengths,
            summaries=best_first(Summary.of(part, lengths) for part in _by_method(runs)),
        )


def _by_method(runs: pd.DataFrame) -> Iterator[dict[str, npt.NDArray[Any]]]:
    """The columns of each method, in the order of their names."""
    # Plain arrays, cut at the ends of methods: a data frame for each takes ten times as long.
    ordered = runs.iloc[np.argsort(runs.groupby(METHOD).ngroup().to_numpy(), kind="stable")]
    starts = np.flatnonzero(~ordered.duplicated(METHOD).to_numpy())
    columns = {name: ordered[name].to_numpy() for name in SUMMARISED}
    for start, end in itertools.pairwise([*starts, len(ordered)]):
        yield {name: column[start:end] for name, column in columns.items()}


def best_first(rows: Iterable[Any]) -> list[Any]:
    """Rows sorted for a board: zero-shot methods first, then class by class.

    Within a class they go by mean, with rows without a mean last and ties by name.
    """

    def order(row: Any) -> tuple[bool, str, bool, float, str, str]:
        mean = row.mean.mean
        return (
            *zero_shot_first(row.method_class),
            np.isnan(mean),
            -np.nan_to_num(mean),
            row.method,
            row.method_hash,
        )

    return sorted(rows, key=order)
