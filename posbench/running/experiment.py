"""One run from configuration to record: the only module that knows all the others."""

from __future__ import annotations

import copy
import dataclasses
import functools
import logging
import math
import os
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import torch
from omegaconf import DictConfig, OmegaConf

from posbench import provenance, results
from posbench.composing.building import build
from posbench.composing.identity import Identity
from posbench.composing.legality import supplying_tasks
from posbench.config import Config, TrainingConfig, checked
from posbench.encoding import EncodingStack, PositionEncoding
from posbench.errors import ConfigError, Diverged
from posbench.evaluation import Rows, Tests, test_lengths
from posbench.extension import Extension, FineTuning, Searched
from posbench.running.audit import audited
from posbench.running.checkpoints import Checkpoints
from posbench.running.console import Console
from posbench.running.devices import device, device_name
from posbench.streams import stream_seed
from posbench.task import Task
from posbench.training import Training, log_point
from posbench.transformer import Transformer

SETTINGS = ("encoding", "extension", "task", "model", "training", "evaluation")
LOGGED = ("score", "sequence_accuracy", "token_accuracy_teacher_forced", "loss", "multiple")
"""Of each row of a record, for dashboards."""


@dataclasses.dataclass
class Trained:
    """A model and what its training left behind."""

    folder: Path
    # of the learning rate that was kept, where there were several to choose from
    settings: TrainingConfig
    model: Transformer
    log: dict[str, Any]  # curve, seconds, device
    grid: list[dict[str, float | None]] | None = (
        None  # the learning rates tried, and what each lost in distribution
    )
    base: dict[str, Rows] = dataclasses.field(default_factory=dict)
    """Of the model without an extension, once somebody has asked, by the hash of the settings of
    evaluation.
    """


_latest: list[Trained] = []
"""The last model of this process, or none: the runs of a sweep that share weights load and measure
them once.
"""


@dataclasses.dataclass(frozen=True)
class Prepared:
    """What is evaluated: a model with an extension, and what was spent on the pair beyond the
    shared training.
    """

    model: Transformer
    extension: Extension
    search: dict[str, Any] | None = None
    finetuning: dict[str, Any] | None = None
    ceiling: dict[int, Trained] | None = (
        None  # the model of each test length, where each has its own
    )
    cpu_seconds: float = 0.0  # of further training, whichever run it took place in


class Experiment:
    """A resolved configuration with its task: builds the model, trains it once, evaluates an
    extension.

    `cfg` is the composed configuration; the task is made first, because only it knows how many
    positions a training length comes to, and encodings scale by positions.
    """

    def __init__(
        self, cfg: DictConfig, identity: Identity, task: Task, test_positions: int | None = None
    ) -> None:
        self.composed = cfg = copy.deepcopy(cfg)
        self.config: Config = checked(cfg)
        self.identity = identity
        self.task = task
        self.train_length = self.config.training.lengths[1]
        self.lengths = test_lengths(self.config.evaluation, self.train_length)
        task.total_length(self.config.training.lengths[0])  # refuses now what it could not draw
        self.train_positions = self._positions(self.config.training)
        self.test_positions = test_positions or max(task.num_positions(n) for n in self.lengths)
        cfg = copy.deepcopy(cfg)
        cfg.train_positions, cfg.test_positions = self.train_positions, self.test_positions
        cfg.model.head_width = self.config.model.head_width
        self.nodes: dict[str, Any] = OmegaConf.to_container(cfg, resolve=True)  # type: ignore[assignment]
        self.extension: Extension = build(self.nodes["extension"], "extension")

    def _positions(self, training: TrainingConfig) -> int:
        """Of a training sequence: of the longest by itself, or of the context that sequences
        fill.
        """
        alone = self.task.num_positions(training.lengths[1])
        if 0 < training.packing < alone:
            raise ConfigError(
                f"training.packing={training.packing} does not hold one sequence of "
                f"n={training.lengths[1]}, which has {alone} tokens: raise it to that, or lower "
                "training.max_length"
            )
        return max(alone, training.packing)

    @functools.cached_property
    def shift(self) -> int:
        """By how much the largest position in training exceeds a sequence: an offset trains a
        relative encoding on no distance that it does not see without.
        """
        offset = self.config.training.random_offset
        return offset if offset and not all(layer.relative for layer in self.encodings()) else 0

    @property
    def settings(self) -> dict[str, Any]:
        """All resolved settings that a result depends on."""
        return {name: self.nodes[name] for name in SETTINGS}

    @property
    def specifications(self) -> list[dict[str, Any]]:
        """The encoding of each layer, to be repeated: `layers` where the encoding lists them, else
        itself.
        """
        encoding = self.nodes["encoding"]
        layers = encoding.get("layers", [encoding])
        if len(encoding) > 1 and "layers" in encoding:
            ignored = ", ".join(sorted(encoding.keys() - {"layers"}))
            raise ConfigError(
                f"encoding.layers lists an encoding for each layer; beside it {ignored} would be "
                "ignored"
            )
        if not layers:
            raise ConfigError(
                "encoding.layers is empty: list the encoding of each layer, to be repeated"
            )
        return layers

    @property
    def training_content(self) -> dict[str, Any]:
        """All that the trained weights depend on; the extension is not among it."""
        return self._content(self.config.training)

    def _content(self, training: TrainingConfig) -> dict[str, Any]:
        config = self.config
        return {
            "encoding": self.nodes["encoding"],
            "task": [self.nodes["task"], self.task.version],
            "model": dataclasses.asdict(config.model),
            "training": dataclasses.asdict(training)
            | {"lengths": training.lengths, "total_steps": training.total_steps},
            "seed": config.seed,
            "source": provenance.training_hash(self.nodes["task"], self.nodes["encoding"]),
        }

    def encodings(self) -> list[PositionEncoding]:
        """One encoding a layer, initialised, not yet tied."""
        layers = []
        for index in range(self.config.model.num_layers):
            specification = self.specifications[index % len(self.specifications)]
            with torch.random.fork_rng(devices=[]):
                torch.manual_seed(stream_seed(self.config.seed, "init", "encoding", index))
                layers.append(build(specification, "encoding"))
        return layers

    def model(self) -> Transformer:
        """The untrained model."""
        model, stack = self.config.model, EncodingStack(self.encodings(), len(self.specifications))
        if stack.ids not in ("index", *self.task.ids):
            raise ConfigError(
                f"the encoding asks the task for {stack.ids!r} position ids, which "
                f"{type(self.task).__name__} does not supply: choose another encoding, or a task "
                f"among {', '.join(supplying_tasks(stack.ids))}"
            )
        if self.config.training.random_offset and stack.ids != "index":
            raise ConfigError(
                f"training.random_offset={self.config.training.random_offset} shifts the index of "
                f"a token, and the encoding asks for {stack.ids!r} ids instead: choose 0, or "
                "another encoding"
            )
        trained = stack.span(self.train_positions + self.shift, training=True)
        longest, prepared = stack.span(self.test_positions), stack.span(self.prepared_positions)
        if stack.max_positions is not None and stack.max_positions < max(
            trained, longest, prepared
        ):
            raise ConfigError(
                f"the encoding has {stack.max_positions} positions, but training, what follows it "
                f"and the longest test need {max(trained, longest, prepared)}: raise its setting, "
                "or shorten training.packing, training.random_offset, extension.multiple or "
                "evaluation.multiples and evaluation.further"
            )
        for positions in (longest, prepared):
            self.extension.extend(stack, trained, positions)  # refuse now, not after training
        return Transformer(
            self.task.vocab_size,
            model.width,
            model.num_layers,
            model.num_heads,
            stack,
            model.embedding_std,
            self.config.seed,
            model.mlp_ratio,
            model.dropout,
        )

    # -- train once --------------------------------------------------------------------------------

    def trained(self, console: Console, loggers: list[Any]) -> Trained:
        """The trained model; of several learning rates that with the lowest loss in distribution,
        never on a test.
        """
        candidates = self.config.training.candidates
        if len(candidates) == 1:
            return self._trained(candidates[0], console, loggers)
        found: dict[float, Trained] = {}
        wasted = 0.0
        for settings in candidates:
            console.say(f"Learning rate {settings.learning_rate:g}, one of {len(candidates)}:")
            try:
                found[settings.learning_rate] = self._trained(settings, console, [])
            except Diverged as error:
                console.say(f"Left out: {error}")
                wasted += error.cpu_seconds
        if not found:
            rates = self.config.training.learning_rate
            raise Diverged(
                f"training diverged at every learning rate of {rates}: lower them", wasted
            )
        lost = {
            rate: trained.log["curve"][-1]["validation_loss"] for rate, trained in found.items()
        }
        best = min(found, key=lambda rate: lost[rate])
        for logger in loggers:
            for point in found[best].log["curve"]:
                log_point(logger, point)
        console.say(f"Kept: learning rate {best:g}, by its loss in distribution.")
        grid = [
            {"learning_rate": each.learning_rate, "loss": lost.get(each.learning_rate)}
            for each in candidates
        ]
        spent = {
            key: sum(trained.log[key] for trained in found.values())
            for key in ("cpu_seconds", "wall_seconds")
        }
        spent["cpu_seconds"] += wasted
        return dataclasses.replace(found[best], grid=grid, log=found[best].log | spent)

    def _trained(self, settings: TrainingConfig, console: Console, loggers: list[Any]) -> Trained:
        """From the shared checkpoint where there is one, else trained here."""
        content, config = self._content(settings), self.config
        checkpoints = self._checkpoints(console)
        folder = checkpoints.folder(content)
        if _latest and _latest[0].folder == folder.resolve() and not config.force:
            console.say(f"Trained before ({folder.name}): the weights are shared.")
            return _latest[0]
        model = self.model()
        training = Training(model, self.task, settings, config.seed)
        trained = Trained(
            folder.resolve(), settings, model, checkpoints.once(content, training, model, loggers)
        )
        _latest[:] = [trained]
        return trained

    def _checkpoints(self, console: Console) -> Checkpoints:
        return Checkpoints(self.config.results_dir, self.config.trainer, self.config.force, console)

    # -- extend many -------------------------------------------------------------------------------

    @property
    def tests(self) -> Tests:
        config = self.config
        return Tests(
            self.task,
            config.evaluation,
            config.training,
            self.train_positions + self.shift,
            config.seed,
        )

    def evaluated(self, model: Transformer, extension: Extension | None) -> tuple[Rows, Rows]:
        return self.tests.rows(model.to(device(self.config.trainer.accelerator)), extension)

    def measured(self, prepared: Prepared) -> tuple[Rows, Rows]:
        """Rows and views of what was prepared, as a record can hold them."""
        if prepared.ceiling is None:
            rows, views = self.evaluated(prepared.model, prepared.extension)
            return results.finite(rows), results.finite(views)
        rows, views = [], []
        for n, trained in prepared.ceiling.items():
            row, view = self.at(n).evaluated(
                trained.model, None
            )  # one length, and what it calls 1x
            rows += [each | {"multiple": self.lengths[n]} for each in row]
            views += view
        return results.finite(rows), results.finite(views)

    def prepared(self, trained: Trained, console: Console) -> Prepared:
        """The trained model and the extension, after whatever the extension needs before it can be
        tested.
        """
        if isinstance(self.extension, Searched):
            return self._searched(trained.model, self.extension, console)
        if self.extension.finetuning is not None:
            return self._finetuned(trained, self.extension.finetuning, console)
        if self.extension.retrained:
            return self._retrained(trained, console)
        return Prepared(trained.model, self.extension)

    def at(self, n: int) -> Experiment:
        """The same experiment with n for its training length, and tested there alone. What the
        encoding makes of the longest test, such as the rows of a table, it makes of the longest of
        all.
        """
        cfg, training = copy.deepcopy(self.composed), self.config.training
        cfg.training.min_length, cfg.training.max_length = min(training.lengths[0], n), n
        cfg.training.length_scale = 1.0
        if training.packing:  # as many sequences in a context as before
            alone = self.task.num_positions(self.train_length)
            cfg.training.packing = math.ceil(training.packing * self.task.num_positions(n) / alone)
        cfg.evaluation.multiples, cfg.evaluation.further = [1.0], []
        return Experiment(cfg, self.identity, self.task, self.test_positions)

    @property
    def retrained_lengths(self) -> dict[int, float]:
        multiples = self.config.evaluation.multiples
        return {
            n: multiple
            for n, multiple in self.lengths.items()
            if multiple >= 1 and multiple in multiples
        }

    def _retrained(self, trained: Trained, console: Console) -> Prepared:
        """A model for each test length that enters the mean; that of the training length is
        there.
        """
        models = {}
        for n, multiple in self.retrained_lengths.items():
            if multiple == 1:
                models[n] = trained
            else:
                console.say(f"Training at {multiple:g}x, with n up to {n}.")
                try:
                    models[n] = self.at(n).trained(console, [])
                except Diverged as error:
                    console.say(f"Left out: {error}")
        spent = sum(each.log["cpu_seconds"] for each in models.values() if each is not trained)
        return Prepared(trained.model, self.extension, ceiling=models, cpu_seconds=spent)

    def _searched(self, model: Transformer, searched: Searched, console: Console) -> Prepared:
        n, tests, seed = self.validation_length(searched), self.tests, self.config.seed
        console.say(f"Trying up to {searched.budget} settings at n = {n}, which is no test length.")
        model = model.to(device(self.config.trainer.accelerator)).eval()
        batch = self.task.batch(n, self.config.training.validation_samples, seed, "validation", n)

        def loss(extension: Extension) -> float:
            return tests.answers(tests.extended(model, extension, n), model, batch, n).mean_loss

        rng = np.random.default_rng(stream_seed(seed, "search"))
        trials = searched.trials(model.encodings, tests.spans(model, n)[0], rng, loss)
        log = {
            "length": n,
            "num_samples": self.config.training.validation_samples,
            "chosen": trials[0].settings,
            "trials": [  # null where the loss is not a number, which a record cannot hold
                {
                    "settings": trial.settings,
                    "loss": trial.loss if math.isfinite(trial.loss) else None,
                }
                for trial in trials
            ],
        }
        return Prepared(model, trials[0].extension, search=log)

    @property
    def prepared_positions(self) -> int:
        """Of the longest sequence between training and the tests: of a fine-tuning, or of a
        search.
        """
        if isinstance(self.extension, Searched):
            return self.task.num_positions(self.validation_length(self.extension))
        if self.extension.finetuning is not None:
            settings = self.extension.finetuning.settings(self.config.training.candidates[0])
            return self._positions(settings) + self.shift
        return self.train_positions

    def validation_length(self, searched: Searched) -> int:
        """The length on which settings are chosen: refused where it is one that the result is
        tested on.
        """
        n = round(searched.multiple * self.train_length)
        if n in self.lengths:
            raise ConfigError(
                f"extension.multiple={searched.multiple:g} chooses settings at n = {n}, which is a "
                "test length: choose another multiple than those of the tests, "
                f"{', '.join(f'{m:g}' for m in self.lengths.values())}"
            )
        return n

    def _finetuned(self, trained: Trained, finetuning: FineTuning, console: Console) -> Prepared:
        settings, seed = (
            finetuning.settings(trained.settings),
            stream_seed(self.config.seed, "fine-tuning"),
        )
        content = {
            "start": provenance.content_hash(self._content(trained.settings)),
            "extension": self.nodes["extension"],
            "training": dataclasses.asdict(settings)
            | {"lengths": settings.lengths, "steps": settings.total_steps},
            "source": provenance.evaluation_hash(self.nodes["extension"]),
        }
        console.say(
            f"Fine-tuning: {settings.total_steps} steps with n up to {settings.lengths[1]}."
        )
        tuned = copy.deepcopy(trained.model).cpu()  # the shared weights stay as they are
        trained_span = tuned.encodings.span(self.train_positions + self.shift, training=True)
        longest = tuned.encodings.span(self._positions(settings) + self.shift)
        extended = tuned.with_encodings(
            self.extension.extend(tuned.encodings, trained_span, longest)
        )
        training = Training(extended.train(), self.task, settings, seed)
        log = self._checkpoints(console).once(content, training, tuned, [])
        kept = {key: log[key] for key in ("curve", "device")}
        kept |= {
            "hash": provenance.content_hash(content),
            "steps": settings.total_steps,
            "lengths": settings.lengths,
        }
        return Prepared(tuned, self.extension, finetuning=kept, cpu_seconds=log["cpu_seconds"])

    def explains(self, record: results.Record) -> bool:
        """Whether running again would give this record: the same settings, seed, versions and
        code.
        """
        known = record["provenance"]
        same = all(
            record[part]["hash"] == getattr(self.identity, part).hash
            for part in ("protocol", "task", "method")
        )
        return (
            same
            and record["task"]["version"] == self.task.version
            and known["source_hash"] == self.training_content["source"]
            and known.get("evaluation_hash") == provenance.evaluation_hash(self.nodes["extension"])
        )

    def audit(self, prepared: Prepared, path: Path) -> str:
        """Decode token by token, keep what was found, and say it."""
        config = self.config
        model = prepared.model.to(device(config.trainer.accelerator))
        if prepared.ceiling is None:
            rows = audited(self.tests, model, prepared.extension, config.audit)
        else:
            rows = [
                row
                for n, trained in prepared.ceiling.items()
                for row in audited(
                    self.at(n).tests, trained.model.to(model.head.weight.device), None, config.audit
                )
            ]
        found = {
            "method": self.identity.method.label,
            "source_hash": self.training_content["source"],
            "evaluation_hash": provenance.evaluation_hash(self.nodes["extension"]),
            "rows": rows,
        }
        results.write(found, path)
        count, wrong = (sum(row[key] for row in rows) for key in ("num_samples", "disagreements"))
        return (
            f"Audit: greedy decoding and teacher forcing disagree on {wrong} of {count} sequences. "
            f"{path}"
        )

    def _method_class(self, stack: EncodingStack) -> str:
        """That of the encoding, unless it is zero-shot: then that of the extension. A ceiling is
        nothing else.
        """
        if self.extension.retrained:
            return self.extension.method_class
        return (
            stack.method_class if stack.method_class != "zero-shot" else self.extension.method_class
        )

    def record(
        self,
        trained: Trained,
        prepared: Prepared,
        rows: Rows,
        cells: Rows,
        timings: dict[str, float],
    ) -> results.Record:
        config, identity, curve = self.config, self.identity, trained.log["curve"]
        content = self.training_content
        gate = next(row["score"] for row in rows if row["multiple"] == 1)
        reached = [p["step"] for p in curve if p["score"] >= config.evaluation.solved]
        return {
            "schema": results.SCHEMA,
            "protocol": identity.protocol.as_dict(),
            "task": identity.task.as_dict()
            | {"version": self.task.version, "measure": self.task.measure},
            "method": identity.method.as_dict()
            | {
                "class": self._method_class(trained.model.encodings),
                "scale_policy": self.extension.scale_policy,
            },
            "seed": config.seed,
            "training": {
                "hash": provenance.content_hash(self._content(trained.settings)),
                "train_length": self.train_length,
                "train_positions": self.train_positions,
                "learning_rate": trained.settings.learning_rate,
                "learning_rates": trained.grid,
                "steps": curve[-1]["step"]
                if curve
                else None,  # fewer than were allowed where it stopped early
                "parameters": sum(p.numel() for p in trained.model.parameters()),
                "solved": gate >= config.evaluation.solved,
                "solved_step": reached[0] if reached else None,
                "curve": curve,
            },
            "search": prepared.search,
            "finetuning": prepared.finetuning,
            "ceiling": None if prepared.ceiling is None else self._ceiling_log(prepared.ceiling),
            "rows": rows,
            "cells": cells,
            "config": self.settings,
            "provenance": {
                "source_hash": content["source"],
                "commit": trained.log["commit"],
                "versions": trained.log["versions"],
                "device": trained.log["device"],
                "evaluation_hash": provenance.evaluation_hash(self.nodes["extension"]),
                "evaluated": {
                    "commit": provenance.commit(),
                    "versions": provenance.versions(),
                    "device": device_name(config.trainer.accelerator),
                },
                "command": identity.command,
            },
            "timings": {
                "train_cpu_seconds": trained.log["cpu_seconds"],
                "train_wall_seconds": trained.log["wall_seconds"],
                "train_gpu_seconds": 0.0
                if trained.log["device"] == "cpu"
                else trained.log["wall_seconds"],
                **timings,
            },
        }

    def diverged(self, error: Diverged, trained: Trained | None) -> results.Record:
        """The record of a run whose training diverged, or what came after it where `trained` is
        there. There is no model to be tested: nothing is right at any length.
        """
        seconds = {
            "preparation_cpu_seconds": 0.0,
            "further_training_cpu_seconds": 0.0,
            "evaluation_cpu_seconds": 0.0,
        }
        if trained is None:
            settings, config = self.config.training.candidates[0], self.config
            log = {
                "curve": [],
                "cpu_seconds": error.cpu_seconds,
                "wall_seconds": error.cpu_seconds,
                "device": device_name(config.trainer.accelerator),
                "commit": provenance.commit(),
                "versions": provenance.versions(),
            }
            trained = Trained(
                self._checkpoints(Console()).folder(self._content(settings)),
                settings,
                self.model(),
                log,
            )
        else:
            seconds["further_training_cpu_seconds"] = error.cpu_seconds
        rows = [
            {
                "test_length": n,
                "multiple": multiple,
                "aggregated": multiple in self.config.evaluation.multiples,
                "total_length": self.task.total_length(n),
                "num_samples": 0,
                "chance": self.task.chance(n),
                **dict.fromkeys(results.ACCURACIES, 0.0),
            }
            for n, multiple in (
                self.retrained_lengths if self.extension.retrained else self.lengths
            ).items()
        ]
        record = self.record(trained, Prepared(trained.model, self.extension), rows, [], seconds)
        return record | {"diverged": str(error)}

    def _ceiling_log(self, models: dict[int, Trained]) -> list[dict[str, Any]]:
        return [
            {
                "test_length": n,
                "checkpoint": trained.folder.name,
                "learning_rate": trained.settings.learning_rate,
                "steps": trained.log["curve"][-1]["step"],
                "cpu_seconds": trained.log["cpu_seconds"],
            }
            for n, trained in models.items()
        ]


def run(cfg: DictConfig, identity: Identity, task: Task) -> None:
    """Train (or load), evaluate, write the record, show the table."""
    quiet()
    config = checked(cfg)
    torch.set_num_threads(config.trainer.threads)
    path = results.record_path(
        config.results_dir,
        identity.protocol.slug,
        identity.task.slug,
        identity.method.slug,
        config.seed,
    )
    console = Console()
    hardware = device_name(config.trainer.accelerator)
    experiment = Experiment(cfg, identity, task)
    complete = path.exists() and not config.force and experiment.explains(results.read(path))
    if complete:
        failed = results.read(path).get("diverged")
        console.say(
            f"{f'Diverged: {failed}' if failed else 'Complete already'}: {path} (force=true "
            "repeats the run)."
        )
        if failed or not config.audit:
            return
    experiment.model()  # refuses what cannot be built before anything is written
    try:
        Path(config.results_dir).mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigError(
            f"results_dir={config.results_dir} cannot be written to: {error}"
        ) from None
    loggers = [logger for logger in [_logger(experiment)] if logger is not None]
    trained = None
    try:
        console.announce(identity, config.seed, hardware, path)
        trained = experiment.trained(console, loggers)
        started = time.process_time()
        prepared = experiment.prepared(trained, console)
        if config.audit:
            console.say(experiment.audit(prepared, results.audit_path(path)))
        if complete:
            return
        before = time.process_time()
        rows, cells = experiment.measured(prepared)
        timings = {
            "preparation_cpu_seconds": before - started,
            "further_training_cpu_seconds": prepared.cpu_seconds,
            "evaluation_cpu_seconds": time.process_time() - before,
        }
        _keep(
            experiment.record(trained, prepared, rows, cells, timings), path, config.force, console
        )
        _log_rows(loggers, rows)
    except Diverged as error:
        # A method that diverges for some seeds must not look as good as its other seeds.
        _keep(experiment.diverged(error, trained), path, config.force, console)
        console.say(f"Recorded as a run that diverged: {path}")
        raise
    finally:
        for logger in loggers:
            getattr(logger, "close", lambda: None)()

    asked = provenance.content_hash(experiment.nodes["evaluation"])
    if not experiment.extension.changes and not experiment.extension.trains:
        trained.base[asked] = rows
    elif asked not in trained.base:  # the same weights without the extension: what did it gain?
        trained.base[asked], _ = experiment.evaluated(trained.model, None)
    base = None if trained.base[asked] is rows else trained.base[asked]
    same = (
        "trained at 1x"
        if prepared.ceiling
        else "before fine-tuning"
        if prepared.finetuning
        else "same weights"
    )
    spent = trained.log["cpu_seconds"] + prepared.cpu_seconds
    console.table(identity, task.measure, rows, base, same, spent, path, Path(config.results_dir))


def _keep(record: results.Record, path: Path, force: bool, console: Console) -> None:
    if path.exists() and not force:
        # Settings or code have changed since: the file is kept beside, and the leaderboard takes
        # the newer one.
        kept = path.with_suffix(f".{provenance.content_hash(results.read(path))[:8]}.json")
        os.replace(path, kept)
        console.say(
            "Settings or code have changed since the record there was made; it is kept as "
            f"{kept.name}."
        )
    results.write(record, path)


def _logger(experiment: Experiment) -> Any:
    """The logger of the configuration, in a folder of this run; what each class calls that folder
    differs.
    """
    node = dict(experiment.nodes["logger"])
    if not node:
        return None
    identity, config = experiment.identity, experiment.config
    where = (
        identity.protocol.slug,
        identity.task.slug,
        identity.method.slug,
        f"seed={config.seed}",
    )
    folder = Path(config.results_dir, "logs", *where)
    folder.mkdir(parents=True, exist_ok=True)
    node.setdefault("save_dir", str(folder))
    node.setdefault("name", identity.title(config.seed))
    logger = build(node, "logger")
    names = {part: getattr(identity, part).label for part in ("protocol", "task", "method")}
    logger.log_hyperparams({"run": names | {"seed": config.seed}} | experiment.settings)
    return logger


def _log_rows(loggers: list[Any], rows: Rows) -> None:
    for logger in loggers:
        for row in rows:
            metrics = {f"test/{key}": row[key] for key in LOGGED if row[key] is not None}
            logger.log_metrics(metrics, step=row["test_length"])
        logger.save()
        logger.finalize("success")


def quiet() -> None:
    """Silence what libraries say about themselves; our own sentences go through `Console`."""
    warnings.filterwarnings("ignore", module=r"(lightning|torch|hydra|omegaconf)(\..*)?")
    for name in ("lightning", "lightning.pytorch", "lightning.fabric", "torch"):
        logging.getLogger(name).setLevel(logging.ERROR)
