"""A run that is asked for: its name, where its record belongs, and whether that is there already.

Nothing here imports torch before a training is asked for, so that what is complete is recognised at
once.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Self

from omegaconf import OmegaConf

from posbench.base.content_hash import content_hash
from posbench.base.disk import is_held
from posbench.config import provenance
from posbench.config.building import build, class_of
from posbench.config.compose import Composition
from posbench.config.identity import Identity, named
from posbench.config.record_command import Command
from posbench.records import files
from posbench.records.files import LOCAL
from posbench.records.record import Audit, Record
from posbench.running.scores import CHECKPOINTS


@dataclass(frozen=True)
class Fingerprint:
    """All that decides what a run finds: a record with the same says what the run would say."""

    protocol: str  # hashes of settings
    task: str
    method: str
    seed: int
    task_version: int
    training: str  # hashes of code
    evaluation: str
    versions: tuple[str | None, ...]  # of what computes, in training and in tests

    @classmethod
    def of(cls, record: Record) -> Self:
        """What was asked for when a record was made."""
        return cls(
            record.protocol.hash,
            record.task.hash,
            record.method.hash,
            record.seed,
            record.task_version,
            record.training.source_hash,
            record.evaluated.source_hash,
            (*_computing(record.training.versions), *_computing(record.evaluated.versions)),
        )

    @property
    def hash(self) -> str:
        """What dashboards know the run by, however often it is begun."""
        return content_hash(asdict(self))


@dataclass(frozen=True)
class RunSpec:
    """A requested run: its name, the path of its record, and its fingerprint."""

    composed: Composition
    identity: Identity
    path: Path  # of its record
    fingerprint: Fingerprint

    @classmethod
    def of(cls, composed: Composition) -> Self:
        """The run that a configuration describes; ConfigError if it names what there is not."""
        return cls.named(*named(composed))

    @classmethod
    def named(cls, composed: Composition, identity: Identity) -> Self:
        """What a composed run asks for, where its names are known."""
        content = composed.content
        names = (identity.protocol.slug, identity.task.slug, identity.method.slug)
        computing = _computing(_versions())
        fingerprint = Fingerprint(
            identity.protocol.hash,
            identity.task.hash,
            identity.method.hash,
            content["seed"],
            _task_version(content["task"].get("_target_"), composed),
            provenance.training_hash(content),
            provenance.evaluation_hash(content["extension"]),
            computing + computing,
        )
        path = files.record_path(content["results_dir"], *names, content["seed"])
        return cls(composed, identity, path, fingerprint)

    def with_seed(self, seed: int) -> Self:
        """The same run with another seed."""
        return replace(
            self,
            composed=self.composed.but(seed=seed),
            path=self.path.with_name(f"seed={seed}.json"),
            fingerprint=replace(self.fingerprint, seed=seed),
        )

    @property
    def seed(self) -> int:
        seed: int = self.composed.content["seed"]
        return seed

    @property
    def title(self) -> str:
        return self.identity.title(self.seed)

    @property
    def command(self) -> Command:
        """The command that repeats it."""
        return self.identity.command(self.seed)

    @property
    def command_there(self) -> Command:
        """The command that repeats it in the same results folder."""
        if self.results_dir == LOCAL:
            return self.command
        words = (*self.command.words, f"results_dir={self.results_dir}")
        return replace(self.command, words=words)

    @property
    def results_dir(self) -> Path:
        return Path(self.composed.content["results_dir"])

    @property
    def key(self) -> str:
        """What tells it from other runs of its results folder: the path of its record there."""
        return str(self.path.relative_to(self.results_dir))

    @functools.cached_property
    def training_hashes(self) -> list[str]:
        """The hashes that its trainings are kept under, one for each learning rate that it tries.
        It builds the task and the encoding, so it imports torch.
        """
        from posbench.running.setup import Setup
        from posbench.running.shared_training import SharedTraining

        return [each.hash for each in SharedTraining.of(Setup.of(self.composed.cfg()))]

    @property
    def has_weights(self) -> bool:
        """Whether the results folder keeps what its trainings made. It imports torch."""
        from posbench.running.checkpoints import FINISHED

        return all((folder / FINISHED).exists() for folder in self._trainings())

    def is_being_trained(self, patience: float = 0.0) -> bool:
        """Whether a process makes one of its trainings, for longer than some seconds. It imports
        torch.
        """
        from posbench.running.checkpoints import LOCK

        return not self.has_weights and any(
            is_held(folder / LOCK, patience) for folder in self._trainings()
        )

    def _trainings(self) -> list[Path]:
        return [self.results_dir / CHECKPOINTS / each for each in self.training_hashes]

    @property
    def may_be_found(self) -> bool:
        """Whether a record is all that it asks for."""
        return not (self.composed.content["force"] or self.composed.content["audit"])

    @property
    def is_complete(self) -> bool:
        """Whether nothing is left to be made of it: single runs, sweeps and their status agree."""
        record = self.record()
        return record is not None and bool(record.diverged or self._is_audited(record))

    def _is_audited(self, record: Record) -> bool:
        """Whether the record has the audit that is asked for, if one is, without a disagreement."""
        path = files.audit_path(self.path)
        if not (asked := self.composed.content["audit"]):
            return True
        if not os.path.exists(path):  # noqa: PTH110 (as below)
            return False
        audit = files.read_audit(path)
        return audit.key == Audit.key_of(record) and audit.asked >= asked and audit.agrees

    def record(self) -> Record | None:
        """Its record, if it is there and nothing that it depends on has changed."""
        # `Path.exists` raises where a folder may not be read; writing to it says so.
        there = os.path.exists(self.path)  # noqa: PTH110
        if self.composed.content["force"] or not there:
            return None
        record = files.read(self.path)
        return record if Fingerprint.of(record) == self.fingerprint else None


def remark(record: Record, path: Path) -> str:
    """The sentence on a run whose record is there."""
    said = f"Diverged: {record.diverged}" if record.diverged else "Complete already"
    return f"{said}: {path} (force=true repeats it, and logs it again)."


def _task_version(target: str | None, composed: Composition) -> int:
    try:
        return int(class_of(target, "task").version)
    except Exception:  # building it says what is wrong
        task: Any = OmegaConf.to_container(composed.cfg().task, resolve=True)
        return int(build(task, "task").version)


@functools.cache
def _versions() -> dict[str, str]:
    return provenance.versions()


def _computing(versions: Mapping[str, str]) -> tuple[str | None, ...]:
    return tuple(provenance.minor(versions.get(name)) for name in provenance.COMPARED)
