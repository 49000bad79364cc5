"""Runs of seconds in this process: a tiny model, its training, what is prepared, its record."""

from __future__ import annotations

from pathlib import Path

from posbench.base.content_hash import content_hash
from posbench.config.compose import Composition, compose
from posbench.config.identity import Identity
from posbench.config.names import MethodName, Name
from posbench.records import files
from posbench.records.record import Record
from posbench.running.checkpoints import Checkpoints
from posbench.running.console import Console
from posbench.running.make import make
from posbench.running.prepare import PreparedModel, preparation_for
from posbench.running.run_spec import RunSpec
from posbench.running.setup import Setup
from posbench.running.subject import setup
from posbench.running.train import TrainedModel, train

TINY = (
    "protocol=smoke",
    "training.min_length=6",
    "training.max_length=16",
    "training.batch_size=4",
    "model.width=32",
    "model.num_heads=2",
    "model.head_width=16",
)


def tiny(folder: Path, *words: str) -> Setup:
    """The set-up of a tiny run with its results in `folder`."""
    run = setup(*TINY, *words)
    # Set here, where composing it anew for each test would cost more than to train.
    run.config.results_dir = str(folder)
    return run


def kept(run: Setup, console: Console | None = None) -> Checkpoints:
    """Where the trainings of the run are kept."""
    config = run.config
    return Checkpoints(config.results_dir, config.trainer, config.force, console or Console())


def trained(run: Setup, console: Console | None = None) -> TrainedModel:
    """The run's training, made or found."""
    run.model(preparation_for(run.extension).longest(run))
    return train(run, kept(run, console), console or Console(), [])


def prepared(run: Setup, after: TrainedModel, console: Console | None = None) -> PreparedModel:
    """What the run tests, after its training."""
    console = console or Console()
    return preparation_for(run.extension).prepare(run, after, kept(run, console), console)


def made(folder: Path, *words: str) -> tuple[Setup, TrainedModel, PreparedModel]:
    """A tiny run up to its test."""
    run = tiny(folder, *words)
    found = trained(run)
    return run, found, prepared(run, found)


def ran(folder: Path, *words: str) -> Record:
    """The record of a whole run in this process, which is called what the words say."""
    cfg = compose(*TINY, *words).cfg()
    cfg.results_dir = str(folder)
    called, digest = " ".join(words), content_hash(words)
    name = Name(name="tiny", hash=digest)
    method = MethodName(
        name=called, changed=("shown",), hash=digest, encoding="rope", extension="direct"
    )
    others = ("audit=", "trainer.", "force=")  # which no record's command has
    computed = tuple(word for word in words if not word.startswith(others))
    spec = RunSpec.named(Composition.of(cfg, {}), Identity(name, name, method, computed))
    make(spec)
    return files.read(spec.path)


def without_seconds(record: Record) -> dict[str, object]:
    """The content of a record without what two runs of one command may differ in."""
    content = record.as_json()
    for part in ("training", "evaluated"):
        content[part] = {
            key: value for key, value in content[part].items() if not key.endswith("_seconds")
        }
    return content
