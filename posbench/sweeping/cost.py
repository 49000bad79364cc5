"""The cost of runs, estimated from what earlier records took."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np
import pandas as pd

from posbench.base.wording import agreeing, counted, duration
from posbench.core.settings import TrainingConfig
from posbench.records.record import Record
from posbench.running.run_spec import RunSpec

GPUS = ("gpu", "cuda", "mps")
"""Accelerators that are no CPU. A run with `auto` takes what its machine has."""
COLUMNS = ("protocol", "task", "encoding", "step", "work", "test")


@dataclass(frozen=True)
class Cost:
    """CPU seconds of runs, each with its share in a training counted where it comes first."""

    runs: tuple[float, ...]  # NaN where no record tells
    training: float  # shared and further
    on_gpu: int = 0  # how many are meant for a GPU, while records of CPUs alone tell
    open_ended: int = 0  # trainings whose steps nobody knows before, and are estimated

    @property
    def total(self) -> float:
        return float(np.nansum(self.runs))

    @property
    def unknown(self) -> int:
        return int(np.isnan(self.runs).sum())

    def __str__(self) -> str:
        return f"{self.said[0].upper()}{self.said[1:]}"

    @property
    def said(self) -> str:
        """The cost in words, as the second half of a sentence."""
        if self.unknown == len(self.runs):
            return "no record tells what this costs."
        unknown = f"; without {counted(self.unknown, 'run')} of which no record tells"
        without = unknown if self.unknown else ""
        some = f"{self.on_gpu:,} of the" if self.on_gpu < len(self.runs) else "The"
        gpu = f" {some} runs are meant for a GPU, and no record tells how long one takes."
        until = (
            f" {counted(self.open_ended, 'training')} {agreeing(self.open_ended, 'ends', 'end')} "
            "when the task is learned, so that the number of steps is an estimate."
        )
        return (
            f"about {duration(self.total)} of CPU time: {duration(self.training)} of training, "
            f"{duration(self.total - self.training)} of tests{without}."
            f"{until if self.open_ended else ''}{gpu if self.on_gpu else ''}"
        )


@dataclass(frozen=True)
class Costs:
    """CPU seconds of a training step and of a test, by what records tell."""

    steps: pd.Series  # of a step, by protocol, task and encoding
    rates: pd.Series  # of a unit of work, by task and encoding; see `multiplications`
    tests: pd.Series  # of a run's tests and of the search before them, by task
    by_gpu: frozenset[str] = frozenset()  # hashes of protocols with records of a GPU
    shares: pd.DataFrame = field(default_factory=lambda: _shares([]))  # see `_shares`
    _works: dict[tuple[str, str], float] = field(default_factory=dict, init=False, compare=False)
    _known: dict[str, _Steps] = field(default_factory=dict, init=False, compare=False)

    @classmethod
    def by(cls, records: Iterable[Record]) -> Self:
        found = [record for record in records if not record.diverged]
        told = pd.DataFrame(
            [
                (
                    record.protocol.hash,
                    record.task.name,
                    record.method.base,
                    record.training.cpu_seconds / record.training.steps,
                    relative_work(record.config, record.training.train_positions),
                    record.evaluated.evaluation_cpu_seconds
                    + (record.evaluated.preparation_cpu_seconds if record.search else 0.0),
                )
                for record in found
                if record.training.steps
            ],
            columns=list(COLUMNS),
        ).astype(dict.fromkeys(COLUMNS[3:], float))
        return cls(
            told.groupby(["protocol", "task", "encoding"])["step"].median(),
            (told["step"] / told["work"]).groupby([told["task"], told["encoding"]]).median(),
            told.groupby("task")["test"].median(),
            frozenset(each.protocol.hash for each in found if each.training.device != "cpu"),
            _shares(found),
        )

    def beside(self, others: Self) -> Self:
        """These costs, completed by those of another machine where no record here tells.

        The others are scaled by the speed of the two machines: the median ratio where both tell.
        """
        ratio = _ratio(self.steps, others.steps)
        return type(self)(
            self.steps.combine_first(ratio * others.steps),
            self.rates.combine_first(ratio * others.rates),
            self.tests.combine_first(ratio * others.tests),
            self.by_gpu | others.by_gpu,
            pd.concat([self.shares, others.shares]),
        )

    def of_runs(self, runs: Sequence[tuple[RunSpec, str]], made: Iterable[str] = ()) -> Cost:
        """The cost of runs, each with a name for its training; trainings in `made` cost nothing.

        Where an encoding has no record on a task, a step costs the product of what the task and
        the encoding cost; an encoding without any record costs the average. Where a protocol lacks
        a task, records of other protocols serve, scaled by the ratio on the tasks that both have.
        Where a protocol has no record, or no protocol has the task, a step costs as much per
        multiplication as under the other protocols.

        A training that ends when its task is learned makes as many steps as others did; see
        `_steps`. What is trained after it costs a share of that for each run; see `_further`.
        """
        any_test = float(self.tests.median()) if len(self.tests) else np.nan
        on_gpu = open_ended = 0
        found: list[float] = []
        training = 0.0
        seen = set(made)
        for spec, name in runs:
            step, steps = self._step(spec), self._steps(spec)
            trained = step * steps * ((name not in seen) + _further(spec))
            open_ended += name not in seen and _is_open_ended(spec.composed.content)
            seen.add(name)
            training += 0.0 if np.isnan(trained) else trained
            found.append(trained + float(self.tests.get(spec.identity.task.name, any_test)))
            meant = spec.composed.content["trainer"]["accelerator"] in GPUS
            on_gpu += meant and spec.identity.protocol.hash not in self.by_gpu
        return Cost(tuple(found), training, on_gpu, open_ended)

    def _steps(self, spec: RunSpec) -> float:
        """The steps of its training. Of one that ends when its task is learned, the share of the
        steps allowed that trainings under its protocol made: the median of those on the task with
        the encoding, or else on the task, or else of all. Where there are none, all the steps.
        """
        allowed = _allowed(spec)
        if not _is_open_ended(spec.composed.content):
            return allowed
        identity, known = spec.identity, self.shares
        known = known[known["protocol"] == identity.protocol.name]
        on_task = known[known["task"] == identity.task.name]
        alike = on_task[on_task["encoding"] == identity.method.base]
        told = next((each for each in (alike, on_task, known) if len(each)), None)
        return allowed if told is None else allowed * float(told["share"].median())

    def _step(self, spec: RunSpec) -> float:
        protocol, task = spec.identity.protocol.hash, spec.identity.task
        base = spec.identity.method.base
        if task.name in (under := self._under(protocol)).tasks:
            return under.of(task.name, base)
        key = protocol, task.hash
        if key not in self._works:
            from posbench.running.setup import Setup  # and with it torch

            try:
                setup = Setup.of(spec.composed.cfg())
                self._works[key] = relative_work(setup.nodes, setup.train_positions)
            except Exception:  # of a task of the user, say: the run will tell it
                self._works[key] = np.nan
        return self._works[key] * self._of_a_multiplication.of(task.name, base)

    @functools.cached_property
    def _of_a_multiplication(self) -> _Steps:
        return _Steps(self.rates)

    def _under(self, protocol: str) -> _Steps:
        """The steps that are known under a protocol; none where it has no record."""
        if protocol not in self._known:
            usual = self.steps.groupby(["task", "encoding"]).median()
            own = self.steps[self.steps.index.get_level_values("protocol") == protocol]
            own = own.droplevel("protocol")
            filled = own.combine_first(_ratio(own, usual) * usual) if len(own) else own
            self._known[protocol] = _Steps(filled)
        return self._known[protocol]


def relative_work(config: Mapping[str, Any], positions: int) -> float:
    """Multiplications of a training step, up to a factor that is the same for all of them.

        batch * T * layers * loops * (4 D W + 2 r D^2 + 2 T W)

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
    layers = model["num_layers"] * model.get("loops", 1)
    return float(training["batch_size"] * tokens * layers * token)


@dataclass(frozen=True)
class _Steps:
    """CPU seconds of a step under one protocol, or of a unit of work."""

    known: pd.Series  # by task and encoding
    _found: dict[tuple[str, str], float] = field(default_factory=dict, init=False, compare=False)

    @functools.cached_property
    def tasks(self) -> frozenset[str]:
        return frozenset(self.known.index.get_level_values("task"))

    @functools.cached_property
    def _factors(self) -> tuple[pd.Series, pd.Series]:
        """Logarithms of what tasks and encodings cost, whose sums come nearest to what is known.

        Both at once, by least squares: a board that is half done has some tasks of cheap encodings
        alone, and the mean of what is known there would take the others for cheap as well.
        """
        known = np.log(self.known[self.known > 0])
        tasks, encodings = (
            pd.get_dummies(known.index.get_level_values(name), dtype=float)
            for name in ("task", "encoding")
        )
        design = np.hstack([tasks.to_numpy(), encodings.to_numpy()])
        found = np.linalg.lstsq(design, known.to_numpy(), rcond=None)[0]
        parts = np.split(found, [tasks.shape[1]])
        return pd.Series(parts[0], tasks.columns), pd.Series(parts[1], encodings.columns)

    def of(self, task: str, encoding: str) -> float:
        """As it is known, or else the product of both; the mean replaces what is not known."""
        key = task, encoding
        if key not in self._found:
            step = self.known.get(key)
            if step is None:
                tasks, encodings = self._factors
                both = tasks.get(task, tasks.mean()) + encodings.get(encoding, encodings.mean())
                step = np.exp(both)
            self._found[key] = float(step)
        return self._found[key]


def _ratio(some: pd.Series, others: pd.Series) -> float:
    """The median of some in units of others; 1 where they have nothing in common."""
    ratio = float((some / others).median())
    return 1.0 if np.isnan(ratio) else ratio


def _further(spec: RunSpec) -> float:
    """What training costs after the one that runs share, as a share of that one.

        fine-tuning:             steps * (1 + multiple) / 2
        from an earlier step:    start + steps * (1 + multiple) / 2
        a ceiling:               sum over multiples m of (1 + m) / 2

    Sequences are drawn between the shortest and m times the longest. A ceiling trains as many steps
    at each length. Extensions that begin at the same step share the training up to there, which is
    counted for each of them.
    """
    extension = spec.composed.content["extension"]
    start = extension.get("start", 0.0)
    if "multiples" in extension:
        return float(sum((1 + multiple) / 2 for multiple in extension["multiples"]))
    if not {"steps", "multiple"} <= extension.keys():
        return 0.0
    return float(start + extension["steps"] * (1 + extension["multiple"]) / 2)


def _is_open_ended(config: Mapping[str, Any]) -> bool:
    """Whether a training with these settings ends when its task is learned."""
    return config.get("training", {}).get("until") is not None


def _shares(records: Iterable[Record]) -> pd.DataFrame:
    """Of the steps that such trainings were allowed, the share that each has made."""
    found: dict[str, tuple[str, str, str, float]] = {}
    for record in records:
        made, config = record.training.steps, record.config
        if made and _is_open_ended(config):
            settings = {name: config["training"][name] for name in ("steps", "steps_scale")}
            share = made / TrainingConfig(**settings).total_steps
            names = (record.protocol.name, record.task.name, record.method.base)
            found[record.training.hash] = (*names, share)
    columns = ["protocol", "task", "encoding", "share"]
    return pd.DataFrame(list(found.values()), columns=columns).astype({"share": float})


def _allowed(spec: RunSpec) -> int:
    """The steps that its training has at most."""
    settings = spec.composed.content["training"]
    if not isinstance(settings["steps"], int):  # an interpolation, which takes a while to resolve
        settings = spec.composed.cfg().training
    given = {name: settings[name] for name in ("steps", "steps_scale")}
    return TrainingConfig(**given).total_steps
