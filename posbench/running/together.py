"""Trainings of several runs made in step, before the runs are made one after the other."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import filelock
import torch

from posbench.config import TrainingConfig
from posbench.errors import Diverged, PosbenchError
from posbench.provenance import content_hash
from posbench.replicas.curves import OwnCurve
from posbench.replicas.fitting import fit_together
from posbench.replicas.trainings import CannotReplicate
from posbench.running.checkpoints import Checkpoints, obeying_signals, stopped
from posbench.running.console import Console
from posbench.running.devices import device
from posbench.running.run_spec import RunSpec
from posbench.running.setup import Setup
from posbench.training import Training


@dataclass(frozen=True)
class Share:
    """A training that runs ask for."""

    setup: Setup
    settings: TrainingConfig

    @classmethod
    def of(cls, spec: RunSpec) -> Iterator[Share]:
        """The shares of a run, one for each learning rate."""
        setup = Setup.of(spec.composed.cfg())
        torch.set_num_threads(setup.config.trainer.threads)
        for settings in setup.config.training.candidates:
            yield cls(setup, settings)

    @property
    def reference(self) -> str:
        return self.setup.training_hash(self.settings)

    @property
    def content(self) -> dict[str, Any]:
        """What `reference` is the hash of."""
        source = {"source": self.setup.source_hash}
        return self.setup.training_settings(self.settings) | source

    @property
    def family(self) -> str:
        """A hash that trainings have in common which differ in their seed alone."""
        content = self.content
        return content_hash({name: content[name] for name in content.keys() - {"seed"}})

    def training(self) -> Training:
        """It, with an untrained model."""
        setup = self.setup
        return Training(setup.model(), setup.task, self.settings, setup.config.seed)


def train_together(runs: Sequence[RunSpec], console: Console) -> None:
    """Make the trainings of runs, `trainer.replicas` at a time, and keep each as if made alone.

    Whatever cannot be made so is left to its run, which trains alone or says what is wrong.
    """
    families: dict[str, dict[str, Share]] = defaultdict(dict)
    for spec in runs:
        try:
            for share in Share.of(spec):
                families[share.family].setdefault(share.reference, share)
        except PosbenchError:  # the run will say it
            continue
    for family in families.values():
        config = next(iter(family.values())).setup.config
        if config.force:
            console.say("One by one: force=true makes trainings again in the run that asks.")
            continue
        checkpoints = Checkpoints(config.results_dir, config.trainer, False, console)
        Together(checkpoints, console, config.trainer.replicas).train(list(family.values()))


class Together:
    """Trains several at a time and keeps each in its own folder."""

    def __init__(self, checkpoints: Checkpoints, console: Console, replicas: int) -> None:
        self.checkpoints, self.console, self.replicas = checkpoints, console, replicas

    def train(self, shares: Iterable[Share]) -> None:
        """Train what is not there yet, and what no other process trains."""
        with ExitStack() as held:
            at: dict[int, list[Share]] = defaultdict(list)
            for share in shares:
                step = self._step(share, held)
                if step is not None:
                    at[step].append(share)
            for several in at.values():
                for first in range(0, len(several), self.replicas):
                    part = several[first : first + self.replicas]
                    if len(part) > 1:
                        self._train(part)

    def _step(self, share: Share, held: ExitStack) -> int | None:
        """The step from which a training goes on; None where it is not for us."""
        folder = self._folder(share)
        folder.mkdir(parents=True, exist_ok=True)
        try:
            held.enter_context(filelock.FileLock(folder / "lock").acquire(blocking=False))
        except filelock.Timeout:
            return None
        if (folder / "training.json").exists() or self.checkpoints.diverged(folder) is not None:
            return None
        state = self.checkpoints.undamaged(folder / "last.ckpt")
        if state is None:
            return 0
        if stopped(share.settings, state["callbacks"]["Curve"]["points"]):
            return None
        return int(state["global_step"])

    def _train(self, shares: Sequence[Share]) -> None:
        steps = shares[0].settings.total_steps
        seeds = ", ".join(str(share.setup.config.seed) for share in shares)
        self.console.say(f"Training {len(shares)} in step, seeds {seeds}.")
        folders = [self._folder(share) for share in shares]
        try:
            trainings = [share.training() for share in shares]
        except PosbenchError:  # each run says it
            return

        def ended(index: int, curve: OwnCurve, diverged: Diverged | None) -> None:
            if diverged is not None:
                self.checkpoints.keep_diverged(folders[index], str(diverged), curve.cpu_seconds)
                return
            spent = (curve.cpu_seconds, curve.wall_seconds)
            model = trainings[index].model.cpu()
            self.checkpoints.keep(model, folders[index], curve.points, *spent)
            self.checkpoints.keep_content(folders[index], shares[index].content)

        for folder in folders:
            self.checkpoints.note_replicas(folder, len(shares))
        trainer = self.checkpoints.trainer
        try:
            with obeying_signals(), self.console.progress(steps) as (report, callback):
                fit_together(
                    trainings,
                    [folder / "last.ckpt" for folder in folders],
                    device(trainer.accelerator).type,
                    trainer.checkpoint_every,
                    [callback],
                    report,
                    ended,
                )
        except CannotReplicate as error:
            self.console.say(f"One by one: {error}.")
        except torch.OutOfMemoryError:
            self.console.say(
                f"One by one: {len(shares)} at a time do not fit into memory; lower "
                f"trainer.replicas={self.replicas}."
            )

    def _folder(self, share: Share) -> Path:
        return self.checkpoints.folder(share.reference)
