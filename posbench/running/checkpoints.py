"""Trained weights, kept under the hash of all that they depend on, and the training that makes them
once.
"""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Any

import filelock
import torch

from posbench import provenance
from posbench.config import TrainerConfig
from posbench.errors import Diverged
from posbench.running.console import Console
from posbench.running.devices import device, device_name
from posbench.training import Training, fit
from posbench.transformer import Transformer


class Checkpoints:
    """The folder of a results folder in which trainings are kept, shared by processes.

    A training is a folder named by the hash of its content: `last.ckpt` while it goes on, then
    `weights.pt` and, last, `training.json`, whose presence says that it is complete. With `force`
    what is there is made again.
    """

    def __init__(
        self, results_dir: str, trainer: TrainerConfig, force: bool, console: Console
    ) -> None:
        self.root = Path(results_dir) / "checkpoints"
        self.trainer = trainer
        self.force = force
        self.console = console

    def folder(self, content: dict[str, Any]) -> Path:
        return self.root / provenance.content_hash(content)

    def once(
        self, content: dict[str, Any], training: Training, model: Transformer, loggers: list[Any]
    ) -> dict[str, Any]:
        """Train, or load the weights into `model` if that training has been done; its log.

        The folder is locked while one process trains; a second process that wants the same weights
        waits for the first.
        """
        folder = self.folder(content)
        folder.mkdir(parents=True, exist_ok=True)
        diverged = folder / "diverged.json"
        lock = filelock.FileLock(folder / "lock")
        try:
            lock.acquire(blocking=False)
        except filelock.Timeout:
            self.console.say("Another process is training this model; waiting for it.")
            lock.acquire()
        try:
            log = None if self.force else self._load(model, folder)
            if log is None and diverged.exists() and not self.force:
                raise Diverged(**json.loads(diverged.read_text(encoding="utf-8")))
            if log is None:
                log = self._train(training, model, folder, loggers)
                write_json(content, folder / "content.json")
            else:
                self.console.say(f"Trained before ({folder.name}): the weights are shared.")
        finally:
            lock.release()
        return log

    def _load(self, model: Transformer, folder: Path) -> dict[str, Any] | None:
        weights, finished = folder / "weights.pt", folder / "training.json"
        if not finished.exists():
            return None
        try:
            log = json.loads(finished.read_text(encoding="utf-8"))
            # Last: a model that was changed before something else failed would not be trained from
            # its start.
            model.load_state_dict(torch.load(weights, weights_only=True, map_location="cpu"))
            return log
        except Exception as error:  # whatever a damaged file makes torch raise
            self.console.say(
                f"The checkpoint in {folder} cannot be read ({type(error).__name__}); training "
                "again."
            )
            return None

    def _train(
        self, training: Training, model: Transformer, folder: Path, loggers: list[Any]
    ) -> dict[str, Any]:
        finished, last = folder / "training.json", folder / "last.ckpt"
        finished.unlink(missing_ok=True)
        for rest in folder.glob("*.tmp"):  # of a killed process; the lock is ours
            rest.unlink(missing_ok=True)
        state = self._undamaged(last)
        curve = state["callbacks"]["Curve"] if state is not None else {}
        if state is not None and stopped(training, curve["points"]):  # killed after its last step
            training.load_state_dict(state["state_dict"])
            return self._keep(model.cpu(), folder, curve["points"], curve["cpu"], curve["wall"])
        arguments = (device(self.trainer.accelerator).type, self.trainer.checkpoint_every, loggers)
        start = time.process_time()
        try:
            with self.console.progress(training.settings.total_steps) as (report, callback):
                found = fit(training, last, *arguments, [callback], report)
        except Diverged as error:
            # The same again would diverge again: another method that shares this training is told
            # at once.
            spent = time.process_time() - start
            write_json({"sentence": str(error), "cpu_seconds": spent}, folder / "diverged.json")
            last.unlink(missing_ok=True)
            raise Diverged(str(error), spent) from None
        return self._keep(model.cpu(), folder, found.points, found.cpu_seconds, found.wall_seconds)

    def _keep(
        self,
        model: Transformer,
        folder: Path,
        curve: list[dict[str, float]],
        cpu_seconds: float,
        wall_seconds: float,
    ) -> dict[str, Any]:
        """Write the weights and, last, the log whose presence says that the training is
        complete.
        """
        log = {
            "curve": curve,
            "cpu_seconds": cpu_seconds,
            "wall_seconds": wall_seconds,
            "device": device_name(self.trainer.accelerator),
            "commit": provenance.commit(),
            "versions": provenance.versions(),
        }
        beside = folder / f"weights.{os.getpid()}.tmp"
        torch.save(model.state_dict(), beside)
        os.replace(beside, folder / "weights.pt")
        write_json(log, folder / "training.json")
        (folder / "last.ckpt").unlink(missing_ok=True)
        return log

    def _undamaged(self, path: Path) -> dict[str, Any] | None:
        """The checkpoint of an interrupted training, which stays only if it can be read."""
        if not path.exists():
            return None
        try:
            state = torch.load(path, weights_only=True, map_location="cpu")
            _ = state["global_step"], state["state_dict"], state["callbacks"]
            self.console.say("Going on from the last checkpoint of an interrupted training.")
            return state
        except Exception as error:  # whatever a damaged file makes torch raise
            self.console.say(
                f"The checkpoint {path} is damaged ({type(error).__name__}); starting from the "
                "beginning."
            )
            path.unlink()
            return None


def stopped(training: Training, points: list[dict[str, float]]) -> bool:
    """Whether a training with this curve has reached the score at which it is to stop."""
    stop_at = training.settings.stop_at
    return stop_at is not None and bool(points) and points[-1]["score"] >= stop_at


def write_json(content: Any, path: Path) -> None:
    beside = path.with_suffix(f".{os.getpid()}.tmp")
    beside.write_text(json.dumps(content, indent=1), encoding="utf-8")
    os.replace(beside, path)
