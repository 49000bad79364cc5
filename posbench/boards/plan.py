"""What a board asks to be run, in the order in which it is run, and what that will cost."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from posbench.boards.definition import Board
from posbench.composing.methods import AS_TRAINED, Method, methods
from posbench.records.record import Record


@dataclass(frozen=True)
class Job:
    """One run: the words of the command line that ask for it."""

    part: str  # of the board
    protocol: str
    task: str
    row: tuple[str, ...]
    seed: int

    @property
    def encoding(self) -> str:
        """What it trains."""
        chosen = dict(word.split("=", 1) for word in self.row)
        name = chosen.get("method", "")
        return chosen.get("encoding") or methods().get(name, Method(name, AS_TRAINED)).base

    @property
    def words(self) -> list[str]:
        return [f"protocol={self.protocol}", f"task={self.task}", *self.row, f"seed={self.seed}"]


def jobs(
    board: Board,
    protocol: str | None = None,
    seeds: Sequence[int] | None = None,
    tasks: Sequence[str] | None = None,
    parts: Sequence[str] | None = None,
) -> list[Job]:
    """Every run of the board, or of what is asked for, under its own protocol or another.

    Seeds come outermost, so that the board is balanced whenever it is looked at, then tasks, then
    rows: those that share a training follow each other.
    """
    found = []
    for part, rows in board.parts.items():
        if parts is not None and part not in parts:
            continue
        for task, words, seed in itertools.product(
            rows.tasks or board.all_tasks, rows.words, rows.seeds
        ):
            if (seeds is None or seed in seeds) and (tasks is None or task in tasks):
                under = protocol or rows.protocol or board.protocol
                found.append(Job(part, under, task, words, seed))
    once = {(job.protocol, job.task, job.row, job.seed): job for job in reversed(found)}
    order = {task: index for index, task in enumerate(board.all_tasks)}
    return sorted(once.values(), key=lambda job: (job.seed, order[job.task], job.protocol, job.row))


@dataclass(frozen=True)
class Cost:
    """CPU hours, of what earlier records tell."""

    training: float
    evaluation: float
    unknown: int  # jobs of which no record tells anything

    @property
    def total(self) -> float:
        return self.training + self.evaluation


def cost(planned: Iterable[Job], records: Iterable[Record], steps: dict[str, int]) -> Cost:
    """The CPU hours of jobs, by the seconds a step of the same encoding took on the same task.

    Where the pair has no record, the encoding's usual ratio to the mean of the task stands in, and
    where the encoding has none, the mean of the task. `steps` are those of each task. A training
    counts once, however many extensions are tested on it, and a test counts as the median one.
    """
    told = pd.DataFrame(
        [
            {
                "task": record.task.name,
                "encoding": record.method.base,
                "step": record.training.cpu_seconds / record.training.steps,
                "test": record.evaluated.evaluation_cpu_seconds,
            }
            for record in records
            if record.training.steps and not record.diverged
        ],
        columns=["task", "encoding", "step", "test"],
    )
    pairs = told.groupby(["task", "encoding"])["step"].median()
    of_task = pairs.groupby("task").mean()
    ratio = (pairs / of_task.reindex(pairs.index.get_level_values("task")).to_numpy()).groupby(
        "encoding"
    )
    of_encoding, test = ratio.mean(), told["test"].median()
    training, tests, unknown, seen = 0.0, 0.0, 0, set()
    for job in planned:
        encoding = job.encoding
        if (job.task, encoding) in pairs.index:
            step = pairs[job.task, encoding]
        else:
            step = of_task.get(job.task, np.nan) * of_encoding.get(encoding, 1.0)
        if np.isnan(step):
            unknown += 1
            continue
        key = (job.protocol, job.task, encoding, job.seed)
        training += 0.0 if key in seen else step * steps[job.task]
        seen.add(key)
        tests += test
    return Cost(training / 3600, tests / 3600, unknown)
