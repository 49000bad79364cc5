"""Means over seeds, by method and task, computed once for every format of the board."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from posbench.showing.numbers import NOTHING, with_interval
from posbench.statistics.aggregates import Array
from posbench.statistics.estimates import Estimate
from posbench.statistics.measures import of_runs

THRESHOLD, HALF = 0.95, 0.5
"""The mean scores that a length needs to count towards the `effective` and the `half` length."""

BOARD = ["protocol", "protocol_hash"]
TASK = ["task", "task_hash", "task_version"]
METHOD = ["method", "method_hash"]
RUN = [*BOARD, *TASK, *METHOD, "seed"]
LENGTH = ["test_length", "total_length", "multiple", "aggregated", "chance"]
"""Columns that keep apart what must not be mixed: hashes of contents, and the names people gave."""


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
    scores, others = measured[0], _known_means(measured[1:]).T.tolist()
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


def _known_means(values: Array) -> Array:
    """Means over the last axis of what is not NaN; NaN where nothing is known."""
    known = ~np.isnan(values)
    with np.errstate(invalid="ignore"):
        return np.asarray(np.where(known, values, 0.0).sum(-1) / known.sum(-1))


def _known_mean(values: Array) -> float:
    return float(_known_means(values))


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


def per_run(measured: Measured) -> pd.DataFrame:
    """One row per run: what it was, how far it got, what it cost."""
    rows = []
    ordered = measured.with_areas
    tested = {task: lengths_of(part) for task, part in ordered.groupby([*BOARD, *TASK])}
    # Plain arrays, cut at the ends of runs: a data frame for each of 10,000 runs takes too long.
    kinds = ordered.groupby(RUN, sort=True).ngroup().to_numpy()
    order = np.argsort(kinds, kind="stable")
    ordered, kinds = ordered.iloc[order], kinds[order]
    starts = np.flatnonzero(np.diff(kinds, prepend=-1))
    multiples, scores = (ordered[name].to_numpy() for name in ("multiple", "score"))
    for start, end, first in zip(
        starts,
        [*starts[1:], len(ordered)],
        ordered.iloc[starts].to_dict("records"),
        strict=True,
    ):
        lengths = tested[tuple(first[name] for name in [*BOARD, *TASK])]
        # A run that lacks a length has NaN there and so no mean, because a mean over other lengths
        # would not be comparable.
        by_multiple = dict.fromkeys((n.multiple for n in lengths), np.nan)
        by_multiple |= dict(zip(multiples[start:end], scores[start:end], strict=True))
        rows.append(
            {
                "protocol": first["protocol_name"],
                "task": first["task_name"],
                "method": first["method_name"],
                "class": first["method_class"],
                "seed": first["seed"],
                "in_distribution": by_multiple.get(1.0, np.nan),
                "learned": bool(first["solved"]) or not np.isnan(first["solved_step"]),
                "solved": first["solved"],
                "solved_step": first["solved_step"],
                "mean": mean_of([by_multiple[n.multiple] for n in lengths if n.in_mean]),
                "area": first["area"],
                "effective_95": effective(by_multiple, THRESHOLD),
                "effective_50": effective_50(by_multiple, lengths),
                "parameters": first["parameters"],
                "train_cpu_seconds": first["train_cpu_seconds"],
                "train_gpu_seconds": first["train_gpu_seconds"],
                "training_hash": first["training_hash"],
                "method_hash": first["method_hash"],
            }
        )
    return pd.DataFrame(rows)


SAID = ("task_name", "method_name", "method_hash", "method_class", "parameters")
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
    method: str
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
            method=str(runs["method_name"][0]),
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
            solved_step=_known_mean(by_seed["solved_step"]),
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
    def shown_solved(self) -> str:
        return f"{self.num_solved}/{len(self.solved)}"

    @property
    def effective_95(self) -> float:
        """`effective` of the mean scores at THRESHOLD; may be NaN."""
        return effective(
            {multiple: cell.accuracy.mean for multiple, cell in self.cells.items()}, THRESHOLD
        )

    @property
    def learned(self) -> bool:
        """Whether some seed was solved at some step of its training.

        What an extension has made of it since does not matter.
        """
        return self.num_solved > 0 or not np.isnan(self.solved_step)

    @property
    def mark(self) -> str:
        if self.num_solved:
            return ""
        return "fails at 1x" if self.learned else "did not learn"


@dataclass(frozen=True)
class Overall:
    """One method over the tasks of a protocol: a summary for every task it was run on."""

    parts: list[Summary]
    num_tasks: int

    @property
    def method(self) -> str:
        return self.parts[0].method

    @property
    def method_hash(self) -> str:
        return self.parts[0].method_hash

    @property
    def method_class(self) -> str:
        return self.parts[0].method_class

    @property
    def parameters(self) -> int:
        # Tasks differ in the size of their vocabulary, and so of their model.
        return max(part.parameters for part in self.parts)

    @functools.cached_property
    def seeds(self) -> list[int]:
        """The seeds that were run on every task; only they can be averaged over tasks."""
        if len(self.parts) < self.num_tasks:
            return []
        return sorted(set.intersection(*(set(part.seeds) for part in self.parts)))

    @functools.cached_property
    def _places(self) -> list[list[int]]:
        """By task: the places of `seeds`."""
        return [part.at(self.seeds) for part in self.parts]

    def _averaged(self, values: Callable[[Summary], Array]) -> Array:
        """The mean over tasks, by seed."""
        each = [values(part)[at] for part, at in zip(self.parts, self._places, strict=True)]
        return np.asarray(np.mean(each, axis=0), float)

    @functools.cached_property
    def mean(self) -> Estimate:
        return Estimate.over(self._averaged(lambda part: part.scores))

    @property
    def area(self) -> Estimate:
        return Estimate.over(self._averaged(lambda part: part.areas))

    @property
    def cpu_seconds(self) -> Array:
        return self._averaged(lambda part: part.cpu_seconds)

    @property
    def gpu_seconds(self) -> Array:
        return self._averaged(lambda part: part.gpu_seconds)

    def accuracy(self, multiple: float) -> float:
        if not self.seeds:
            return np.nan
        return float(np.mean([each[multiple] for each in self._accuracies]))

    @functools.cached_property
    def _accuracies(self) -> list[dict[float, Array]]:
        """By task: multiple -> the scores of `seeds`."""
        return [
            dict(zip(part.cells, part.accuracy[:, at], strict=True))
            for part, at in zip(self.parts, self._places, strict=True)
        ]

    @property
    def mean_of_solved(self) -> float:
        """The mean over tasks of what the solved seeds reach; NaN if a task has none."""
        if not self.seeds:
            return np.nan
        pairs = zip(self.parts, self._places, strict=True)
        return float(np.mean([_known_mean(part.scores[at][part.solved[at]]) for part, at in pairs]))

    @property
    def shown_solved(self) -> str:
        """Solved trainings / trainings, over those in the mean, or over all if there is no mean."""
        pairs = zip(self.parts, self._places, strict=True)
        each = [part.solved[at] if self.seeds else part.solved for part, at in pairs]
        return f"{sum(int(solved.sum()) for solved in each)}/{sum(map(len, each))}"

    @property
    def shown_mean(self) -> str:
        if self.seeds:
            return with_interval(self.mean)
        if len(self.parts) < self.num_tasks:
            return f"{NOTHING} ({len(self.parts)} of {self.num_tasks} tasks)"
        return f"{NOTHING} (no seed on all tasks)"

    @property
    def mark(self) -> str:
        said = []
        for mark in ("did not learn", "fails at 1x"):
            failed = [part.task for part in self.parts if part.mark == mark]
            if failed and len(failed) == len(self.parts):
                return mark
            if failed:
                tasks = " and ".join(failed) if len(failed) < 3 else f"{len(failed)} tasks"
                said.append(f"{mark} {tasks}" if mark == "did not learn" else f"{mark} on {tasks}")
        return ", ".join(said)


@dataclass(frozen=True)
class TaskBoard:
    """All methods on one task under one protocol, best first."""

    protocol: str
    task: str
    changed: bool  # whether settings of the task differ from its own
    hashes: dict[str, Any]  # of protocol and task, and the task's version
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


@dataclass(frozen=True)
class Measured:
    """Every run once: what was measured at each length, and a line a run."""

    lengths: pd.DataFrame  # the long table, with names as they are shown
    runs: pd.DataFrame  # see `posbench.statistics.measures.of_runs`; the same names

    @classmethod
    def of(cls, table: pd.DataFrame) -> Measured:
        known = named(table)
        return cls(known, of_runs(as_shown(known)))

    @functools.cached_property
    def with_areas(self) -> pd.DataFrame:
        """The long table with the area of its run in each line."""
        areas = self.runs.set_index(["protocol", "task", "row", "seed"])["area"]
        lines = self.lengths[["protocol_name", "task_name", "method_name", "seed"]]
        found = areas.reindex(pd.MultiIndex.from_frame(lines))
        return self.lengths.assign(area=found.to_numpy())

    @functools.cached_property
    def boards(self) -> list[list[TaskBoard]]:
        """One list per protocol, with one board per task.

        Runs that differ in label, hash or version are never averaged.
        """
        ordered = self.with_areas.sort_values(["seed", "test_length"], kind="stable")
        return [
            [TaskBoard.of(runs) for _, runs in protocol.groupby(TASK)]
            for _, protocol in ordered.groupby(BOARD)
        ]


def as_shown(known: pd.DataFrame) -> pd.DataFrame:
    """The table with the names that are shown in place of the labels."""
    return known.assign(**{name: known[f"{name}_name"] for name in ("protocol", "task", "method")})


def named(table: pd.DataFrame) -> pd.DataFrame:
    """The table with the names to show.

    These are the labels, with a hash or version added if a label is not unique.
    """
    versions = _suffixes(table, [*BOARD, "task"], "task_version", ", version {}")
    return table.assign(
        protocol_name=table["protocol"]
        + _suffixes(table, ["protocol"], "protocol_hash", " [{:.8}]"),
        task_name=table["task"]
        + versions
        + _suffixes(table, [*BOARD, "task"], "task_hash", " [{:.8}]"),
        method_name=table["method"]
        + _suffixes(table, [*BOARD, "method"], "method_hash", " [{:.8}]"),
    )


def _suffixes(table: pd.DataFrame, label: list[str], column: str, form: str) -> pd.Series | str:
    """`form` with the value of `column` if its label has several values, "" elsewhere."""
    several = table.groupby(label)[column].transform("nunique") > 1
    if not several.any():
        return ""
    return table[column].map(form.format).where(several, "")


def best_first(rows: Iterable[Any]) -> list[Any]:
    """Rows sorted for a board: zero-shot methods first, then class by class.

    Within a class they go by mean, with rows without a mean last and ties by name.
    """

    def order(row: Any) -> tuple[bool, str, bool, float, str, str]:
        mean, kind = row.mean.mean, row.method_class
        return (
            kind != "zero-shot",
            kind,
            np.isnan(mean),
            -np.nan_to_num(mean),
            row.method,
            row.method_hash,
        )

    return sorted(rows, key=order)
