"""Records of pretrained models: those of the suite, with a sample in the place of a seed.

The suite's seeds are what a number varies over that nobody chose. Here nothing is trained, and that
is the sample: `seed` is its number, `training` is the model's files with the sample, which all
extensions share, and so the statistics of boards are intervals over samples, paired between
extensions. Several samples share one text and are still counted each for itself.
"""

from __future__ import annotations

import functools
import itertools
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
import transformers

from posbench.base.content_hash import content_hash
from posbench.base.disk import read_text
from posbench.config import provenance
from posbench.config.names import MethodName, Name, as_text
from posbench.config.provenance import known_hash, without_places
from posbench.core.evaluation import DEPTH_EDGES, RELATIVE_EDGES, binned
from posbench.core.extension import Extension
from posbench.core.row import Row, View
from posbench.pretrained.continuing import Continuing
from posbench.pretrained.loading import Files
from posbench.pretrained.measuring import Found, Measurement, target
from posbench.pretrained.mounting import Mounted
from posbench.pretrained.text_tasks import TASKS
from posbench.records import files
from posbench.records.lines import refuse_another_schema
from posbench.records.record import (
    Record,
    RecordedCurve,
    RecordedEvaluation,
    RecordedTraining,
    Search,
)
from posbench.running.devices import name_of
from posbench.statistics.aggregates import PRETRAINED

SOURCES = {
    "training": "posbench.pretrained.text_tasks",
    "evaluation": "posbench.pretrained.measuring",
}
"""The modules whose code the samples and the answers depend on."""
GATE = 0.5
"""A sample is right or wrong: the score at 1x that counts as solved lies between."""
EDGES = {"depth": DEPTH_EDGES, "position": RELATIVE_EDGES}


def changed_in(measured: Measurement) -> tuple[str, ...]:
    """The settings of a task that are not its own: task.hops=3."""
    task, usual = getattr(measured, "task", None), TASKS.get(measured.name)
    if task is None or usual is None:
        return ()
    own = vars(usual)
    return tuple(f"task.{name}={value}" for name, value in vars(task).items() if value != own[name])


@dataclass(frozen=True)
class Candidate:
    """One extension of the model, as a row of the board."""

    name: str
    extension: Extension
    node: dict[str, Any]
    changed: tuple[str, ...] = ()
    search: Search | None = None

    @property
    def method_class(self) -> str:
        """Rows are compared within it: those whose settings were searched are apart."""
        return PRETRAINED if self.search is None else f"{PRETRAINED}, tuned"


@dataclass(frozen=True)
class Recorder:
    """Writes the records of one model under one protocol, and knows what they have in common."""

    folder: Path
    files: Files
    mounted: Mounted
    protocol: Name
    settings: Mapping[str, Any]  # of the protocol
    multiples: Mapping[int, float]  # of the tested lengths in tokens, as they were asked for
    command: str

    @functools.cached_property
    def model(self) -> dict[str, str]:
        return {"name": self.files.name, "hash": self.files.hash}

    @functools.cached_property
    def encoding(self) -> dict[str, Any]:
        """The model's forms and files, as its records keep them."""
        layers, kind = self.mounted.layers, type(self.mounted)
        found = {
            "_target_": target(type(layers[0].form.encoding)),
            "model": self.model["name"],
            "forms": sorted({layer.form.name for layer in layers}),
        }
        # What `SOURCES` does not reach is named, so that its code counts.
        return found if kind is Mounted else found | {"mounted": {"_target_": target(kind)}}

    def _encoding(self, measured: Measurement) -> dict[str, Any]:
        """The same, and what makes tokens of its texts where `Pieces` alone would do it wrongly."""
        pieces = getattr(measured, "pieces", None)
        if not isinstance(pieces, Continuing):
            return self.encoding
        return self.encoding | {"pieces": {"_target_": target(type(pieces))}}

    def names(self, measured: Measurement, row: Candidate) -> tuple[Name, MethodName]:
        content = content_hash(without_places(measured.node))
        task = Name(name=measured.name, changed=changed_in(measured), hash=content)
        base = self.model["name"]
        method = MethodName(
            name=f"{row.name}@{base}",
            changed=tuple(map(as_text, row.changed)),
            hash=content_hash([self.model["hash"], without_places(row.node)]),
            encoding=base,
            extension=row.name,
        )
        return task, method

    def path(self, measured: Measurement, row: Candidate, number: int) -> Path:
        task, method = self.names(measured, row)
        return files.record_path(self.folder, self.protocol.slug, task.slug, method.slug, number)

    def known(self, measured: Measurement, row: Candidate, number: int) -> Record | None:
        """The record of a sample; None if there is none, or if other code or settings made it.

        Lengths of one record have one device and the same versions: a record names them once.
        """
        path = self.path(measured, row, number)
        record = _readable(path) if path.exists() else None
        if record is None:
            return None
        task, method = self.names(measured, row)
        same = (
            (record.protocol.hash, record.task.hash, record.method.hash)
            == (self.protocol.hash, task.hash, method.hash)
            and record.training.settings_hash == self._sample(task, number)
            and [record.training.source_hash, record.evaluated.source_hash]
            == self.code(measured, row)
            and record.evaluated.device == self._origin["device"]
            and provenance.same_versions(record.evaluated.versions, self._origin["versions"])
        )
        return record if same else None

    def has(self, measured: Measurement, row: Candidate, length: int, text: int) -> bool:
        """Whether all samples of a text have been measured at that length."""
        records = [self.known(measured, row, number) for number in measured.numbers(text)]
        return all(
            record is not None and any(each.test_length == length for each in record.rows)
            for record in records
        )

    def write(self, measured: Measurement, row: Candidate, length: int, found: list[Found]) -> None:
        """Add one length to the records of these samples, each file whole or as it was.

        A record that other code, settings or versions or another device made stays beside it.
        """
        for each in found:
            path = self.path(measured, row, each.number)
            before = self.known(measured, row, each.number)
            new = self._record(measured, row, length, each)
            if before is not None:
                new = _joined(before, new)
            elif path.exists() and _readable(path) is not None:
                files.kept_beside(path)
            files.write(new, path)

    def code(self, measured: Measurement, row: Candidate) -> list[str]:
        """Hashes of the code that the samples and the answers depend on."""
        return [self._code_of_samples(measured), self._code_of_answers(row)]

    def _code_of_answers(self, row: Candidate) -> str:
        richer = [each for name, each in self.encoding.items() if name == "mounted"]
        return _code("evaluation", [row.node, *richer] if richer else row.node)

    def _code_of_samples(self, measured: Measurement) -> str:
        return _code("training", [measured.node, self._encoding(measured)])

    def _sample(self, task: Name, number: int) -> str:
        return content_hash([self.model["hash"], task.hash, number])

    def _record(self, measured: Measurement, row: Candidate, length: int, found: Found) -> Record:
        task, method = self.names(measured, row)
        model, trained = self.mounted.model, self.mounted.train_positions
        origin = self._origin
        return Record(
            protocol=self.protocol,
            task=task,
            task_version=measured.version,
            measure=measured.measure,
            gate=GATE if measured.by == "depth" else 0.0,
            method=method,
            method_class=row.method_class,
            scale_policy=row.extension.scale_policy,
            seed=found.number,
            training=RecordedTraining(
                settings_hash=self._sample(task, found.number),
                source_hash=self._code_of_samples(measured),
                train_length=trained,
                train_positions=trained,
                learning_rate=0.0,  # nothing was trained here
                steps=0,
                parameters=sum(each.numel() for each in model.parameters()),
                curve=RecordedCurve(step=[], loss=[], validation_loss=[], score=[]),
                cpu_seconds=0.0,
                wall_seconds=0.0,
                **origin,
            ),
            solved_step=None,
            search=row.search,
            rows=[self._row(measured, length, found)],
            views=_views(measured, length, found),
            config={
                "task": measured.node,
                "encoding": self._encoding(measured),
                "extension": row.node,
                "evaluation": dict(self.settings),
                "model": self.model,
                "sources": SOURCES,
            },
            evaluated=RecordedEvaluation(
                source_hash=self._code_of_answers(row),
                preparation_cpu_seconds=0.0,
                further_training_cpu_seconds=0.0,
                evaluation_cpu_seconds=round(found.cpu_seconds, 3),
                **origin,
            ),
            command=self.command,
        )

    @functools.cached_property
    def _origin(self) -> dict[str, Any]:
        return {
            "device": name_of(self.mounted.model.device),
            "cpu": provenance.cpu(),
            "threads": torch.get_num_threads(),
            "commit": provenance.commit(),
            "versions": provenance.versions() | {"transformers": transformers.__version__},
        }

    def _row(self, measured: Measurement, length: int, found: Found) -> Row:
        answer, trained = found.answer, self.mounted.train_positions
        count, right = len(answer.right), np.array(answer.right)
        within = np.array(found.within if found.within is not None else [], bool)
        share = float(right.mean())
        score = float(answer.exact) if measured.by == "depth" else share
        return Row(
            test_length=length,
            multiple=self.multiples[length],
            true_multiple=length / trained,
            aggregated=True,
            total_length=length,
            test_positions=length,
            num_samples=1,
            num_tokens=count,
            num_tokens_within=int(within.sum()),
            num_tokens_beyond=int((~within).sum()),
            score=score,
            proficiency=score,
            sequence_accuracy=float(answer.exact),
            sequence_accuracy_without_end=float(answer.exact),
            correct_prefix=float(np.logical_and.accumulate(right).mean()),
            token_accuracy_teacher_forced=share,
            token_accuracy_within_trained_distance=_mean(right, within),
            token_accuracy_beyond_trained_distance=_mean(right, ~within),
            loss=-found.log_likelihood,
            chance=measured.chance,
            untrained=None,
        )


def _readable(path: Path) -> Record | None:
    """The record in a file; None if it was cut off, so that there is nothing to keep.

    Raises `PosbenchError` if it is a record of another version of posbench.
    """
    try:
        refuse_another_schema(json.loads(read_text(path)), str(path))
        return files.read(path)
    except (json.JSONDecodeError, UnicodeDecodeError):
        return None


def _code(part: str, node: Any) -> str:
    return known_hash(SOURCES[part], frozenset(provenance.targets(node)))


def _mean(right: np.ndarray, chosen: np.ndarray) -> float | None:
    return float(right[chosen].mean()) if len(chosen) and chosen.any() else None


def _views(measured: Measurement, length: int, found: Found) -> tuple[View, ...]:
    """Right tokens and losses by place; every bin is there, also without tokens.

    So those of several samples can be added up.
    """
    if found.place is None:
        return ()
    edges = EDGES[measured.by]
    losses = -np.array(found.answer.log_likelihood)
    held = binned(np.array(found.place), edges, np.array(found.answer.right, float), losses)
    places = {above: place for place, above in enumerate(held["above"])}
    columns: dict[str, list[Any]] = {name: [] for name in held}
    for low, high in itertools.pairwise(edges):
        nothing = (low, high if np.isfinite(high) else None, 0, 0.0, None)
        there = places.get(float(low))
        for name, without in zip(held, nothing, strict=True):
            columns[name].append(without if there is None else held[name][there])
    return (View.model_validate({"test_length": length, "by": measured.by} | columns),)


def _joined(before: Record, new: Record) -> Record:
    """One record of both lengths, and the seconds of both; it names a CPU, and the number of its
    threads, if both were measured on one of that kind.
    """
    (row,) = new.rows
    others = [each for each in before.rows if each.test_length != row.test_length]
    views = [each for each in before.views if each.test_length != row.test_length]
    seconds = before.evaluated.evaluation_cpu_seconds + new.evaluated.evaluation_cpu_seconds
    one, other = before.evaluated, new.evaluated
    same = {
        name: getattr(other, name) if getattr(one, name) == getattr(other, name) else None
        for name in ("cpu", "threads")
    }
    return new.model_copy(
        update={
            "rows": sorted([*others, row], key=lambda each: each.test_length),
            "views": tuple(sorted([*views, *new.views], key=lambda each: each.test_length)),
            "training": new.training.model_copy(update=same),
            "evaluated": new.evaluated.model_copy(
                update=same | {"evaluation_cpu_seconds": round(seconds, 3)}
            ),
        }
    )
