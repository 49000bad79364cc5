"""What runs will cost, by what earlier records took."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np
import pandas as pd

from posbench.records import files
from posbench.records.record import Record
from posbench.running.asked import Asked
from posbench.sweeping.watching import duration

COLUMNS = ("protocol", "task", "encoding", "step", "work", "test")


@dataclass(frozen=True)
class Cost:
    """CPU seconds of runs, each with its share in a training counted where it comes first."""

    runs: tuple[float, ...]  # NaN where no record tells
    training: float

    @property
    def total(self) -> float:
        return float(np.nansum(self.runs))

    @property
    def unknown(self) -> int:
        return int(np.isnan(self.runs).sum())

    def __str__(self) -> str:
        if self.unknown == len(self.runs):
            return "No record tells what this costs."
        without = f"; without {self.unknown:,} runs of which no record tells" * bool(self.unknown)
        return (
            f"About {duration(self.total)} of CPU time: {duration(self.training)} of training, "
            f"{duration(self.total - self.training)} of tests{without}."
        )


@dataclass(frozen=True)
class Costs:
    """CPU seconds of a training step and of a test, by what records tell."""

    steps: pd.Series  # of a step, by protocol, task and encoding
    rates: pd.Series  # of a unit of work, by task and encoding; see `multiplications`
    tests: pd.Series  # of a run's tests, by task

    @classmethod
    def of(cls, folders: Iterable[Path]) -> Self:
        """By the records of results folders; those that cannot be read tell nothing."""
        known = [
            record
            for folder in dict.fromkeys(folders)
            if folder.is_dir()
            for record in files.read_folder(folder).records
        ]
        return cls.by(known)

    @classmethod
    def by(cls, records: Iterable[Record]) -> Self:
        told = pd.DataFrame(
            [
                (
                    record.protocol.hash,
                    record.task.name,
                    record.method.base,
                    record.training.cpu_seconds / record.training.steps,
                    multiplications(record.config, record.training.train_positions),
                    record.evaluated.evaluation_cpu_seconds,
                )
                for record in records
                if record.training.steps and not record.diverged
            ],
            columns=list(COLUMNS),
        )
        return cls(
            told.groupby(["protocol", "task", "encoding"])["step"].median(),
            (told["step"] / told["work"]).groupby([told["task"], told["encoding"]]).median(),
            told.groupby("task")["test"].median(),
        )

    def tell(self, tasks: Iterable[str]) -> bool:
        """Whether there is a record of each of these tasks."""
        return set(tasks) <= set(self.tests.index)

    def beside(self, others: Self) -> Self:
        """With those of another machine where none of these tells, at its speed beside this one:
        the median ratio where both do.
        """
        ratio = _ratio(self.steps, others.steps)
        return type(self)(
            self.steps.combine_first(ratio * others.steps),
            self.rates.combine_first(ratio * others.rates),
            self.tests.combine_first(ratio * others.tests),
        )

    def of_runs(self, runs: Sequence[tuple[Asked, str]], made: Iterable[str] = ()) -> Cost:
        """The cost of runs, each with a name for its training; those in `made` are there already.

        Where an encoding has no record on a task, its usual ratio to the mean of a task stands in,
        and where it has none at all, the mean of the task. Where a protocol lacks a task, records
        of all others stand in, at the ratio of what both have. Where it has no record at all, a
        multiplication costs what it does under the others.
        """
        any_test = float(self.tests.median()) if len(self.tests) else np.nan
        found: list[float] = []
        training = 0.0
        seen = set(made)
        for asked, name in runs:
            step = self._step(asked)
            trained = 0.0 if name in seen else step * _steps(asked)
            seen.add(name)
            training += 0.0 if np.isnan(trained) else trained
            found.append(trained + float(self.tests.get(asked.identity.task.name, any_test)))
        return Cost(tuple(found), training)

    def _step(self, asked: Asked) -> float:
        protocol, task = asked.identity.protocol.hash, asked.identity.task
        base = asked.identity.method.base
        if protocol in self.steps.index.get_level_values("protocol"):
            return self._under(protocol).of(task.name, base)
        key = protocol, task.hash
        if key not in self._works:
            from posbench.running.setup import Setup  # and with it torch

            setup = Setup.of(asked.composed.cfg())
            self._works[key] = multiplications(setup.nodes, setup.train_positions)
        return self._works[key] * _Steps(self.rates).of(task.name, base)

    @functools.cached_property
    def _works(self) -> dict[tuple[str, str], float]:
        return {}

    @functools.cached_property
    def _known(self) -> dict[str, _Steps]:
        return {}

    def _under(self, protocol: str) -> _Steps:
        if protocol not in self._known:
            usual = self.steps.groupby(["task", "encoding"]).median()
            own = self.steps.loc[protocol]
            self._known[protocol] = _Steps(own.combine_first(_ratio(own, usual) * usual))
        return self._known[protocol]


def multiplications(config: Mapping[str, Any], positions: int) -> float:
    """Multiplications of a training step, up to a factor that is the same for all of them.

        batch * T * layers * (4 D W + 2 r D^2 + 2 T W)

    T tokens of a sequence on average, width D, W = heads times their width, r the MLP's ratio:
    projections, MLP, scores. Sequences that are not packed are drawn between two lengths, so they
    have less than `positions`, the tokens of the longest. NaN where the settings are not known.
    """
    if not {"model", "training"} <= config.keys():
        return np.nan
    model, training = config["model"], config["training"]
    shortest = 1.0 if training["packing"] else training["min_length"] / training["max_length"]
    tokens = positions * (1 + shortest) / 2
    width, heads = model["width"], model["num_heads"] * model["head_width"]
    token = 4 * width * heads + 2 * model["mlp_ratio"] * width**2 + 2 * tokens * heads
    return float(training["batch_size"] * tokens * model["num_layers"] * token)


@dataclass(frozen=True)
class _Steps:
    """CPU seconds of a step under one protocol, or of a unit of work."""

    known: pd.Series  # by task and encoding

    @functools.cached_property
    def of_task(self) -> pd.Series:
        return self.known.groupby("task").mean()

    @functools.cached_property
    def of_encoding(self) -> pd.Series:
        usual = self.of_task.reindex(self.known.index.get_level_values("task")).to_numpy()
        return (self.known / usual).groupby("encoding").mean()

    def of(self, task: str, encoding: str) -> float:
        step = self.known.get((task, encoding))
        if step is None:
            step = self.of_task.get(task, np.nan) * self.of_encoding.get(encoding, 1.0)
        return float(step)


def _ratio(some: pd.Series, others: pd.Series) -> float:
    """The median of some in units of others; 1 where they have nothing in common."""
    ratio = float((some / others).median())
    return 1.0 if np.isnan(ratio) else ratio


def _steps(asked: Asked) -> int:
    """The steps of its training."""
    settings = asked.composed.content["training"]
    if not isinstance(settings["steps"], int):  # an interpolation, which takes a while to resolve
        settings = asked.composed.cfg().training
    return max(round(settings["steps"] * settings["steps_scale"]), 1)
