"""A training with all that its weights depend on: runs that ask for the same share them."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Self

from posbench.base.content_hash import content_hash
from posbench.config.provenance import trained_by, without_places
from posbench.core.settings import TrainingConfig, without_off
from posbench.core.training import Training
from posbench.core.until_learned import UntilLearned
from posbench.records.record import weights_hash
from posbench.running.setup import Setup

CLASSES = {each.__module__: each for each in (Training, UntilLearned)}
"""What trains, by its module."""


@dataclass(frozen=True)
class SharedTraining:
    """The training of a setup with some settings: with one learning rate, where it has several."""

    setup: Setup
    settings: TrainingConfig

    @classmethod
    def of(cls, setup: Setup) -> Iterator[Self]:
        """The trainings that a run asks for, one for each learning rate."""
        for settings in setup.config.training.candidates:
            yield cls(setup, settings)

    @property
    def dependencies(self) -> dict[str, Any]:
        """All but the code that the weights depend on; the extension is not among it."""
        setup, settings = self.setup, self.settings
        resolved = {"lengths": settings.lengths, "total_steps": settings.total_steps}
        return {
            "encoding": without_places(setup.nodes["encoding"]),
            "task": [without_places(setup.nodes["task"]), setup.task.version],
            "model": without_off(dataclasses.asdict(setup.config.model)),
            "training": settings.content | resolved,
            "seed": setup.config.seed,
        }

    @property
    def content(self) -> dict[str, Any]:
        """All that the weights depend on, the code by its hash."""
        return self.dependencies | {"source": self.setup.source_hash}

    @property
    def settings_hash(self) -> str:
        return content_hash(self.dependencies)

    @property
    def hash(self) -> str:
        return weights_hash(self.settings_hash, self.setup.source_hash)

    @property
    def family(self) -> str:
        """A hash that trainings have in common which differ in their seed alone."""
        content = self.content
        return content_hash({name: content[name] for name in content.keys() - {"seed"}})

    def begin(self) -> Training:
        """The training, with an untrained model."""
        setup = self.setup
        training = CLASSES[trained_by(setup.nodes["training"])]
        return training(setup.model(), setup.task, self.settings, setup.config.seed)
