"""Trainings of several runs made in step, before the runs are made one after the other."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from contextlib import ExitStack

import filelock
import torch

from posbench.base.errors import Diverged, PosbenchError
from posbench.running.before_training import refuse_wrong_shapes
from posbench.running.checkpoints import UNFINISHED, Checkpoints, obeying_signals
from posbench.running.console import Console
from posbench.running.devices import device
from posbench.running.replicas.curves import OwnCurve
from posbench.running.replicas.fitting import fit_together
from posbench.running.replicas.trainings import CannotReplicate
from posbench.running.run_spec import RunSpec
from posbench.running.setup import Setup
from posbench.running.shared_training import SharedTraining


def train_together(runs: Sequence[RunSpec], console: Console) -> None:
    """Make the trainings of runs, `trainer.replicas` at a time, and keep each as if made alone.

    Whatever cannot be made so is left to its run, which trains alone or says what is wrong.
    """
    families: dict[str, dict[str, SharedTraining]] = defaultdict(dict)
    for spec in runs:
        try:
            setup = Setup.of(spec.composed.cfg())
            torch.set_num_threads(setup.config.trainer.threads)
            for shared in SharedTraining.of(setup):
                families[shared.family].setdefault(shared.hash, shared)
        except PosbenchError:  # the run will say it
            continue
    for family in families.values():
        config = next(iter(family.values())).setup.config
        if config.force:
            console.say("One by one: force=true makes trainings again in the run that asks.")
            continue
        checkpoints = Checkpoints(config.results_dir, config.trainer, False, console, config.zoo)
        ReplicaTrainer(checkpoints, console, config.trainer.replicas).train(list(family.values()))


class ReplicaTrainer:
    """Trains several at a time and keeps each in its own folder."""

    def __init__(self, checkpoints: Checkpoints, console: Console, replicas: int) -> None:
        self.checkpoints, self.console, self.replicas = checkpoints, console, replicas

    def train(self, asked: Iterable[SharedTraining]) -> None:
        """Train what is not there yet, and what no other process trains."""
        with ExitStack() as held:
            at: dict[int, list[SharedTraining]] = defaultdict(list)
            for shared in asked:
                step = self._step(shared, held)
                if step is not None:
                    at[step].append(shared)
            for several in at.values():
                for first in range(0, len(several), self.replicas):
                    part = several[first : first + self.replicas]
                    if len(part) > 1:
                        self._train(part)

    def _step(self, shared: SharedTraining, held: ExitStack) -> int | None:
        """The step from which a training goes on; None where it is not for us."""
        try:
            held.enter_context(self.checkpoints.lock(shared.hash).acquire(blocking=False))
        except filelock.Timeout:
            return None
        return self.checkpoints.step(shared.hash, shared.settings)

    def _train(self, several: Sequence[SharedTraining]) -> None:
        steps = several[0].settings.total_steps
        seeds = ", ".join(str(each.setup.config.seed) for each in several)
        self.console.say(f"Training {len(several)} in step, seeds {seeds}.")
        folders = [self.checkpoints.folder(each.hash) for each in several]
        try:
            refuse_wrong_shapes(several[0].setup)
            trainings = [each.begin() for each in several]
        except PosbenchError:  # each run says it
            return

        def ended(index: int, curve: OwnCurve, diverged: Diverged | None) -> None:
            if diverged is not None:
                self.checkpoints.keep_diverged(folders[index], str(diverged), curve.cpu_seconds)
                return
            spent = (curve.cpu_seconds, curve.wall_seconds)
            model = trainings[index].model.cpu()
            self.checkpoints.keep(model, folders[index], curve.points, *spent)
            self.checkpoints.keep_content(folders[index], several[index].content)

        for folder in folders:
            self.checkpoints.note_replicas(folder, len(several))
        trainer = self.checkpoints.trainer
        try:
            with obeying_signals(), self.console.progress(steps) as (report, callback):
                fit_together(
                    trainings,
                    [folder / UNFINISHED for folder in folders],
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
                f"One by one: {len(several)} at a time do not fit into memory; lower "
                f"trainer.replicas={self.replicas}."
            )
