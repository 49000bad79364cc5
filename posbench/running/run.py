"""One run: train or load, prepare, evaluate, write the record, show the table."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path

import torch

from posbench.base.disk import Lock, make_writable, write_json, writing_to
from posbench.base.errors import Diverged, PosbenchError
from posbench.config import provenance
from posbench.config.identity import Identity
from posbench.config.legality import method_class
from posbench.config.names import in_a_line
from posbench.core.evaluation import true_multiple
from posbench.core.row import Row
from posbench.records import files
from posbench.records.record import MEANINGLESS, Audit, Record, RecordedEvaluation
from posbench.running.audit import refuse_disagreement
from posbench.running.console import Console
from posbench.running.devices import device_name
from posbench.running.length_results import LengthResults
from posbench.running.loggers.metrics import About
from posbench.running.loggers.run_logger import RunLogger, run_logger
from posbench.running.prepare import Preparation, PreparedModel, ReadyRun
from posbench.running.run_spec import Fingerprint, RunSpec
from posbench.running.scores import WithoutExtension
from posbench.running.setup import Setup
from posbench.running.train import TrainedModel, without_weights
from posbench.statistics.measures import steps_to_gate

# -- records ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Seconds:
    """CPU seconds of a run besides the shared training."""

    preparation: float = 0.0
    further_training: float = 0.0  # in whichever run it took place
    evaluation: float = 0.0


def record_of(
    setup: Setup,
    identity: Identity,
    trained: TrainedModel,
    prepared: PreparedModel,
    tested: LengthResults,
    seconds: Seconds,
) -> Record:
    """The record of a run that is complete."""
    config, curve = setup.config, trained.log.curve
    return Record(
        protocol=identity.protocol,
        task=identity.task,
        task_version=setup.task.version,
        measure=in_a_line(setup.task.measure),
        gate=setup.task.gate,
        method=identity.method,
        method_class=in_a_line(method_class(setup.extension, trained.model.encodings)),
        scale_policy=in_a_line(setup.extension.scale_policy),
        seed=config.seed,
        training=trained.record(),
        solved_step=steps_to_gate(curve.step, curve.score, setup.task.gate),
        search=prepared.search,
        finetuning=prepared.finetuning,
        ceiling=prepared.ceiling,
        rows=tested.rows,
        views=tuple(tested.views),
        by_text=tested.by_text,
        config=setup.settings,
        evaluated=RecordedEvaluation(
            source_hash=setup.evaluation_hash,
            device=device_name(config.trainer.accelerator),
            cpu=provenance.cpu(),
            threads=torch.get_num_threads(),
            commit=provenance.commit(),
            versions=provenance.versions(),
            preparation_cpu_seconds=seconds.preparation,
            further_training_cpu_seconds=seconds.further_training,
            evaluation_cpu_seconds=seconds.evaluation,
        ),
        command=str(identity.command(config.seed)),
        definition=config.definition,
    )


def record_of_diverged(
    setup: Setup,
    identity: Identity,
    preparation: Preparation,
    trained: TrainedModel,
    error: Diverged,
    seconds: Seconds,
) -> Record:
    """The record of a run that diverged: no model can be tested, so nothing is right."""
    rows = [
        Row.without_model(
            test_length=n,
            multiple=multiple,
            true_multiple=true_multiple(setup.task, setup.train_length, n),
            aggregated=True,  # no rung is climbed without a model
            total_length=setup.task.total_length(n),
            chance=setup.task.chance(n),
        )
        for n, multiple in preparation.lengths(setup).items()
    ]
    prepared = PreparedModel(setup, trained.model, setup.extension)
    record = record_of(setup, identity, trained, prepared, LengthResults(rows), seconds)
    return record.model_copy(update={"diverged": in_a_line(str(error))})


# -- a run -----------------------------------------------------------------------------------------


def train_and_record(spec: RunSpec, console: Console, only_audit: bool = False) -> None:
    """Make a run, whatever there is of it; or only its audit, beside a record that is there.

    PosbenchError, once all is recorded, if the audit disagrees with the scores.
    """
    ready = ReadyRun.of(spec, console)
    setup = ready.setup
    config = setup.config
    about = About.of(spec.identity, config.seed, spec.fingerprint.hash)
    logger = run_logger(setup.nodes["logger"], about, Path(config.results_dir, "logs"))
    make_writable(config.results_dir)
    with writing_to(config.results_dir):
        hardware = device_name(config.trainer.accelerator)
        console.announce(spec.identity, config.seed, hardware, spec.path)
        logger.begin(setup.settings, console.say)
        try:
            Run(ready).make(logger, only_audit)
        finally:
            logger.close(console.say)
    if config.audit:
        refuse_disagreement(spec.path)


class Run:
    """One run that is being made."""

    def __init__(self, ready: ReadyRun) -> None:
        self.ready, self.setup, self.console = ready, ready.setup, ready.console
        self.identity, self.path = ready.spec.identity, ready.spec.path

    def make(self, logger: RunLogger, only_audit: bool) -> None:
        """Train, prepare, audit where that is asked for, evaluate, record."""
        setup, trained = self.setup, None
        try:
            trained = self.ready.train(logger.for_training)
            started = time.process_time()
            prepared = self.ready.prepare(trained)
            ready = time.process_time()
            if setup.config.audit:
                self.audit(prepared)
            if only_audit:
                return
            before = time.process_time()
            tested = prepared.evaluate()
            seconds = Seconds(
                preparation=ready - started,
                further_training=prepared.cpu_seconds,
                evaluation=time.process_time() - before,
            )
            record = record_of(setup, self.identity, trained, prepared, tested, seconds)
        except Diverged as error:
            # A method that diverges for some seeds must not look as good as its other seeds.
            logger.record(self.record_diverged(error, trained))
            raise
        self.keep(record)
        logger.record(record)
        self.show(record, trained, prepared)

    def audit(self, prepared: PreparedModel) -> None:
        """Decode token by token, keep what that finds, and say it."""
        names = (self.identity.protocol, self.identity.task, self.identity.method)
        protocol, task, method = (name.slug for name in names)
        audit = Audit(
            protocol=protocol,
            task=task,
            method=method,
            seed=self.setup.config.seed,
            source_hash=self.setup.source_hash,
            evaluation_hash=self.setup.evaluation_hash,
            asked=self.setup.config.audit,
            rows=prepared.audit(self.setup.config.audit),
        )
        path = files.audit_path(self.path)
        write_json(audit.model_dump(mode="json"), path)
        count = sum(row.num_samples for row in audit.rows)
        wrong = sum(row.disagreements for row in audit.rows)
        self.console.say(
            f"Audit: greedy decoding and teacher forcing disagree on {wrong} of {count} sequences. "
            f"{path}"
        )

    def record_diverged(self, error: Diverged, trained: TrainedModel | None) -> Record:
        """Write the record of a run whose training diverged, or whose further training did, if
        `trained` is there.
        """
        further = error.cpu_seconds if trained is not None else 0.0
        trained = trained or without_weights(self.setup, error)
        seconds = Seconds(further_training=further)
        preparation = self.ready.preparation
        record = record_of_diverged(self.setup, self.identity, preparation, trained, error, seconds)
        self.keep(record)
        self.console.say(f"Recorded as a run that diverged: {self.path}")
        return record

    def keep(self, record: Record) -> None:
        """Write the record; one of other settings or code that is there stays beside it.

        One of the same run stays alone unless it is to be repeated: a node may lose its locks, and
        another make its run.
        """
        path, force = self.path, self.setup.config.force
        path.parent.mkdir(parents=True, exist_ok=True)
        with Lock(path.with_name("lock")):
            same = path.exists() and _is_of_run(record, path)
            if same and not force:
                self.console.say("Another process, which held no lock against this one, made it.")
                return
            if path.exists() and not same:
                kept = files.kept_beside(path)
                self.console.say(
                    "The record that was there is of other settings or code, or cannot be read; it "
                    f"is kept as {kept.name}."
                )
            for rest in path.parent.glob(f"{path.stem}.*.tmp"):  # of processes that were killed
                rest.unlink(missing_ok=True)
            files.write(record, path)

    def show(self, record: Record, trained: TrainedModel, prepared: PreparedModel) -> None:
        """The table of the run, beside the same weights without the extension."""
        setup = self.setup
        self.console.result(record, self.without_extension(record, trained))
        seconds = trained.log.cpu_seconds + prepared.cpu_seconds
        self.console.kept(seconds, self.path, Path(setup.config.results_dir))
        if said := MEANINGLESS.get(self.identity.protocol.name):
            self.console.say(said)

    def without_extension(self, record: Record, trained: TrainedModel) -> list[Row] | None:
        """The rows of the same weights alone, measured once; None where the record has these."""
        setup = self.setup
        kept = WithoutExtension(record, setup.config.results_dir)
        if not setup.extension.changes and not setup.extension.trains:
            kept.keep(record.rows)
            return None
        base = None if setup.config.force else kept.rows()
        if base is None:
            base, _ = setup.evaluation.evaluate(trained.model.to(setup.device), None)
            kept.keep(base)
        return base


def _is_of_run(record: Record, path: Path) -> bool:
    """Whether a file has a record of the same run."""
    try:
        return Fingerprint.of(files.read(path)) == Fingerprint.of(record)
    except PosbenchError:  # it is damaged, and nothing that was made is lost over that
        return False
