"""Trainings that runs share: made once, kept under the hash of all that they depend on."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from posbench.base.errors import Diverged
from posbench.core.training import log_point
from posbench.core.transformer import Transformer
from posbench.records.record import Rate, RecordedTraining
from posbench.running.checkpoints import Checkpoints, Log
from posbench.running.console import Console
from posbench.running.devices import device_name
from posbench.running.setup import Setup
from posbench.running.shared_training import SharedTraining


@dataclass(frozen=True)
class Trained:
    """A model and what its training left behind."""

    training: SharedTraining  # with the learning rate that was kept, where there were several
    model: Transformer
    log: Log
    rates: list[Rate] | None = None  # the learning rates tried, where there were several

    def record(self) -> RecordedTraining:
        """The part that the records of all its runs have in common."""
        setup = self.training.setup
        return RecordedTraining(
            settings_hash=self.training.settings_hash,
            source_hash=setup.source_hash,
            train_length=setup.train_length,
            train_positions=setup.train_positions,
            learning_rate=self.training.settings.learning_rate,
            learning_rates=self.rates,
            steps=self.log.curve.step[-1] if self.log.curve.step else None,
            parameters=sum(parameter.numel() for parameter in self.model.parameters()),
            **dict(self.log),
        )


def train(setup: Setup, checkpoints: Checkpoints, console: Console, loggers: list[Any]) -> Trained:
    """The trained model, from the shared checkpoint where there is one.

    Of several learning rates the one with the lowest loss in distribution is kept; no test is
    looked at. Diverged, if training ends with no number at every rate.
    """
    candidates = [*SharedTraining.of(setup)]
    if len(candidates) == 1:
        return _train(candidates[0], checkpoints, loggers)
    found: dict[float, Trained] = {}
    wasted = 0.0
    tried = [each.settings.learning_rate for each in candidates]
    for rate, training in zip(tried, candidates, strict=True):
        console.say(f"Learning rate {rate:g}, one of {len(candidates)}:")
        try:
            found[rate] = _train(training, checkpoints, [])
        except Diverged as error:
            console.say(f"Left out: {error}")
            wasted += error.cpu_seconds
    if not found:
        rates = setup.config.training.learning_rate
        raise Diverged(f"training diverged at every learning rate of {rates}: lower them", wasted)
    lost = {rate: trained.log.curve.validation_loss[-1] for rate, trained in found.items()}
    best = min(found, key=lambda rate: lost[rate])
    for logger in loggers:
        for point in found[best].log.points():
            log_point(logger, point)
    console.say(f"Kept: learning rate {best:g}, by its loss in distribution.")
    log = found[best].log.model_copy(
        update={
            "cpu_seconds": wasted + sum(trained.log.cpu_seconds for trained in found.values()),
            "wall_seconds": sum(trained.log.wall_seconds for trained in found.values()),
        }
    )
    rates = [Rate(learning_rate=rate, loss=lost.get(rate)) for rate in tried]
    return replace(found[best], rates=rates, log=log)


def _train(training: SharedTraining, checkpoints: Checkpoints, loggers: list[Any]) -> Trained:
    begun = training.begin()
    model = begun.model
    log = checkpoints.train_once(training.hash, training.content, begun, model, loggers)
    return Trained(training, model, log)


def without_weights(setup: Setup, error: Diverged) -> Trained:
    """A training that diverged, with the untrained model in the place of a trained one."""
    training, *others = candidates = [*SharedTraining.of(setup)]
    hardware = device_name(setup.config.trainer.accelerator)
    log = Log.of([], error.cpu_seconds, error.cpu_seconds, hardware)
    lost = [Rate(learning_rate=each.settings.learning_rate, loss=None) for each in candidates]
    return Trained(training, setup.model(), log, lost if others else None)
