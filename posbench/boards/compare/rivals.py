"""The published rows that a row is compared with, and the tasks on which it can be."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Self

import numpy as np
import numpy.typing as npt
import pandas as pd

from posbench.base.errors import PosbenchError
from posbench.base.wording import MANY, closest, counted, known_names
from posbench.boards.ranking import MOST, BoardPart
from posbench.config.board import AS_TRAINED, Board, Rows
from posbench.config.board_rows import pairs
from posbench.config.compose import compose
from posbench.config.identity import identify
from posbench.config.legality import built, method_class
from posbench.config.names import Name
from posbench.records import tables
from posbench.records.record import Record
from posbench.running.run_spec import RunSpec
from posbench.statistics.aggregates import quantile
from posbench.statistics.measures import of_runs

FEWEST_SEEDS = 2


@dataclass(frozen=True)
class RowKind:
    """The kind of a row, which decides with which others it is compared."""

    label: str
    protocol: Name
    method_class: str
    host: str | None  # of an extension; None for an encoding as it was trained

    @classmethod
    def of(cls, record: Record) -> Self:
        """The kind of a run that is complete."""
        name = record.method
        host = None if record.plain else name.base
        return cls(name.label, record.protocol, record.method_class, host)

    @classmethod
    def of_words(cls, words: Sequence[str]) -> Self:
        """The kind of a run that nobody has made. It builds the encoding, so it imports torch."""
        composed = compose(*words)
        identity = identify(composed)
        name = identity.method
        host = None if name.extension == AS_TRAINED else name.base
        return cls(name.label, identity.protocol, method_class(*built(composed.cfg())), host)

    def has(self, record: Record) -> bool:
        """Whether ours can be compared with the row of a run: made under the same protocol, in
        the same class, and as trained or on the same host, as ours is.
        """
        alike = record.plain if self.host is None else record.method.base == self.host
        same = record.protocol.hash == self.protocol.hash
        return alike and same and record.method_class == self.method_class

    def __str__(self) -> str:
        host = f" on {self.host}" if self.host else " as trained"
        return f"{self.method_class}{host}, under protocol {self.protocol.label} as it is here"


@dataclass(frozen=True)
class Rivals:
    """Runs of the rows that a board names, of one kind and with chosen seeds of each task."""

    board: Board
    kind: RowKind
    tests: frozenset[tuple[str, int]]  # task, seed
    offered: tuple[Record, ...]  # with any seed

    @classmethod
    def of(
        cls, published: Sequence[Record], kind: RowKind, board: Board, seeds: Sequence[int]
    ) -> Self:
        """The rivals among published runs; there may be none, see `refuse_lack`."""
        listed = {
            (*pair, seed)
            for rows in board.parts.values()
            for pair in pairs(rows)
            for seed in rows.seeds
        }
        offered = [
            record
            for record in published
            if kind.has(record)
            and (*record.method.row, record.seed) in listed
            and record.task.label in board.all_tasks
        ]
        tests = frozenset(itertools.product(board.all_tasks, seeds))
        return cls(board, kind, tests, tuple(offered))

    def beside(self, own: Sequence[Record]) -> Self:
        """The same without the seeds that ours lacks on a task that it has been run on: theirs
        would be compared with other luck.
        """
        ours = {(record.task.label, record.seed) for record in own}
        tasks = {task for task, _ in ours}
        kept = {test for test in self.tests if test in ours or test[0] not in tasks}
        return replace(self, tests=frozenset(kept))

    @property
    def seeds(self) -> tuple[int, ...]:
        """The seeds of any task."""
        return tuple(sorted({seed for _, seed in self.tests}))

    @property
    def records(self) -> list[Record]:
        """The offered records that have the chosen seeds."""
        return [each for each in self.offered if (each.task.label, each.seed) in self.tests]

    @functools.cached_property
    def runs(self) -> pd.DataFrame:
        """One line for each of these that has an area."""
        return of_runs(tables.table(self.records)).dropna(subset="area")

    @functools.cached_property
    def tasks_of(self) -> dict[str, set[str]]:
        """The tasks of each row that is published; none where it has none of the seeds."""
        found: dict[str, set[str]] = {record.method.label: set() for record in self.offered}
        for row, task in zip(self.runs["row"], self.runs["task"], strict=True):
            found[row].add(task)
        return found

    @property
    def tried(self) -> list[str]:
        """The tasks that one of them has a run on."""
        tasks = set().union(*self.tasks_of.values())
        return [task for task in self.board.all_tasks if task in tasks]

    @property
    def common(self) -> list[str]:
        """The tasks that nearly all of them have a run on, as boards see it."""
        lacking = self._part.lacking(self.board)
        return [task for task in self.tried if task not in lacking]

    @functools.cached_property
    def separating(self) -> pd.DataFrame:
        """What each of the tasks that most of them have tells for the CPU time that it costs.

        A pair of rows is resolved by a task that both have learned if the difference of their
        areas, seed by seed, exceeds `equivalent` of the board in the mean, and its 95 % interval
        (Student's t over all published seeds) excludes 0. The cost is that of one row with all
        published seeds: trainings and tests of the mean row. So no number depends on our row.

        One line a task, the highest rate first: `resolved`, of so many `pairs` of all rows, `hours`
        of CPU time, and `rate`, resolved pairs an hour.
        """
        runs = of_runs(tables.table(list(self.offered))).dropna(subset="area")
        rows = runs["row"].nunique()
        pairs = rows * (rows - 1) // 2
        lines = {}
        for task in self.common or self.tried:
            on = [each for each in self.offered if each.task.label == task]
            trained = {each.training.hash: each.training.cpu_seconds for each in on}
            tested = [each.evaluated.evaluation_cpu_seconds for each in on]
            seeds = len({each.seed for each in on})
            seconds = float(np.mean(list(trained.values())) + np.mean(tested)) * seeds
            learned = runs[(runs["task"] == task) & runs["trained"]]
            areas = learned.pivot_table(index="row", columns="seed", values="area")
            found = resolved(areas.to_numpy(), self.board.judged.equivalent)
            hours = seconds / 3600
            lines[task] = {
                "resolved": found,
                "pairs": pairs,
                "hours": hours,
                "rate": found / hours if hours else float(found),
            }
        columns = ["resolved", "pairs", "hours", "rate"]
        table = pd.DataFrame.from_dict(lines, orient="index", columns=columns)
        return table.sort_values("rate", ascending=False, kind="stable")

    @property
    def _part(self) -> BoardPart:
        methods = tuple(sorted(self.tasks_of))
        rows = Rows(methods=methods, seeds=self.seeds, tasks=self.board.all_tasks)
        return BoardPart("rivals", rows, self.runs)

    def refuse_unknown(self, row: str, tasks: Sequence[str] = ()) -> None:
        """PosbenchError if it is none of these rows, or has not been run on these tasks."""
        if row not in self.tasks_of:
            known = known_names(sorted(self.tasks_of), None, closest(row, self.tasks_of))
            raise PosbenchError(
                f"--than {row}: no published row of this kind has that name: {known}"
            )
        if lacking := [task for task in tasks if task not in self.tasks_of[row]]:
            raise PosbenchError(
                f"--than {row} has no run on {', '.join(lacking)}: choose among "
                f"{', '.join(sorted(self.tasks_of[row]))} with task="
            )

    def refuse_lack(self, tasks: Sequence[str] = ()) -> None:
        """PosbenchError if nothing is there to be compared with, on these tasks or at all."""
        against = f"no published row can be compared with {self.kind.label}"
        if not self.offered:
            raise PosbenchError(
                f"{against}: none of board {self.board.name} is {self.kind}; name a folder of such "
                "records with --against"
            )
        if not self.tried:
            seeds = sorted({record.seed for record in self.offered})
            raise PosbenchError(
                f"{against} for seed {_listed(self.seeds)}: choose among {_listed(seeds)} with "
                "seed="
            )
        if tasks and not any(each.issuperset(tasks) for each in self.tasks_of.values()):
            raise PosbenchError(
                f"{against} on {_listed(tasks)}: no row has all of them; choose fewer with task="
            )

    def remarks(self, tasks: Sequence[str]) -> Iterator[str]:
        """Warn about missing tasks, excluded rows and missing seeds."""
        if left := [task for task in self.board.all_tasks if task not in {*tasks, *self.common}]:
            some = [task for task in left if task in self.tried]
            hint = f"; task={some[0]} compares with those that have" if some else ""
            yield (
                f"Board {self.board.name} is under way: fewer than {100 * MOST:.0f} % of its rows "
                f"have been run on {_listed(left)}{hint}."
            )
        aside: dict[tuple[str, ...], list[str]] = {}
        for row, there in sorted(self.tasks_of.items()):
            if lacking := tuple(task for task in tasks if task not in there):
                aside.setdefault(lacking, []).append(row)
        for lacking, rows in aside.items():
            on = "any of these tasks" if len(lacking) == len(tasks) else _listed(lacking)
            are, have = ("is", "has") if len(rows) == 1 else ("are", "have")
            yield (
                f"{counted(len(rows), 'row')} {are} left out, which {have} no run on {on} with "
                f"these seeds: {_listed(rows)}."
            )
        theirs = self.runs[self.runs["task"].isin(tasks)].groupby("row").size()
        kept = [row for row, there in self.tasks_of.items() if there.issuperset(tasks)]
        tests = [test for test in self.tests if test[0] in tasks]
        fewer = sorted(row for row in kept if theirs[row] < len(tests))
        if fewer:
            names = f": {_listed(fewer)}" if len(fewer) <= MANY else ""
            lack, count = ("lacks", "counts") if len(fewer) == 1 else ("lack", "count")
            yield (
                f"{len(fewer)} of {counted(len(kept), 'published row')} {lack} some of the seeds "
                f"{_listed(sorted({seed for _, seed in tests}))}, and {count} with the others"
                f"{names}."
            )


def resolved(areas: npt.NDArray[np.float64], least: float) -> int:
    """How many pairs of rows differ on a task, by areas [row, seed]; NaN where nothing is known.

    They do if the mean of the differences over common seeds exceeds `least` and the half width of
    its 95 % interval; two seeds are the fewest that have one.
    """
    one, other = np.triu_indices(len(areas), 1)
    less = areas[one] - areas[other]
    count = np.isfinite(less).sum(1)
    known = less[count >= FEWEST_SEEDS]
    count = count[count >= FEWEST_SEEDS]
    error = np.nanstd(known, axis=1, ddof=1) / np.sqrt(count)
    half = quantile(count) * error
    return int((np.abs(np.nanmean(known, axis=1)) > np.maximum(half, least)).sum())


def on_tasks_as_here(
    published: Sequence[Record], board: Board, protocol: str
) -> tuple[list[Record], list[str]]:
    """The runs on tasks of the board as they are here, and the tasks of which others are left out:
    a task of another version, or with other defaults, asks for something else.
    """
    here = {
        task: RunSpec.of(compose(f"protocol={protocol}", f"task={task}")).fingerprint
        for task in board.all_tasks
    }
    kept, left = [], set()
    for record in published:
        ours = here.get(record.task.label)
        if ours and (ours.task, ours.task_version) == (record.task.hash, record.task_version):
            kept.append(record)
        elif ours and record.protocol.name == protocol:
            left.add(record.task.label)
    return kept, [task for task in board.all_tasks if task in left]


def of_other_tasks(left: Sequence[str]) -> Iterator[str]:
    """Sentences on tasks of which runs are left out."""
    if left:
        yield (
            f"Published runs of another version of a task, or with other defaults, are not "
            f"compared: they are of {_listed(left)}."
        )


def _listed(values: Sequence[object]) -> str:
    return ", ".join(map(str, values))
