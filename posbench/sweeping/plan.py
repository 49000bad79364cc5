"""What a sweep has to do: what is complete, what cannot be, and the jobs that are left."""

from __future__ import annotations

import os
import shlex
from collections import Counter, defaultdict
from collections.abc import Callable, Container, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from omegaconf import OmegaConf
from omegaconf.errors import OmegaConfBaseException
from yaml import YAMLError  # type: ignore[import-untyped]

from posbench.base.content_hash import content_hash
from posbench.base.errors import PosbenchError
from posbench.base.wording import agreeing, counted
from posbench.config import blame
from posbench.config.building import build
from posbench.config.compose import Composition, compose, without_seed
from posbench.config.legality import built, refusal
from posbench.config.mistakes import sentence
from posbench.config.modules import reading_once
from posbench.core.settings import FREE, checked
from posbench.records import files
from posbench.records.files import LOCAL, shipped
from posbench.records.record import Record
from posbench.running.run_spec import Fingerprint, RunSpec
from posbench.sweeping.cost import Cost, Costs
from posbench.sweeping.requests import Request, Words

# -- which runs of a sweep cannot be, and why ------------------------------------------------------


class Refusals:
    """Answers for each method and each task once. It builds encodings, so it imports torch."""

    def __init__(self) -> None:
        self.methods: dict[str, tuple[str, str]] = {}
        self.tasks: dict[str, frozenset[str]] = {}

    def refusal(self, composed: Composition) -> str:
        """Why the method cannot be tested on the task, in words that name no other; "" if it can.

        PosbenchError if one of them cannot be built.
        """
        content = composed.content
        sections = ("encoding", "extension", "model")
        key = content_hash([content[name] for name in sections])
        if key not in self.methods:
            self.methods[key] = self._of_method(composed)
        asked, illegal = self.methods[key]
        if illegal:
            return illegal
        task = content_hash(content["task"])
        if task not in self.tasks:
            node: Any = OmegaConf.to_container(composed.cfg().task, resolve=True)
            self.tasks[task] = frozenset(build(node, "task").ids) | {"index"}
        return "" if asked in self.tasks[task] else f"it asks the task for {asked!r} position ids"

    def _of_method(self, composed: Composition) -> tuple[str, str]:
        """The position ids that it asks for, and why the extension refuses the encoding."""
        extension, stack = built(composed.cfg())
        why = refusal(extension, stack)
        return stack.ids, f"the extension cannot extend it: {why}" if why else ""


# -- plans -----------------------------------------------------------------------------------------

ROWS_A_JOB = 10
"""Tests in one job where their training is complete, so that several workers share them."""


@dataclass(frozen=True)
class PlannedRun:
    """A run that is to be made."""

    words: Words
    spec: RunSpec

    @cached_property
    def training(self) -> str:
        """A hash that runs have in common which share trained weights."""
        content = self.spec.composed.content
        return content_hash([self.family, content["seed"]])

    @cached_property
    def family(self) -> str:
        """A hash that runs have in common whose trainings differ in their seed alone."""
        content = self.spec.composed.content
        return content_hash([content[name] for name in ("task", "encoding", "model", "training")])

    @property
    def replicas(self) -> int:
        """How many such trainings are made in step."""
        return max(int(self.spec.composed.content["trainer"]["replicas"]), 1)


@dataclass(frozen=True)
class Job:
    """Runs that one worker makes: a training, or several in step, and what is measured on it."""

    runs: tuple[PlannedRun, ...]


@dataclass(frozen=True)
class SweepPlan:
    request: Request
    jobs: tuple[Job, ...]
    complete: tuple[PlannedRun, ...]
    refused: dict[str, dict[str, list[str]]]  # reason -> method -> tasks
    wrong: dict[Words, str]  # runs that cannot be composed or built, each with its sentence
    repeated: int  # how many are asked for once more, as a row that is in two parts of a board
    trained: frozenset[str] = frozenset()  # trainings of the jobs whose weights are here

    @property
    def requested(self) -> int:
        """How many runs are asked for, each counted once."""
        return len(self.request.runs) - self.repeated

    @property
    def runs(self) -> list[PlannedRun]:
        """The runs that are to be made."""
        return [run for job in self.jobs for run in job.runs]

    @property
    def not_applicable(self) -> int:
        """How many have a method that cannot be tested on their task."""
        return self.requested - len(self.runs) - len(self.complete) - len(self.wrong)

    def heading(self) -> Iterator[str]:
        """What is asked for, and what needs nothing more."""
        runs, board = self.runs, self.request.board
        # Where it is asked for, what is there is made again for each run.
        trainings = len(
            {
                (run.training, run.spec.composed.content["force"] and run.spec.key)
                for run in [*runs, *self.complete]
            }
        )
        named = f"Board {board.name}, definition {board.hash[:8]}: " if board else "Sweep: "
        requested = counted(self.requested, "run")
        yield f"{named}{requested} on {counted(trainings, 'training')}."
        if board and self.request.parts:
            for part, count in Counter(self.request.parts.values()).items():
                yield f"  {count:7,}  {part}"
        if self.repeated:
            yield f"  {-self.repeated:7,}  asked for more than once"
        yield f"  {len(self.complete):7,}  complete"
        yield from self._taken_over()
        yield f"  {self.not_applicable:7,}  not applicable"
        for reason, rows in self.refused.items():
            for row, tasks in rows.items():
                yield f"           {row}, not on {', '.join(tasks)}: {reason}"
        if self.wrong:
            yield f"  {len(self.wrong):7,}  cannot be run"
        for words, said in self.wrong.items():
            yield f"           {' '.join(words)}: {said}"

    def lines(self, cost: Cost) -> Iterator[str]:
        """The same with what there is to do, and what it costs."""
        yield from self.heading()
        yield f"  {len(self.runs):7,}  to run, in {counted(len(self.jobs), 'job')}"
        if self.in_zoo:
            held = counted(len(self.in_zoo), "training")
            yield f"           {held} {agreeing(len(self.in_zoo), 'is', 'are')} in the zoo"
        if self.runs:
            yield str(cost)

    def cost(self, results_dir: Path, keys: Container[str] | None = None) -> Cost:
        """The CPU time that the runs will take, or those of them with these keys: by the records of
        the results folder, and where they do not tell, by published ones.
        """
        left = [run for run in self.runs if keys is None or run.spec.key in keys]
        costs = Costs.by(_readable(results_dir))
        for records in self.published.values():
            costs = costs.beside(Costs.by(records))
        made = self.trained | self.in_zoo
        return costs.of_runs([(run.spec, run.training) for run in left], made)

    @cached_property
    def in_zoo(self) -> set[str]:
        """Of the trainings of the runs that are left, those that a zoo has."""
        return in_zoo(self.runs)

    @cached_property
    def published(self) -> dict[Path, list[Record]]:
        """Published records, by their folder: of the board, if they are here, and of the main one.

        Those alone, wherever one is, so that the same plan has the same cost.
        """
        folders = [shipped()]
        if self.request.board and (own := Path("results", self.request.board.name)).is_dir():
            folders = [own, *(each for each in folders if not each.samefile(own))]
        return {folder: _readable(folder) for folder in folders}

    def _taken_over(self) -> Iterator[str]:
        """How many of the runs that are to be made are published, and how to go on from there."""
        if not self.runs:
            return
        results_dir = self.runs[0].spec.results_dir
        left = {run.spec.fingerprint for run in self.runs if run.spec.may_be_found}
        for folder, records in self.published.items() if left else ():
            there = left & {Fingerprint.of(record) for record in records}
            if there and folder != results_dir:
                words = ["unpack", str(folder)]
                words += ["--to", str(results_dir)] * (results_dir != LOCAL)
                yield (
                    f"           {len(there):,} of the others {agreeing(len(there), 'is', 'are')} "
                    f"published: `posbench records {shlex.join(words)}` takes them over"
                )


def in_zoo(runs: Iterable[PlannedRun]) -> set[str]:
    """The trainings of these runs that nobody has to make, as a zoo has them. It needs torch where
    there is a zoo.
    """
    asked = {run.training: run for run in runs if not run.spec.composed.content["force"]}
    places = {str(run.spec.composed.content["zoo"]) for run in asked.values()}
    if not any(map(os.path.exists, places)):
        return set()
    from posbench.running.zoo import usable

    zoos = {place: usable(place) for place in places}
    found = set()
    for training, run in asked.items():
        content = run.spec.composed.content
        there = zoos[str(content["zoo"])]
        if any(each.may_be_of(content) for each in there.values()):
            with suppress(PosbenchError):  # which the run will say
                if there.keys() >= {*run.spec.training_hashes}:
                    found.add(training)
    return found


def plan(request: Request) -> SweepPlan:
    """Look at every run that is asked for: nothing is made, and torch is needed only where
    something is left to be made. A name that there is not is an error before all else.
    """
    with reading_once():
        return _plan(request)


def _plan(request: Request) -> SweepPlan:
    check = _check_once()
    refusals, asking = Refusals(), _asking(check)
    complete: list[PlannedRun] = []
    left: list[PlannedRun] = []
    refused: dict[str, dict[str, list[str]]] = defaultdict(lambda: defaultdict(list))
    wrong: dict[Words, str] = {}
    seen: set[str] = set()
    repeated = 0
    for words in request.runs:
        blame.forget()
        try:
            run = PlannedRun(words, asking(words))
            if run.spec.key in seen:
                repeated += 1
                continue
            seen.add(run.spec.key)
            if run.spec.is_complete:
                complete.append(run)
                continue
            reason = refusals.refusal(run.spec.composed)
        except (PosbenchError, OmegaConfBaseException, YAMLError) as error:
            wrong[words] = sentence(error, words)
            continue
        except Exception as error:
            if (said := blame.of_own_code(error)) is None:
                raise
            wrong[words] = f"{said} ({blame.HOW})"
            continue
        identity = run.spec.identity
        if not reason:
            left.append(run)
        elif identity.task.label not in (tasks := refused[reason][identity.method.label]):
            tasks.append(identity.task.label)
    trained = frozenset(_trained(left, {run.training for run in complete}))
    jobs = tuple(_jobs(left, trained))
    return SweepPlan(request, jobs, tuple(complete), refused, wrong, repeated, trained)


def _trained(runs: Iterable[PlannedRun], told: set[str]) -> Iterator[str]:
    """Of the trainings that records tell of, those whose weights are here too: published records
    come without them.
    """
    for training, run in {run.training: run for run in runs}.items():
        if training in told and not run.spec.composed.content["force"]:
            with suppress(PosbenchError):  # which the run will say
                if run.spec.has_weights:
                    yield training


def _asking(check: Callable[[Composition], None]) -> Callable[[Words], RunSpec]:
    """What runs ask for; those that differ in their seed alone are named once. PosbenchError for a
    setting that is wrong: names are made of whole sections.
    """
    found: dict[Words, RunSpec] = {}

    def asking(words: Words) -> RunSpec:
        rest, seed = without_seed(words)
        if rest not in found:
            composed = compose(*rest)
            check(composed)
            found[rest] = RunSpec.of(composed)
        return found[rest] if seed is None else found[rest].with_seed(seed)

    return asking


def _check_once() -> Callable[[Composition], None]:
    """Validate each distinct combination of settings once."""
    right: set[str] = set()

    def check(composed: Composition) -> None:
        seeded = composed.content["seed"]
        same = {"seed": 0} if isinstance(seeded, int) and seeded >= 0 else {}
        content = {**composed.content, **same}
        key = content_hash({name: content[name] for name in content.keys() - FREE})
        if key not in right:
            checked(composed.cfg())
            right.add(key)

    return check


def _jobs(runs: Iterable[PlannedRun], trained: Container[str]) -> Iterator[Job]:
    """One for each training, or for `trainer.replicas` that differ in their seed alone; where a
    training is complete its tests are shared out.
    """
    together: dict[str, list[PlannedRun]] = defaultdict(list)
    for run in runs:
        together[run.training].append(run)
    jobs: dict[tuple[str, int], list[PlannedRun]] = defaultdict(list)
    seen: Counter[str] = Counter()
    for training, several in together.items():
        if training in trained:
            for index, run in enumerate(several):
                jobs[training, index // ROWS_A_JOB].append(run)
        else:
            family = several[0].family
            jobs[family, seen[family] // several[0].replicas] += several
            seen[family] += 1
    for job in jobs.values():
        yield Job(tuple(job))


def _readable(folder: Path) -> list[Record]:
    """The records of a results folder; those that cannot be read tell nothing."""
    return files.read_folder(folder).records if folder.is_dir() else []
