"""What happens to a trained model before it is tested: one class for each kind of extension."""

from __future__ import annotations

import copy
import dataclasses
import logging
import warnings
from abc import ABC, abstractmethod
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import torch

from posbench.base.content_hash import content_hash
from posbench.base.disk import writing_to
from posbench.base.errors import ConfigError, Diverged, IllegalExtension
from posbench.config.legality import legal_encodings
from posbench.config.provenance import without_places
from posbench.core.evaluation import nearest
from posbench.core.extension import EarlyFineTuning, Extension, FineTuning, Searched
from posbench.core.settings import TrainingConfig
from posbench.core.streams import stream_seed
from posbench.core.training import Training
from posbench.core.transformer import Transformer
from posbench.records.record import (
    AuditRow,
    CeilingTraining,
    RecordedFineTuning,
    RecordedTrial,
    Search,
)
from posbench.running.audit import audit
from posbench.running.before_training import refuse_wrong_shapes
from posbench.running.checkpoints import Checkpoints
from posbench.running.console import Console
from posbench.running.length_results import LengthResults
from posbench.running.memory import refuse_too_large
from posbench.running.run_spec import RunSpec
from posbench.running.setup import Setup
from posbench.running.train import TrainedModel, train


@dataclass(frozen=True)
class PreparedModel:
    """A model with an extension, ready to be tested, and what was spent on the pair."""

    setup: Setup
    model: Transformer
    extension: Extension
    search: Search | None = None
    finetuning: RecordedFineTuning | None = None
    ceiling: list[CeilingTraining] | None = None
    cpu_seconds: float = 0.0  # of further training, in whichever run it took place

    def evaluate(self) -> LengthResults:
        """What its tests found."""
        return LengthResults.of(self.setup, self.placed(), self.extension)

    def audit(self, num_samples: int) -> list[AuditRow]:
        """Greedy decoding beside teacher forcing, at every test length."""
        return audit(self.setup.evaluation, self.placed(), self.extension, num_samples)

    def placed(self) -> Transformer:
        """The model, on the device that it is tested on."""
        return self.model.to(self.setup.device)


class Preparation(ABC):
    """What happens between the training of a model and its test."""

    def longest(self, setup: Setup) -> int:
        """Positions of the longest sequence between training and tests; 0 where there is none."""
        return 0

    def lengths(self, setup: Setup) -> dict[int, float]:
        """The test lengths n, with their multiples."""
        return setup.lengths.multiples

    @abstractmethod
    def prepare(
        self, setup: Setup, trained: TrainedModel, checkpoints: Checkpoints, console: Console
    ) -> PreparedModel:
        """Do what has to be done before the test. Diverged, where that is a training."""


def preparation_for(extension: Extension) -> Preparation:
    """What an extension asks for; nothing else asks of which kind it is."""
    if isinstance(extension, Searched):
        return SearchPreparation(extension)
    if isinstance(extension.finetuning, EarlyFineTuning):
        return EarlyFineTuningPreparation(extension.finetuning)
    if extension.finetuning is not None:
        return FineTuningPreparation(extension.finetuning)
    if extension.retrained:
        return CeilingPreparation(extension.retrained)
    return NoPreparation()


class NoPreparation(Preparation):
    """The trained model and the extension are tested as they are."""

    def prepare(
        self, setup: Setup, trained: TrainedModel, checkpoints: Checkpoints, console: Console
    ) -> PreparedModel:
        return PreparedModel(setup, trained.model, setup.extension)


class SearchPreparation(Preparation):
    """Settings of the extension are chosen on a validation length."""

    def __init__(self, searched: Searched) -> None:
        self.searched = searched

    def longest(self, setup: Setup) -> int:
        return setup.task.num_positions(self._length(setup))

    def _length(self, setup: Setup) -> int:
        """The length on which settings are chosen, refused where the result is tested on it."""
        trained = setup.train_length
        n = nearest(setup.task, trained, self.searched.multiple)
        if any(n in setup.task.tested(each, trained) for each in setup.lengths.multiples):
            tested = ", ".join(f"{each:g}" for each in setup.lengths.multiples.values())
            raise ConfigError(
                f"extension.multiple={self.searched.multiple:g} chooses settings at n = {n}, which "
                f"is a test length: choose another multiple than those of the tests, {tested}"
            )
        return n

    def prepare(
        self, setup: Setup, trained: TrainedModel, checkpoints: Checkpoints, console: Console
    ) -> PreparedModel:
        n, tests, seed = self._length(setup), setup.evaluation, setup.config.seed
        budget = self.searched.budget
        console.say(f"Trying up to {budget} settings at n = {n}, which is no test length.")
        model = trained.model.to(setup.device).eval()
        num_samples = setup.config.training.validation_samples
        batch = setup.task.batch(n, num_samples, seed, "validation", n)

        def loss(extension: Extension) -> float:
            return tests.predict(tests.extend(model, extension, n), model, batch).mean_loss

        rng = np.random.default_rng(stream_seed(seed, "search"))
        trials = self.searched.trials(model.encodings, tests.spans(model, n)[0], rng, loss)
        tried = [RecordedTrial(settings=trial.settings, loss=trial.loss) for trial in trials]
        search = Search(length=n, num_samples=num_samples, trials=tried)
        return PreparedModel(setup, model, trials[0].extension, search=search)


class FineTuningPreparation(Preparation):
    """Training goes on with the extension, from the shared weights."""

    def __init__(self, finetuning: FineTuning) -> None:
        self.finetuning = finetuning

    def longest(self, setup: Setup) -> int:
        training = setup.config.training.candidates[0]
        settings = self.finetuning.settings(training.after(training.total_steps), setup.task)
        return setup.positions(settings) + setup.shift

    def prepare(
        self, setup: Setup, trained: TrainedModel, checkpoints: Checkpoints, console: Console
    ) -> PreparedModel:
        made = trained.log.curve.step[-1]
        settings = self.finetuning.settings(trained.training.settings.after(made), setup.task)
        return self.continued(setup, trained, settings, checkpoints, console)

    def continued(
        self,
        setup: Setup,
        trained: TrainedModel,
        settings: TrainingConfig,
        checkpoints: Checkpoints,
        console: Console,
    ) -> PreparedModel:
        """Train further from these weights."""
        resolved = {"lengths": settings.lengths, "steps": settings.total_steps}
        content = {
            "start": trained.training.hash,
            "extension": without_places(setup.nodes["extension"]),
            "training": settings.content | resolved,
            "source": setup.evaluation_hash,
        }
        longest_n = settings.lengths[1]
        console.say(f"Fine-tuning: {settings.total_steps} steps with n up to {longest_n}.")
        tuned = copy.deepcopy(trained.model).cpu()  # the shared weights stay as they are
        span = tuned.encodings.span(setup.train_positions + setup.shift, training=True)
        longest = tuned.encodings.span(setup.positions(settings) + setup.shift)
        extended = tuned.with_encodings(setup.extension.extend(tuned.encodings, span, longest))
        seed = stream_seed(setup.config.seed, "fine-tuning")
        training = Training(extended.train(), setup.task, settings, seed)
        reference = content_hash(content)
        log = checkpoints.train_once(reference, content, training, tuned, [])
        finetuning = RecordedFineTuning(
            hash=reference,
            steps=settings.total_steps,
            lengths=settings.lengths,
            curve=log.curve,
            device=log.device,
        )
        return PreparedModel(
            setup,
            tuned,
            setup.extension,
            finetuning=finetuning,
            cpu_seconds=log.cpu_seconds,
        )


class EarlyFineTuningPreparation(FineTuningPreparation):
    """Training goes on with the extension, from the weights at a share of the training."""

    def __init__(self, finetuning: EarlyFineTuning) -> None:
        super().__init__(finetuning)
        self.early = finetuning

    def longest(self, setup: Setup) -> int:
        training = setup.config.training.candidates[0]
        self.early.begins(training, training.total_steps)  # refuse now, not after training
        return super().longest(setup)

    def prepare(
        self, setup: Setup, trained: TrainedModel, checkpoints: Checkpoints, console: Console
    ) -> PreparedModel:
        whole, made = trained.training.settings, trained.log.curve.step[-1]
        step = self.early.begins(whole, made)
        console.say(f"Training again to step {step}, before the rate falls.")
        there = setup.at_constant_rate(step, whole.learning_rate)
        before = train(there, checkpoints, console, [])
        settings = self.finetuning.settings(whole.after(made), setup.task)
        spent = before.log.cpu_seconds
        try:
            found = self.continued(setup, before, settings, checkpoints, console)
        except Diverged as error:
            raise Diverged(str(error), error.cpu_seconds + spent) from error
        return dataclasses.replace(found, cpu_seconds=found.cpu_seconds + spent)


@dataclass(frozen=True)
class CeilingModels(PreparedModel):
    """A model for each test length."""

    models: tuple[tuple[Setup, Transformer], ...] = ()

    def evaluate(self) -> LengthResults:
        return LengthResults.joined(
            [LengthResults.of(setup, model.to(setup.device), None) for setup, model in self.models]
        )

    def audit(self, num_samples: int) -> list[AuditRow]:
        return [
            row
            for setup, model in self.models
            for row in audit(setup.evaluation, model.to(setup.device), None, num_samples)
        ]


class CeilingPreparation(Preparation):
    """The same model is trained anew at some of the test lengths."""

    def __init__(self, multiples: Collection[float]) -> None:
        self.multiples = multiples

    def lengths(self, setup: Setup) -> dict[int, float]:
        tested = setup.lengths.multiples.items()
        return {n: multiple for n, multiple in tested if multiple in {1.0, *self.multiples}}

    def prepare(
        self, setup: Setup, trained: TrainedModel, checkpoints: Checkpoints, console: Console
    ) -> PreparedModel:
        models: list[tuple[Setup, TrainedModel]] = []
        wasted = 0.0
        for n, multiple in self.lengths(setup).items():
            there = setup.at(n)
            if multiple == 1:
                models.append((there, trained))
                continue
            console.say(f"Training at {multiple:g}x, with n up to {there.train_length}.")
            try:
                models.append((there, train(there, checkpoints, console, [])))
            except Diverged as error:
                console.say(f"Left out: {error}")
                wasted += error.cpu_seconds
        return CeilingModels(
            setup,
            trained.model,
            setup.extension,
            ceiling=[_training_of(there, each) for there, each in models],
            cpu_seconds=wasted
            + sum(each.log.cpu_seconds for _, each in models if each is not trained),
            models=tuple((there, each.model) for there, each in models),
        )


def _training_of(setup: Setup, trained: TrainedModel) -> CeilingTraining:
    [n] = setup.lengths.multiples
    return CeilingTraining(
        test_length=n,
        hash=trained.training.hash,
        learning_rate=trained.training.settings.learning_rate,
        steps=trained.log.curve.step[-1],
        cpu_seconds=trained.log.cpu_seconds,
    )


# -- from a run that is asked for to a prepared model, which runs, pages and exports ---------------


@dataclass(frozen=True)
class ReadyRun:
    """A run whose model can be built and extended, on a device that is there. Its training goes
    into the results folder, and a sentence names what a disk refuses.
    """

    spec: RunSpec
    setup: Setup
    preparation: Preparation
    checkpoints: Checkpoints
    console: Console

    @classmethod
    def of(cls, spec: RunSpec, console: Console) -> Self:
        """The run, if it can be made: a mistake is refused before anything is written."""
        quiet()
        setup = Setup.of(spec.composed.cfg())
        config = setup.config
        torch.set_num_threads(config.trainer.threads)
        refuse_too_large(setup)
        preparation = preparation_for(setup.extension)
        try:
            setup.model(preparation.longest(setup))
        except IllegalExtension as error:
            method = spec.identity.method
            legal = ", ".join(legal_encodings(setup.composed.extension))
            raise IllegalExtension(
                f"extension {method.extension} cannot extend encoding {method.encoding}: {error}"
                + (f"; it can extend {legal}" if legal else "")
            ) from None
        refuse_wrong_shapes(setup)
        places = config.results_dir, config.trainer, config.force, console, config.zoo
        checkpoints = Checkpoints(*places)
        return cls(spec, setup, preparation, checkpoints, console)

    def train(self, loggers: Sequence[Any] = ()) -> TrainedModel:
        """The trained model, from the shared checkpoint where there is one."""
        with writing_to(self.setup.config.results_dir):
            return train(self.setup, self.checkpoints, self.console, list(loggers))

    def prepare(self, trained: TrainedModel) -> PreparedModel:
        """What is tested: the trained model after all that the extension asks for before that."""
        with writing_to(self.setup.config.results_dir):
            return self.preparation.prepare(self.setup, trained, self.checkpoints, self.console)


def quiet() -> None:
    """Silence what libraries say about themselves; our own sentences go through `Console`."""
    warnings.filterwarnings("ignore", module=r"(lightning|torch|hydra|omegaconf)(\..*)?")
    for name in ("lightning", "lightning.pytorch", "lightning.fabric", "torch"):
        logging.getLogger(name).setLevel(logging.ERROR)
