"""A sweep from its plan to its summary."""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

import numpy as np
from hydra.plugins.launcher import Launcher

from posbench.errors import PosbenchError
from posbench.records import files
from posbench.sweeping import journal
from posbench.sweeping.journal import Event
from posbench.sweeping.plan import Job, Plan, Run, plan, with_records
from posbench.sweeping.requests import Request
from posbench.sweeping.watching import Watch, duration
from posbench.sweeping.working import quoted

DEATHS = 2
"""A run in whose making as many workers have died is not begun again in the same sweep."""
SHARE_OF_TEST = 0.1
"""The cost of a run without training, in runs with one, where no record tells."""


class Failed(PosbenchError):
    """Some runs of a sweep failed, of which its summary has told."""


def _print(line: str) -> None:
    print(line, flush=True)


class Sweep:
    """Runs that one command asked for.

    What is complete is read off records, never off what a launcher returns: a worker may die, and
    some launchers then lose what all others have done. So whatever has neither a record nor a
    failure after a launch is launched again, until nothing is left or nothing moves.
    """

    def __init__(
        self,
        request: Request,
        results_dir: str,
        launcher: Launcher,
        say: Callable[[str], None] = _print,
    ) -> None:
        self.request, self.launcher, self.say = request, launcher, say
        self.results_dir = Path(results_dir)
        self.name = f"{time.strftime('%Y%m%d-%H%M%S')}-{os.getpid()}"
        self.launched = 0

    def make(self, plan_only: bool) -> None:
        """Say the plan, and make what is missing unless only the plan is asked for.

        Failed, after the summary, if some runs failed.
        """
        planned = plan(self.request)
        folders = [self.results_dir, *with_records(Path("results"))]
        for line in planned.lines(folders):
            self.say(line)
        if not (planned.runs or planned.complete or planned.wrong):
            raise PosbenchError("none of these methods applies to any of these tasks")
        if plan_only:
            return
        start = time.monotonic()
        journal.tidy(self.results_dir)
        runs = {self._key(run): run for run in planned.runs}
        cost = planned.cost(folders).runs
        weights = dict(zip(runs, _weights(planned.runs, cost), strict=True))
        with Watch(self.results_dir, self.name, weights, self.say) as watch:
            self._launch_until_done(planned.jobs, watch)
        self._summarise(planned, watch.ended, time.monotonic() - start)

    def _key(self, run: Run) -> str:
        return str(run.asked.path.relative_to(self.results_dir))

    # -- launching ---------------------------------------------------------------------------------

    def _launch_until_done(self, jobs: Sequence[Job], watch: Watch) -> None:
        while jobs:
            before, said = set(watch.ended), self._launch(jobs)
            watch.look()
            deaths = self._deaths()
            left = [run for job in jobs for run in job.runs if self._key(run) not in watch.ended]
            for run in left:
                if deaths[self._key(run)] >= DEATHS:
                    self._note_failed(run, f"its worker died {DEATHS} times while it was made")
            if set(watch.ended) == before and not deaths:
                for run in left:
                    self._note_failed(
                        run, f"no worker has begun it: {said or 'the launcher is silent'}"
                    )
            watch.look()
            jobs = _without(jobs, set(watch.ended), self._key)
            if jobs:
                count = sum(len(job.runs) for job in jobs)
                self.say(
                    f"{count:,} runs are left of workers that have died; launching them again."
                )

    def _launch(self, jobs: Sequence[Job]) -> str:
        """Have the launcher run the jobs; what it says if it fails."""
        overrides = [
            [
                *_shared(job),
                f"job.sweep={self.name}",
                f"job.runs={quoted([run.words for run in job.runs])}",
            ]
            for job in jobs
        ]
        first, self.launched = self.launched, self.launched + len(jobs)
        try:
            self.launcher.launch(overrides, initial_job_idx=first)
        except (
            Exception
        ) as error:  # of a library: which, and what it means, depends on the launcher
            return f"{type(error).__name__}: {' '.join(str(error).split())}"
        return ""

    def _deaths(self) -> Counter[str]:
        """How many workers of this sweep have died while they made each run."""
        found = journal.workers(self.results_dir)
        last = ((worker, worker.unfinished) for worker in found)
        return Counter(
            event.run
            for worker, event in last
            if event is not None and event.sweep == self.name and not worker.alive
        )

    def _note_failed(self, run: Run, sentence: str) -> None:
        identity = run.asked.identity
        event = Event(
            "failed",
            self.name,
            self._key(run),
            run.asked.title,
            time.time(),
            command=identity.command,
            sentence=sentence,
        )
        journal.Writer.of(self.results_dir).write(event)

    # -- the end -----------------------------------------------------------------------------------

    def _summarise(self, planned: Plan, ended: dict[str, Event], seconds: float) -> None:
        failures = [event for event in ended.values() if event.kind == "failed"]
        refused = sum(len(tasks) for rows in planned.refused.values() for tasks in rows.values())
        made = sum(event.kind == "done" for event in ended.values())
        skipped = len(planned.complete) + sum(event.kind == "found" for event in ended.values())
        wrong = len(planned.wrong)
        self.say(
            f"{made:,} done in {duration(seconds)}, {skipped:,} were complete, {refused:,} not "
            f"applicable, {len(failures) + wrong:,} failed."
        )
        for words, sentence in planned.wrong.items():
            self.say(f"  {sentence}\n    python -m posbench {' '.join(words)}")
        for event in failures:
            self.say(f"  {event.title}: {event.sentence}\n    {event.command}")
        if made or skipped:
            command = ["python -m posbench.leaderboard"]
            command += [str(self.results_dir)] * (self.results_dir != files.LOCAL)
            self.say(f"Leaderboard: {' '.join(command)}")
        if failures or wrong:
            raise Failed(f"{len(failures) + wrong:,} of {len(self.request.runs):,} runs failed")


def _shared(job: Job) -> list[str]:
    """The words of a job's first run, so that a launcher shows what it runs."""
    return list(job.runs[0].words)


def _without(jobs: Iterable[Job], ended: set[str], key: object) -> list[Job]:
    left = (tuple(run for run in job.runs if key(run) not in ended) for job in jobs)  # type: ignore[operator]
    return [Job(runs) for runs in left if runs]


def _weights(runs: Sequence[Run], cost: Sequence[float]) -> list[float]:
    """What each run is reckoned to cost, in CPU seconds where records tell that of every run."""
    if cost and not np.isnan(cost).any() and min(cost) > 0:
        return list(cost)
    seen: set[str] = set()
    found = []
    for run in runs:
        found.append(SHARE_OF_TEST if run.training in seen else 1.0)
        seen.add(run.training)
    return found
