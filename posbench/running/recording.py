"""Records: building one from a run."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from posbench import provenance
from posbench.composing.identity import Identity
from posbench.composing.legality import method_class
from posbench.errors import Diverged
from posbench.evaluation import true_multiple
from posbench.records.record import Evaluated, Record, in_a_line
from posbench.records.row import Row, View
from posbench.running.devices import device_name
from posbench.running.preparing import Preparation, Prepared
from posbench.running.setup import Setup
from posbench.running.trained import Trained


@dataclass(frozen=True)
class Seconds:
    """CPU seconds of a run besides the shared training."""

    preparation: float = 0.0
    further_training: float = 0.0  # in whichever run it took place
    evaluation: float = 0.0


def record_of(
    setup: Setup,
    identity: Identity,
    trained: Trained,
    prepared: Prepared,
    rows: list[Row],
    views: list[View],
    seconds: Seconds,
) -> Record:
    """The record of a run that is complete."""
    config, curve = setup.config, trained.log.curve
    validated = zip(curve.step, curve.score, strict=True)
    solved = [step for step, score in validated if score >= setup.task.gate]
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
        solved_step=solved[0] if solved else None,
        search=prepared.search,
        finetuning=prepared.finetuning,
        ceiling=prepared.ceiling,
        rows=rows,
        views=tuple(views),
        config=setup.settings,
        evaluated=Evaluated(
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
    trained: Trained,
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
    prepared = Prepared(setup, trained.model, setup.extension)
    record = record_of(setup, identity, trained, prepared, rows, [], seconds)
    return record.model_copy(update={"diverged": in_a_line(str(error))})
