"""Means over the tasks of a protocol, of the seeds that were run on all of them."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from posbench.boards.summaries import Summary, known_mean
from posbench.showing.table import NOTHING, with_interval
from posbench.statistics.aggregates import Array, Estimate


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
        return float(np.mean([known_mean(part.scores[at][part.solved[at]]) for part, at in pairs]))

    @property
    def shown_solved(self) -> str:
        """Solved trainings / trainings, over those in the mean, or over all if there is no mean."""
        solved = tested = 0
        for part, at in zip(self.parts, self._places, strict=True):
            kept = at if self.seeds else list(range(len(part.seeds)))
            solved += int(part.solved[kept].sum())
            tested += int(part.tested_at_1x[kept].sum())
        return f"{solved}/{tested}" if tested else NOTHING

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
