"""The cost of runs, estimated from what earlier records took."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import pandas as pd

from posbench.base.wording import agreeing, counted, duration
from posbench.core.settings import TrainingConfig
from posbench.records.record import Record
from posbench.running.run_spec import RunSpec

GPUS = ("gpu", "cuda", "mps")
"""Accelerators that are no CPU. A run with `auto` takes what its machine has."""
NAMES = ("protocol", "task", "encoding")
KEYS = ("on_gpu", *NAMES)
"""What the process of a run on a GPU takes says nothing of a CPU."""
ANY = ""
RATES = (("protocol", "encoding"), ("encoding",), ("protocol",), ())
TOLD = ("step", "work", "rate", "share", "test")


@dataclass(frozen=True)
class Cost:
    """CPU seconds of runs, each with its share in a training counted where it comes first."""

    runs: tuple[float, ...]  # NaN where no record tells
    training: float  # shared and further
    on_gpu: int = 0  # how many are meant for a GPU, while records of CPUs alone tell
    open_ended: int = 0  # trainings whose steps nobody knows before, and are estimated
    spared: float = 0.0  # what is left out of these, as they are taken to end early

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
            "when the task is learned, so that the number of steps is an estimate: "
            f"{duration(self.total + self.spared)}, if none does before its last step."
        )
        return (
            f"about {duration(self.total)} of CPU time on the machines of the records: "
            f"{duration(self.training)} of training, "
            f"{duration(self.total - self.training)} of tests{without}."
            f"{until if self.open_ended else ''}{gpu if self.on_gpu else ''}"
        )


@dataclass(frozen=True)
class Costs:
    """What records tell of the CPU seconds of a training step and of a run's tests."""

    known: pd.DataFrame
    """A row for each record: `KEYS`, the protocol by its hash; `step`, CPU seconds of one at one
    learning rate;
    `work`, its `relative_work`, and `rate`, seconds for a unit of it; `share`, the part of the
    steps allowed that it made, if it ended when its task was learned; `test`, CPU seconds of tests
    and search."""

    @classmethod
    def by(cls, records: Iterable[Record]) -> Self:
        told: list[tuple[Any, ...]] = []
        for each in records:
            if not each.diverged and each.training.steps:
                with suppress(KeyError, TypeError, ValueError, ArithmeticError):  # of whomever
                    told.append(_told(each, each.training.steps))
        known = pd.DataFrame(told, columns=[*KEYS, *TOLD])
        return cls(known.astype(dict.fromkeys(TOLD, float)))

    def beside(self, others: Self) -> Self:
        """These costs with those of another machine, at the speed of this one: the median ratio of
        steps where both tell.
        """
        own, theirs = (each.known.groupby(list(KEYS))["step"].median() for each in (self, others))
        ratio = float((own / theirs).median())
        scaled = others.known.copy()
        if not np.isnan(ratio):
            scaled[["step", "rate", "test"]] *= ratio
        return type(self)(pd.concat([self.known, scaled]))

    def of_runs(self, runs: Sequence[tuple[RunSpec, str]], made: Iterable[str] = ()) -> Cost:
        """The cost of runs, each with a name for its training; trainings in `made` cost nothing.

        A step costs what it did under the protocol, on the task, with the encoding. Where none was
        made, it costs as much per multiplication as the encoding does under the protocol, or under
        any; an encoding without a record costs what others do there. A training that ends when its
        task is learned makes as many steps as others did; see `_steps`. What is trained after it
        costs a share of that for each run; see `_further`.
        """
        works: dict[tuple[str, str], float] = {}
        on_gpu = open_ended = 0
        found: list[float] = []
        training = spared = 0.0
        seen = set(made)
        for spec, name in runs:
            step = self._told("step", spec, NAMES)
            if np.isnan(step):
                work = self._told("work", spec, ("protocol", "task"))
                if np.isnan(work):
                    key = spec.identity.protocol.hash, spec.identity.task.hash
                    work = works[key] = works[key] if key in works else _work(spec)
                step = work * self._told("rate", spec, *RATES)
            # Where it is asked for, what is there is made again for each run.
            shared = name not in seen or bool(spec.composed.content["force"])
            rates = spec.composed.content["training"]["learning_rate"]
            trainings = shared * (len(rates) if isinstance(rates, list) else 1)
            steps, allowed = self._steps(spec)
            trained = step * steps * (trainings + _further(spec))
            spare = step * (allowed - steps) * (trainings + _further(spec))
            open_ended += shared and _is_open_ended(spec.composed.content)
            seen.add(name)
            training += 0.0 if np.isnan(trained) else trained
            spared += 0.0 if np.isnan(spare) else spare
            found.append(trained + self._told("test", spec, ("task",), ()))
            on_gpu += _meant_for_gpu(spec) and not self._is_on_gpu(spec)
        return Cost(tuple(found), training, on_gpu, open_ended, spared)

    def _steps(self, spec: RunSpec) -> tuple[float, int]:
        """The steps of its training, and how many it may make. Of one that ends when its task is
        learned, the share of the steps allowed that others made: the median under its protocol on
        the task with the encoding, or else on the task, or else on the task under any protocol, or
        else of all under its own, or of any. Where there are none, all the steps. Of tasks learned,
        shares agree better across protocols than across tasks.
        """
        settings = spec.composed.content["training"]
        if not isinstance(settings["steps"], int):  # an interpolation, which takes a while
            settings = spec.composed.cfg().training
        allowed = _allowed(settings)
        if not _is_open_ended(spec.composed.content):
            return allowed, allowed
        share = self._told("share", spec, NAMES, ("protocol", "task"), ("task",), ("protocol",), ())
        return allowed if np.isnan(share) else allowed * share, allowed

    def _told(self, column: str, spec: RunSpec, *alike: tuple[str, ...]) -> float:
        """The median over the records that agree with a run in these names: in the first of them
        for which one tells. NaN where none does.
        """
        identity, on_gpu = spec.identity, self._is_on_gpu(spec)
        own = (identity.protocol.hash, identity.task.name, identity.method.base)
        for names in alike:
            pairs = zip(NAMES, own, strict=True)
            key = (on_gpu, *(value if name in names else ANY for name, value in pairs))
            found = self._medians.get(key, {}).get(column, np.nan)
            if not np.isnan(found):
                return found
        return np.nan

    def _is_on_gpu(self, spec: RunSpec) -> bool:
        """Whether a run is meant for a GPU, and records of one tell of its protocol."""
        return (
            _meant_for_gpu(spec) and (True, spec.identity.protocol.hash, ANY, ANY) in self._medians
        )

    @functools.cached_property
    def _medians(self) -> dict[tuple[Any, ...], dict[str, float]]:
        """Of the records that agree in some names, with `ANY` for each other name."""
        left_out = itertools.chain(*(itertools.combinations(NAMES, n) for n in range(4)))
        each = [self.known.assign(**dict.fromkeys(names, ANY)) for names in left_out]
        return pd.concat(each).groupby(list(KEYS))[list(TOLD)].median().to_dict("index")


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


def _work(spec: RunSpec) -> float:
    from posbench.running.setup import Setup  # and with it torch

    try:
        setup = Setup.of(spec.composed.cfg())
        return relative_work(setup.nodes, setup.train_positions)
    except Exception:  # of a task of the user, say: the run will tell it
        return np.nan


def _told(record: Record, steps: int) -> tuple[Any, ...]:
    training, tested, config = record.training, record.evaluated, record.config
    step = training.cpu_seconds / steps / max(len(training.learning_rates or []), 1)
    work = relative_work(config, training.train_positions)
    return (
        training.device != "cpu",
        record.protocol.hash,
        record.task.name,
        record.method.base,
        step,
        work,
        step / work,
        steps / _allowed(config["training"]) if _is_open_ended(config) else np.nan,
        tested.evaluation_cpu_seconds + (tested.preparation_cpu_seconds if record.search else 0.0),
    )


def _meant_for_gpu(spec: RunSpec) -> bool:
    return spec.composed.content["trainer"]["accelerator"] in GPUS


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


def _allowed(training: Mapping[str, Any]) -> int:
    """The steps that a training with these settings has at most."""
    return TrainingConfig(**{name: training[name] for name in ("steps", "steps_scale")}).total_steps
