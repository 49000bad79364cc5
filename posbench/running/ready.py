"""From a run that is asked for to a prepared model, which runs, pages and exports all need."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

import torch

from posbench.composing.legality import legal_encodings
from posbench.disk import writing_to
from posbench.errors import IllegalExtension
from posbench.running.checkpoints import Checkpoints
from posbench.running.console import Console
from posbench.running.memory import refuse_too_large
from posbench.running.preparing import Preparation, Prepared, preparation_for
from posbench.running.run_spec import RunSpec
from posbench.running.setup import Setup
from posbench.running.shapes import refuse_wrong_shapes
from posbench.running.trained import Trained, train


@dataclass(frozen=True)
class Ready:
    """A run whose model can be built and extended, on a device that is there. Its training goes
    into the results folder, and what a disk refuses is said in a sentence.
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
            legal = ", ".join(legal_encodings(setup.composed.extension)) or "no encoding"
            raise IllegalExtension(
                f"extension {method.extension} cannot extend encoding {method.encoding}: {error}; "
                f"it can extend {legal}"
            ) from None
        refuse_wrong_shapes(setup)
        checkpoints = Checkpoints(config.results_dir, config.trainer, config.force, console)
        return cls(spec, setup, preparation, checkpoints, console)

    def train(self, loggers: Sequence[Any] = ()) -> Trained:
        """The trained model, from the shared checkpoint where there is one."""
        with writing_to(self.setup.config.results_dir):
            return train(self.setup, self.checkpoints, self.console, list(loggers))

    def prepare(self, trained: Trained) -> Prepared:
        """What is tested: the trained model after all that the extension asks for before that."""
        with writing_to(self.setup.config.results_dir):
            return self.preparation.prepare(self.setup, trained, self.checkpoints, self.console)


def quiet() -> None:
    """Silence what libraries say about themselves; our own sentences go through `Console`."""
    warnings.filterwarnings("ignore", module=r"(lightning|torch|hydra|omegaconf)(\..*)?")
    for name in ("lightning", "lightning.pytorch", "lightning.fabric", "torch"):
        logging.getLogger(name).setLevel(logging.ERROR)
