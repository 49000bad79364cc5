"""Trained weights, made once and kept under the hash of all that they depend on."""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import filelock
import torch
from lightning.pytorch.utilities.exceptions import SIGTERMException
from pydantic import ValidationError

from posbench.base.disk import (
    Lock,
    atomically,
    damaged,
    noted,
    read_bytes,
    reading,
    write_json,
)
from posbench.base.errors import Diverged, Terminated, first_mistake
from posbench.base.wording import counted
from posbench.config import provenance
from posbench.core.settings import Config, TrainerConfig, TrainingConfig
from posbench.core.training import Training, fit
from posbench.core.transformer import Transformer
from posbench.core.until_learned import ended
from posbench.running.console import Console
from posbench.running.devices import device, device_name, present_devices_seeded
from posbench.running.log import Log
from posbench.running.loggers.run_logger import StepMetrics
from posbench.running.resuming import THREADS, CheckpointKeeper, loaded, remaining
from posbench.running.scores import CHECKPOINTS
from posbench.running.zoo import AGAIN, Kept, Zoo, zoos

FINISHED, UNFINISHED = "training.json", "last.ckpt"
"""What a folder has of a training that is complete, and of one that was interrupted."""
WEIGHTS, CONTENT = "weights.pt", "content.json"
LOCK = "lock"


class Checkpoints:
    """The folder of a results folder in which trainings are kept, shared by processes.

    A training is a folder named by the hash of its content: `last.ckpt` while it goes on; then
    `weights.pt` and, last, `training.json`, whose presence says that it is complete. With `force`
    what is complete is made again, and what was interrupted goes on. What cannot be read is left
    alone, and the run stops.

    A training that is not there is looked for in the zoos of `zoo`, a file or folder, which is
    only read.
    """

    def __init__(
        self,
        results_dir: str,
        trainer: TrainerConfig,
        force: bool,
        console: Console,
        zoo: str = "",
    ) -> None:
        self.root = Path(results_dir, CHECKPOINTS)
        self.zoos = [] if force else zoos(zoo)
        self.named = zoo if self.zoos and zoo != Config.zoo else ""  # and hoped to have it
        self.trainer = trainer
        self.force = force
        self.console = console

    def folder(self, reference: str) -> Path:
        """Where the training with this hash is kept."""
        return self.root / reference

    def lock(self, reference: str) -> Lock:
        """The lock that a process holds while it makes this training."""
        folder = self.folder(reference)
        folder.mkdir(parents=True, exist_ok=True)
        return Lock(folder / LOCK)

    def step(self, reference: str, settings: TrainingConfig) -> int | None:
        """The step from which a training goes on; None where none is left to be made, or where it
        began with another number of threads, with which it goes on alone.
        """
        folder = self.folder(reference)
        if (folder / FINISHED).exists() or self.diverged(folder) is not None:
            return None
        if any(kept.usable for _, kept in self._kept(reference)):
            return None
        state = self._interrupted(folder / UNFINISHED)
        if state is None:
            return 0
        if stopped(settings, state["callbacks"]["Curve"]["points"]):
            return None
        if state.get(THREADS, torch.get_num_threads()) != torch.get_num_threads():
            return None
        return int(state["global_step"])

    def train_once(
        self,
        reference: str,
        content: dict[str, Any],
        training: Training,
        model: Transformer,
        loggers: list[Any],
    ) -> Log:
        """Train, or load the weights into `model` if that training has been done; return its log.

        `reference` is the hash of all that the weights depend on, `content` says what that is.

        The folder is locked while one process trains; a second process that wants the same weights
        waits for the first.
        """
        folder, lock = self.folder(reference), self.lock(reference)
        try:
            lock.acquire(blocking=False)
        except filelock.Timeout:
            self.console.say("Another process is training this model; waiting for it.")
            lock.acquire()
        try:
            log = None if self.force else self._load(model, folder)
            if log is None and (log := self._from_zoo(model, reference)) is not None:
                return log
            if log is None and (before := self.diverged(folder)) is not None:
                raise before
            if log is None:
                log = self._train(training, model, folder, loggers)
                self.keep_content(folder, content)
            else:
                self.console.say(f"Trained before ({folder.name}): the weights are shared.")
        finally:
            lock.release()
        return log

    def _load(self, model: Transformer, folder: Path) -> Log | None:
        weights, finished = folder / WEIGHTS, folder / FINISHED
        if not finished.exists():
            return None
        log = _log(finished)
        if not provenance.same_versions(log.versions, provenance.versions()):
            # Else a record of these weights would never be complete: see `Fingerprint`.
            made = ", ".join(f"{name} {log.versions.get(name)}" for name in provenance.COMPARED)
            self.console.say(f"The weights in {folder} were made with {made}; training again.")
            return None
        with reading(weights):
            if not weights.exists():
                self.console.say(f"The weights in {folder} are not there; training again.")
                return None
        state = loaded(weights)
        _refuse_others(state, model, weights)
        model.load_state_dict(state)
        return log

    def _kept(self, reference: str) -> Iterator[tuple[Zoo, Kept]]:
        """This training in each zoo that has it."""
        for zoo in self.zoos:
            if reference in zoo.trainings:
                yield zoo, zoo.trainings[reference]

    def _from_zoo(self, model: Transformer, reference: str) -> Log | None:
        """Load the weights from a zoo that has this training; None where none has."""
        found = [*self._kept(reference)]
        if self.named and not found:
            self.console.say(f"{self.named} has no weights of this training ({reference}).")
        for zoo, kept in found:
            if not kept.usable:
                torch_there = kept.log.versions.get("torch")
                self.console.say(
                    f"{zoo.path} has these weights, made with torch {torch_there}; training again."
                )
                continue
            state = zoo.weights(reference)
            _refuse_others(state, model, zoo.path, AGAIN)
            if any(bool(each.isnan().any()) for each in state.values()):
                raise damaged(zoo.path, f"weights of {reference} are NaN", AGAIN)
            model.load_state_dict(state)
            self.console.say(
                f"Trained before ({reference}): the weights are from {zoo.path}, made on "
                f"{kept.made_on}."
            )
            return kept.log
        return None

    def _train(
        self, training: Training, model: Transformer, folder: Path, loggers: list[Any]
    ) -> Log:
        last = folder / UNFINISHED
        # What was said of other weights, and what a killed process has left; the lock is ours.
        for name in ("diverged.json", "tested-*.json", "*.tmp"):
            for rest in folder.glob(name):
                rest.unlink(missing_ok=True)
        state = self._interrupted(last)
        if state is None:
            (folder / "replicas.json").unlink(missing_ok=True)
        curve = state["callbacks"]["Curve"] if state is not None else {}
        if state is not None and stopped(training.settings, curve["points"]):
            # It was killed after its last step.
            training.load_state_dict(state["state_dict"])
            with self._threads_of(state):
                return self.keep(model.cpu(), folder, curve["points"], curve["cpu"], curve["wall"])
        arguments = (device(self.trainer.accelerator).type, self.trainer.checkpoint_every, loggers)
        start = time.process_time()
        with self._threads_of(state):
            try:
                steps = training.settings.total_steps
                with (
                    obeying_signals(),
                    present_devices_seeded(),
                    self.console.progress(steps) as (report, callback),
                ):
                    callbacks = [
                        callback,
                        *([StepMetrics()] if loggers else []),
                        CheckpointKeeper(),
                    ]
                    found = fit(training, last, *arguments, callbacks, report)
            except Diverged as error:
                spent = time.process_time() - start
                self.keep_diverged(folder, str(error), spent)
                raise Diverged(str(error), spent) from None
            cpu_seconds, wall_seconds = found.cpu_seconds, found.wall_seconds
            return self.keep(model.cpu(), folder, found.points, cpu_seconds, wall_seconds)

    @contextmanager
    def _threads_of(self, state: dict[str, Any] | None) -> Iterator[None]:
        """Go on with as many threads as a training began with: with others sums are rounded
        otherwise, and its record could name neither.
        """
        here = torch.get_num_threads()
        began = here if state is None else int(state.get(THREADS, here))
        if began == here:
            yield
            return
        self.console.say(
            f"This training began with {counted(began, 'thread')} and goes on so: with "
            f"trainer.threads={here} its sums would be rounded otherwise."
        )
        torch.set_num_threads(began)
        try:
            yield
        finally:
            torch.set_num_threads(here)

    def keep(
        self,
        model: Transformer,
        folder: Path,
        curve: list[dict[str, float]],
        cpu_seconds: float,
        wall_seconds: float,
    ) -> Log:
        """Write the weights and, last, the log, whose presence says that the training is done.

        The log of weights that are made again is removed once the others are written whole.
        """
        replicas = noted(folder / "replicas.json") or 1
        hardware = device_name(self.trainer.accelerator)
        log = Log.of(curve, cpu_seconds, wall_seconds, hardware, replicas)
        with atomically(folder / WEIGHTS) as beside:
            torch.save(model.state_dict(), beside)
            (folder / FINISHED).unlink(missing_ok=True)
        write_json(log.model_dump(mode="json"), folder / FINISHED)
        (folder / UNFINISHED).unlink(missing_ok=True)
        return log

    def keep_diverged(self, folder: Path, sentence: str, cpu_seconds: float) -> None:
        """Note that a training diverged, so that another method that shares it is told at once."""
        made = {"versions": provenance.versions(), "device": device_name(self.trainer.accelerator)}
        said = {"sentence": sentence, "cpu_seconds": cpu_seconds} | made
        write_json(said, folder / "diverged.json")
        (folder / UNFINISHED).unlink(missing_ok=True)

    def diverged(self, folder: Path) -> Diverged | None:
        """The error with which this training has ended before, on this device with these versions.

        None where it has not diverged, or did so on another device or with other versions: then it
        is tried again, because its record would name this device and these versions.
        """
        said = None if self.force else noted(folder / "diverged.json")
        if said is None:
            return None
        same = provenance.same_versions(said.get("versions", {}), provenance.versions())
        if not same or said.get("device") != device_name(self.trainer.accelerator):
            return None
        return Diverged(said["sentence"], said["cpu_seconds"])

    def keep_content(self, folder: Path, content: dict[str, Any]) -> None:
        """Write the content by whose hash a folder is named."""
        write_json(content, folder / CONTENT)

    def note_replicas(self, folder: Path, count: int) -> None:
        """Note how many trainings are made in step, for the log of each of them.

        The number counts even if a training then goes on alone from a checkpoint.
        """
        write_json(count, folder / "replicas.json")

    def _interrupted(self, path: Path) -> dict[str, Any] | None:
        """The last checkpoint of a training that was interrupted."""
        state = remaining(path)
        if state is not None:
            self.console.say("Going on from the last checkpoint of an interrupted training.")
        return state


def _log(path: Path) -> Log:
    """The log of a training; Unreadable where it is none."""
    with reading(path):
        text = read_bytes(path)
    try:
        return Log.model_validate_json(text)
    except ValidationError as error:
        raise damaged(path, first_mistake(error)) from None


def _refuse_others(state: Any, model: Transformer, path: Path, remedy: str = "") -> None:
    """Unreadable, unless these are weights of such a model: one that took some of them would not be
    trained from its start.
    """
    own = model.state_dict()
    if not isinstance(state, dict) or state.keys() != own.keys():
        raise damaged(path, "it has other weights", remedy)
    if any(getattr(state[name], "shape", None) != each.shape for name, each in own.items()):
        raise damaged(path, "its weights have other shapes", remedy)
    if any(state[name].dtype != each.dtype for name, each in own.items()):
        raise damaged(path, "its weights are of another type", remedy)


def stopped(settings: TrainingConfig, points: list[dict[str, float]]) -> bool:
    """Whether a training with this curve has come to its end, wherever that is."""
    if settings.until is not None:
        return ended(settings, points)
    stop_at = settings.stop_at
    return stop_at is not None and bool(points) and points[-1]["score"] >= stop_at


@contextmanager
def obeying_signals() -> Iterator[None]:
    """Within the block, a training that SIGTERM ends raises Terminated.

    If the signal arrives between our callback at the end of a step and Lightning's own look,
    Lightning leaves as if by `sys.exit()`: with status 0, as a run that is complete. What was
    trained since the last checkpoint is then trained again.
    """
    try:
        yield
    except SIGTERMException:
        raise Terminated(signal.SIGTERM) from None
