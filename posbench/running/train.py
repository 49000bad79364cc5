"""Trainings that runs share: made once, kept under the hash of all that they depend on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch.utils.flop_counter import FlopCounterMode, conv_flop_count

from posbench.base.errors import Diverged
from posbench.core.attention import Attention, Heads, Plan, dense
from posbench.core.batches import training_batch
from posbench.core.encoding import Wrapper
from posbench.core.scoring import inputs, loss
from posbench.core.training import Training as Trainer
from posbench.core.training import log_point
from posbench.core.transformer import Transformer
from posbench.records.record import Rate, RecordedTraining
from posbench.running.checkpoints import Checkpoints
from posbench.running.console import Console
from posbench.running.devices import device_name
from posbench.running.log import Log
from posbench.running.setup import Setup
from posbench.running.shared_training import SharedTraining


@dataclass(frozen=True)
class TrainedModel:
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
            multiplications=multiplications(self.training.begin()),
            **dict(self.log),
        )


def train(
    setup: Setup, checkpoints: Checkpoints, console: Console, loggers: list[Any]
) -> TrainedModel:
    """The trained model, from the shared checkpoint where there is one.

    Of several learning rates the one with the lowest loss in distribution is kept; no test is
    looked at. Diverged, if training ends with no number at every rate.
    """
    candidates = [*SharedTraining.of(setup)]
    if len(candidates) == 1:
        return _train(candidates[0], checkpoints, loggers)
    found: dict[float, TrainedModel] = {}
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


def _train(training: SharedTraining, checkpoints: Checkpoints, loggers: list[Any]) -> TrainedModel:
    begun = training.begin()
    model = begun.model
    log = checkpoints.train_once(training.hash, training.content, begun, model, loggers)
    return TrainedModel(training, model, log)


def without_weights(setup: Setup, error: Diverged) -> TrainedModel:
    """A training that diverged, with the untrained model in the place of a trained one."""
    training, *others = candidates = [*SharedTraining.of(setup)]
    hardware = device_name(setup.config.trainer.accelerator)
    log = Log.of([], error.cpu_seconds, error.cpu_seconds, hardware)
    lost = [Rate(learning_rate=each.settings.learning_rate, loss=None) for each in candidates]
    return TrainedModel(training, setup.model(), log, lost if others else None)


# -- what a step costs on any machine --------------------------------------------------------------


def multiplications(training: Trainer) -> int:
    """The multiplications of one training step: forward and backward of a batch, all of whose
    sequences have the longest trained length.

    Matrix products and convolutions are counted, by torch's `FlopCounterMode`, with one
    multiplication and one addition for two of its operations. Attention counts as its formula
    does, with whole matrices of scores and weights, whichever kernel executes it: a fused kernel
    would be charged for scores that it computes twice. What an encoding computes before that
    counts as it is written. Elementwise work counts for nothing, and so do cumulative sums,
    gathered and scattered rows, triangular solves and the optimiser. So the shifted sums of
    `ShortConv` are free, and the convolution in PaTH is not.

    Two and four sequences are counted on the CPU in float32, and the rest follows: what a batch
    shares is counted once, and each sequence costs the same. `training` gets no gradient.
    """
    settings = training.settings
    few, more = (_of_batch(training, sequences) for sequences in (2, 4))
    return few + (settings.batch_size - 2) * (more - few) // 2


def _of_batch(training: Trainer, sequences: int) -> int:
    longest = training.settings.max_length
    settings = replace(training.settings, min_length=longest, batch_size=sequences, num_examples=0)
    encodings = training.model.encodings
    explicit = encodings.replaced([Explicit(layer) for layer in encodings])
    batch = training_batch(training.task, settings, training.seed, 0)
    data = inputs(batch, explicit, 0, training=True)
    formulas = {torch.ops.aten.convolution_backward: _backward}
    with torch.random.fork_rng(devices=[]), FlopCounterMode(None, 2, False, formulas) as counter:
        value = loss(training.model.with_encodings(explicit), data)
        torch.autograd.grad(value, [*training.model.parameters()], allow_unused=True)
    return int(counter.get_total_flops()) // 2


class Explicit(Wrapper):
    """Attention with the whole matrix of scores, whatever the host's plan could be executed by."""

    def encode(self, a: Attention) -> Plan:
        return ExplicitHeads((self.host.encode(a),))


class ExplicitHeads(Heads):
    def run(self, block: int) -> torch.Tensor:
        return dense(self, self.num_queries)


def _backward(
    grad: Sequence[int],
    x: Sequence[int],
    weight: Sequence[int],
    *arguments: Any,
    out_shape: Any = None,
    **_: Any,
) -> int:
    """Each gradient of a convolution costs what the convolution did. Torch's own formula charges
    that of the weights as if all channels met, where each has a kernel for itself.
    """
    *_rest, transposed, _padding, _groups, wanted = arguments
    return sum(wanted[:2]) * conv_flop_count([*x], [*weight], [*grad], transposed)
