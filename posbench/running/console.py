"""What a person sees while a run goes on: what will happen, how far it is, what came out."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import lightning as L
from rich.console import Console as Terminal
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

from posbench.base.wording import printable
from posbench.config.folders import searched
from posbench.config.identity import Identity
from posbench.core.row import Row
from posbench.records.files import leaderboard_command
from posbench.records.record import Record
from posbench.running.scores import ANNOUNCED, STEP, result


class Console:
    """Writes to the terminal, or to a file."""

    def __init__(self, file: IO[str] | None = None) -> None:
        # In a notebook, rich would show each line by itself, past whoever redirects the output.
        self.terminal = Terminal(file=file, soft_wrap=True, highlight=False, force_jupyter=False)

    def say(self, sentence: str) -> None:
        self.terminal.print(printable(sentence), markup=False)

    def announce(self, identity: Identity, seed: int, device: str, path: Path) -> None:
        self.say(
            f"{ANNOUNCED}{identity.method.label} on {identity.task.label}, protocol "
            f"{identity.protocol.label}, seed {seed}, on {device}; record: {path}"
        )

    @contextmanager
    def progress(
        self, steps: int
    ) -> Iterator[tuple[Callable[[dict[str, float]], None], L.Callback]]:
        """A bar with loss, score and time left; in a log file, a line every tenth of the steps."""
        if not self.terminal.is_terminal:
            lines = Lines(self, steps)
            yield lines.report, lines
            return
        columns = (
            TextColumn("training"),
            BarColumn(),
            TextColumn("{task.completed}/{task.total}"),
            TextColumn("loss {task.fields[loss]}  in-distribution score {task.fields[score]}"),
            TimeRemainingColumn(),
        )
        with Progress(*columns, console=self.terminal, refresh_per_second=4) as progress:
            bar = Bar(progress, steps)
            yield bar.report, bar

    def result(self, record: Record, base: Sequence[Row] | None) -> None:
        """Scores by test length, and what they come to."""
        self.terminal.print(result(record, base))

    def kept(self, cpu_seconds: float, path: Path, results_dir: Path) -> None:
        """What the training took, where the record is, and what comes next."""
        self.say(f"Training took {cpu_seconds:.0f} s of CPU time. Record: {path}")
        self.say(f"Leaderboard: {leaderboard_command(results_dir, searched())}")


class TemporaryConsole(Console):
    """The console of runs in a temporary folder, to which nobody is sent."""

    def kept(self, cpu_seconds: float, path: Path, results_dir: Path) -> None:
        self.say(f"Training took {cpu_seconds:.0f} s of CPU time.")


class Bar(L.Callback):
    def __init__(self, progress: Progress, steps: int) -> None:
        self.progress = progress
        self.bar = progress.add_task("training", total=steps, loss="  -  ", score="  -  ")

    def on_train_batch_end(self, trainer: L.Trainer, *_: Any) -> None:
        self.progress.update(self.bar, completed=trainer.global_step)

    def report(self, point: dict[str, float]) -> None:
        self.progress.update(self.bar, loss=f"{point['loss']:.3f}", score=f"{point['score']:.2f}")


class Lines(L.Callback):
    def __init__(self, console: Console, steps: int) -> None:
        self.console = console
        self.steps = steps
        self.printed = 0

    def on_train_start(self, trainer: L.Trainer, *_: Any) -> None:
        self.first, self.start = trainer.global_step, time.perf_counter()
        self.printed = 10 * self.first // self.steps

    def report(self, point: dict[str, float]) -> None:
        step = int(point["step"])
        if 10 * step // self.steps <= self.printed:
            return
        self.printed = 10 * step // self.steps
        left = (time.perf_counter() - self.start) / (step - self.first) * (self.steps - step)
        self.console.say(
            f"{STEP}{step}/{self.steps}  loss {point['loss']:.3f}  "
            f"in-distribution score {point['score']:.2f}  {left:.0f} s left"
        )
