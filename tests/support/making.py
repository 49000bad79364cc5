"""Small records, complete in every part, and records with other values in some of their fields."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from posbench.base.content_hash import content_hash
from posbench.config.names import MethodName, Name
from posbench.config.record_command import Command
from posbench.core.row import Row, View
from posbench.records import files
from posbench.records.record import (
    Audit,
    Record,
    RecordedCurve,
    RecordedEvaluation,
    RecordedTraining,
)

DIRECT = {"_target_": "posbench.extensions.direct.Direct"}
"""What the configuration of a run without an extension says of it."""
VERSIONS = {"python": "3.11.7", "torch": "2.9.0+cpu"}


def record(
    method: str = "rope",
    accuracies: Mapping[float, float] | None = None,
    seed: int = 0,
    protocol: str = "cpu",
    task: str = "copy",
    version: int = 1,
    further: Sequence[float] = (),
    extension: str = "other",
    encoding: str | None = None,
    host: str | None = None,
    **hashes: str,
) -> Record:
    """A small record; `accuracies` by multiple of a training length of 10, solved from .95 at 1x.

    Names are given as they are shown, "copy (task.num_symbols=8)". The encoding is called like the
    method unless it is told.
    """
    accuracies = accuracies or {1: 1.0, 2: 0.5}
    solved = accuracies.get(1, 0.0) >= 0.95

    def parts(part: str, label: str) -> dict[str, Any]:
        name, _, settings = label.removesuffix(")").partition(" (")
        changed = tuple(settings.split(", ")) if settings else ()
        digest = hashes.get(f"{part}_hash", content_hash(label))
        return {"name": name, "changed": changed, "hash": digest}

    groups = {"protocol": protocol, "task": task, "method": method}
    called = {group: parts(group, label) for group, label in groups.items()}
    named = called["method"]
    words = [f"{group}={each['name']}" for group, each in called.items()]
    changes = [change for each in called.values() for change in each["changed"]]
    words += [change for change in changes if "." in change]
    own = tuple(change for change in named["changed"] if change.startswith("encoding."))
    return Record(
        protocol=Name(**called["protocol"]),
        task=Name(**called["task"]),
        task_version=version,
        measure="sequence accuracy",
        gate=0.95,
        method=MethodName(
            **named,
            encoding=encoding or named["name"],
            host=host,
            extension=extension,
            encoding_changed=own,
        ),
        method_class="zero-shot",
        scale_policy="none",
        seed=seed,
        training=training(settings_hash=content_hash([task, method, seed])),
        solved_step=100 if solved else None,
        rows=[
            row(multiple, accuracy, multiple not in further)
            for multiple, accuracy in accuracies.items()
        ],
        config={
            "task": {"_target_": "nowhere.Task"},
            "encoding": {"_target_": "nowhere.Encoding"},
            "extension": {"_target_": "nowhere.Extension"},
            "evaluation": {"num_samples": 16},
        },
        evaluated=evaluated(),
        command=str(Command("posbench", (*words, f"seed={seed}"))),
    )


def training(**values: Any) -> RecordedTraining:
    """A training of minutes, with some values of its own."""
    usual = RecordedTraining(
        settings_hash="0",
        source_hash="0",
        train_length=10,
        train_positions=22,
        learning_rate=1e-3,
        steps=100,
        parameters=1000,
        curve=RecordedCurve(
            step=[50, 100], loss=[2.0, 1.0], validation_loss=[1.5, 1.0], score=[0.25, 1.0]
        ),
        device="cpu",
        commit="c0ffee",
        versions=VERSIONS,
        cpu_seconds=60.0,
        wall_seconds=61.0,
    )
    return usual.model_copy(update=values)


def evaluated() -> RecordedEvaluation:
    return RecordedEvaluation(
        source_hash="0",
        device="cpu",
        commit="c0ffee",
        versions=VERSIONS,
        preparation_cpu_seconds=0.0,
        further_training_cpu_seconds=0.0,
        evaluation_cpu_seconds=1.0,
    )


def row(
    multiple: float,
    accuracy: float,
    aggregated: bool = True,
    train_length: int = 10,
    num_samples: int = 16,
    chance: float = 0.001,
    loss: float = 1.0,
) -> Row:
    """A tested length of a task whose answer is as long as its prompt, as copying."""
    n = round(train_length * multiple)
    beyond = multiple > 1
    return Row(
        test_length=n,
        multiple=multiple,
        true_multiple=multiple,
        aggregated=aggregated,
        total_length=2 * n + 3,
        test_positions=2 * n + 2,
        num_samples=num_samples,
        num_tokens=num_samples * (n + 1),
        num_tokens_within=0 if beyond else num_samples * n,
        num_tokens_beyond=num_samples * n if beyond else 0,
        score=accuracy,
        proficiency=accuracy,
        sequence_accuracy=accuracy,
        sequence_accuracy_without_end=accuracy,
        correct_prefix=accuracy,
        token_accuracy_teacher_forced=accuracy,
        token_accuracy_within_trained_distance=None if beyond else accuracy,
        token_accuracy_beyond_trained_distance=accuracy if beyond else None,
        loss=loss,
        chance=chance,
        untrained=None,
    )


def view(by: str, n: int, *bins: tuple[float, float | None, int, float, float]) -> View:
    """Each bin: its two edges, the tokens in it, the share of right ones and their loss."""
    above, up_to, counts, right, lost = (list(each) for each in zip(*bins, strict=True))
    return View(
        test_length=n,
        by=by,
        above=above,
        up_to=up_to,
        num_tokens=counts,
        token_accuracy_teacher_forced=right,
        loss=lost,
    )


def searched(settings: dict[str, Any]) -> dict[str, Any]:
    """What a record says of a search that chose these settings."""
    return {"length": 20, "num_samples": 16, "trials": [{"settings": settings, "loss": 0.5}]}


def changed(record: Record, values: Mapping[str, Any]) -> Record:
    """The record with other values, by their places: {"training.source_hash": "1"}."""
    return Record.model_validate(altered(record, values))


def altered(record: Record, values: Mapping[str, Any]) -> dict[str, Any]:
    """The content of the record with other values, valid or not."""
    content = record.as_json()
    for place, value in values.items():
        *path, last = [int(word) if word.isdigit() else word for word in place.split(".")]
        part: Any = content
        for word in path:
            part = part[word]
        part[last] = _as_json(value)
    return content


def _as_json(value: Any) -> Any:
    if isinstance(value, list | tuple):
        return [_as_json(each) for each in value]
    return value.model_dump(mode="json") if isinstance(value, BaseModel) else value


def audits_of(*found: Record) -> list[Audit]:
    """An audit of each record, of no test length."""
    names = ("protocol", "task", "method", "seed", "source_hash", "evaluation_hash")
    keys = [dict(zip(names, Audit.key_of(each), strict=True)) for each in found]
    return [Audit(**key, rows=[]) for key in keys]


def plain(record: Record) -> Record:
    """The record as one of a run without an extension."""
    return changed(record, {"config.extension": DIRECT, "method.extension": "direct"})


def save(folder: Path, *found: Record) -> list[Path]:
    """Write records of one's own; returns where they are."""
    paths = [files.path_of(each, folder) for each in found]
    for path, each in zip(paths, found, strict=True):
        files.write(each, path)
    return paths
