"""A sweep from its plan to its summary."""

from __future__ import annotations

import functools
import re
import signal
import threading
import time
import uuid
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import numpy as np
from hydra.plugins.launcher import Launcher

from posbench.base.disk import make_writable, writing_to
from posbench.base.errors import PosbenchError, Terminated
from posbench.base.wording import agreeing, counted, duration
from posbench.config.folders import searched, with_own
from posbench.config.record_command import Command
from posbench.records.files import leaderboard_command
from posbench.sweeping import journal
from posbench.sweeping.journal import Event, Worker, workers
from posbench.sweeping.plan import Job, PlannedRun, SweepPlan, plan
from posbench.sweeping.requests import Request
from posbench.sweeping.working import RunJournal, is_claimed, last_step, quoted, said_in

# -- what a person sees of a sweep while it goes on ------------------------------------------------

ENDED = ("done", "found", "failed")
PAUSE = 0.5  # seconds between two looks at the journal
SILENCE = 300.0  # seconds without a line after which a sweep says what it is at
SHOWN = 3  # runs that it then names
TELLING = 0.02
"""The share of the cost that is done before an end is foretold: a test of weights that are there
costs a hundredth of a training, and may have waited for them."""


class Watch:
    """Follows the journal of a sweep, whichever processes and machines write it."""

    def __init__(
        self,
        results_dir: Path,
        sweep: str,
        costs: Mapping[str, float],
        say: Callable[[str], None],
    ) -> None:
        self.results_dir, self.sweep, self.costs, self.say = results_dir, sweep, costs, say
        self.ended: dict[str, Event] = {}  # by run
        self.begun = False  # and said so
        self.started = self.spoke = time.monotonic()
        self.sizes: dict[Path, int] = {}
        self.looking = threading.Lock()  # the sweep looks as well, when a launcher has returned
        self.stop = threading.Event()
        self.thread = threading.Thread(target=self._follow, daemon=True)
        self.failed: BaseException | None = None  # of the thread, which has nobody to tell

    def __enter__(self) -> Watch:
        self.thread.start()
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        self.stop.set()
        self.thread.join()
        if self.failed is None:
            self.look()
        elif kind is None:
            raise self.failed

    def _follow(self) -> None:
        try:
            while not self.stop.wait(PAUSE):
                self.look()
        except BaseException as error:  # such as a terminal that is gone
            self.failed = error

    def look(self) -> None:
        """Say that the first run has begun, and what has ended since the last look; after a long
        silence, what is being made.
        """
        with self.looking:
            before = len(self.ended)
            for worker in self._changed():
                for event in worker.events:
                    if event.sweep != self.sweep or not self._is_new(event):
                        continue
                    if event.kind in ENDED:
                        self.ended[event.run] = event
                        self.say(self._line(event))
                    elif event.kind == "begun" and not (self.begun or self.ended):
                        self.begun = True
                        self.say(f"Begun: {event.title}. Each run has a line when it ends.")
            if len(self.ended) > before:
                self.spoke = time.monotonic()
            elif time.monotonic() - self.spoke > SILENCE:
                self.spoke = time.monotonic()
                for line in self._at_work():
                    self.say(line)

    def _changed(self) -> list[Worker]:
        found = workers(self.results_dir, self.sizes)
        self.sizes |= {worker.path: worker.size for worker in found}
        return found

    def _at_work(self) -> Iterator[str]:
        """What workers of this sweep are making, for how long, and how far they are."""
        found = [
            event
            for worker in workers(self.results_dir)
            if (event := worker.unfinished) is not None
            and event.sweep == self.sweep
            and event.run in self.costs
            and worker.alive
        ]
        for event in found[:SHOWN]:
            since = duration(max(time.time() - event.at, 0.0))
            far = last_step(said_in(self.results_dir, event.run))
            yield f"At work for {since}: {event.title}{f' ({far})' * bool(far)}"
        if len(found) > SHOWN:
            yield f"At work as well: {counted(len(found) - SHOWN, 'run')}."

    def _is_new(self, event: Event) -> bool:
        return event.run not in self.ended and event.run in self.costs

    def _line(self, event: Event) -> str:
        failed = sum(each.kind == "failed" for each in self.ended.values())
        where = [f"{len(self.ended):,} of {len(self.costs):,}"]
        where += [f"{failed:,} failed"] if failed else []
        left = self.left() if len(self.ended) < len(self.costs) else None
        where += [] if left is None else [f"{duration(left)} left"]
        said = {"failed": f": {event.sentence}", "found": ": was complete"}.get(event.kind, "")
        took = f" ({duration(event.seconds)})" if event.kind == "done" else ""
        return f"[{', '.join(where)}] {event.title}{took}{said}"

    def left(self) -> float | None:
        """Seconds until the end, as fast as it has been: by CPU time where that is known. None
        before a share of the whole is done that tells how fast that is.
        """
        total, done = sum(self.costs.values()), sum(self.costs[run] for run in self.ended)
        if done < TELLING * total:
            return None
        return (time.monotonic() - self.started) * (total - done) / done


# -- sweeps ----------------------------------------------------------------------------------------

DEATHS = 2
"""A run that is launched alone, and whose workers have died as often as this, has failed."""
STOPPED = "its job was stopped by a signal: cancelled, or too slow"
SHARE_OF_TEST = 0.1
"""The cost of a run without training, in runs with one, where no record tells."""


class Failed(PosbenchError):
    """Some runs of a sweep failed; its summary has said which."""


AT_ONCE = functools.partial(print, flush=True)


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
        say: Callable[[str], None] = AT_ONCE,
        *,
        leaderboard: bool = True,
    ) -> None:
        self.request, self.launcher, self.say = request, launcher, say
        self.leaderboard = leaderboard
        self.results_dir = Path(results_dir)
        # Of this sweep alone: one that another follows within a second has a name of its own.
        self.name = f"{time.strftime('%Y%m%d-%H%M%S')}-{uuid.uuid4().hex[:8]}"
        self.launched = 0

    def make(self, plan_only: bool) -> None:
        """Say the plan, and make what is missing unless only the plan is asked for.

        Failed, after the summary, if some runs failed.
        """
        for line in self.request.lines():
            self.say(line)
        planned = plan(self.request)
        cost = planned.cost(self.results_dir)
        for line in planned.lines(cost):
            self.say(line)
        if not (planned.runs or planned.complete or planned.wrong):
            raise PosbenchError("none of these methods applies to any of these tasks")
        if plan_only:
            if planned.wrong:
                several = counted(len(planned.wrong), "run")
                raise PosbenchError(f"{several} cannot be made: correct the words that are named")
            return
        start = time.monotonic()
        keys = [run.spec.key for run in planned.runs]
        weights = dict(zip(keys, _weights(planned.runs, cost.runs), strict=True))
        with writing_to(self.results_dir):
            make_writable(self.results_dir)
            journal.tidy(self.results_dir)
            with Watch(self.results_dir, self.name, weights, self.say) as watch:
                self._launch_until_done(planned.jobs, watch)
        self._summarise(planned, watch.ended, time.monotonic() - start)

    # -- launching ---------------------------------------------------------------------------------

    def _launch_until_done(self, jobs: Sequence[Job], watch: Watch) -> None:
        groups = [list(jobs)]
        while groups:
            if group := groups.pop(0):
                groups[:0] = self._settle(group, watch)

    def _settle(self, jobs: Sequence[Job], watch: Watch) -> list[list[Job]]:
        """Launch jobs, and say what has become of them; what is to be launched again, in groups.

        Where one worker dies a launcher may kill the others, so a run that was being made then is
        only suspected. Suspects are launched apart from all others, and if one dies again by
        halves, until one of them alone has been the death of a worker.
        """
        ended, before = set(watch.ended), self._ends()
        said = self._launch(jobs)
        self._wait_for_others(jobs, watch)
        now = self._ends()
        ends = now - before
        begun = {run for run, _ in ends} | (set(watch.ended) - ended)
        if said and not begun and not ended:
            runs = counted(sum(len(job.runs) for job in jobs), "run")
            raise Failed(f"no worker has begun any of {runs}: {said}")
        left: list[Job] = []
        for job in _without(jobs, set(watch.ended)):
            if any(ends[run.spec.key, "stopped"] for run in job.runs):
                self._note_failed(job.runs, STOPPED)
            elif not begun:
                silent = said or "the launcher is silent"
                self._note_failed(job.runs, f"no worker has begun it: {silent}")
            else:
                left.append(job)
        suspects = [run for job in left for run in job.runs if ends[run.spec.key, "died"]]
        deaths = [now[run.spec.key, "died"] for run in suspects]
        if len(suspects) == 1 and deaths[0] >= DEATHS:
            self._note_failed(suspects, f"its worker died {deaths[0]} times while it was made")
            left = _without(left, {suspects.pop().spec.key})
        watch.look()
        if left:
            count = sum(len(job.runs) for job in left)
            of = f", {len(suspects):,} of them of workers that have died" * bool(suspects)
            are = agreeing(count, "is", "are")
            self.say(f"{counted(count, 'run')} {are} left{of}; launching again.")
        others = _without(left, {run.spec.key for run in suspects})
        apart = [Job((run,)) for run in suspects]
        if len(apart) > 1 and min(deaths) >= DEATHS:
            half = len(apart) // 2
            return [others, apart[:half], apart[half:]]
        return [others, apart]

    def _wait_for_others(self, jobs: Sequence[Job], watch: Watch) -> None:
        """Until nobody else makes any of the runs: another sweep may, or a worker that outlives its
        launch.
        """
        watch.look()
        told = False
        while True:
            left = [run for job in jobs for run in job.runs if run.spec.key not in watch.ended]
            made = [run for run in left if is_claimed(run.spec)]
            if not made:
                break
            if not told:
                self.say(f"Others are making {len(made):,} of these runs; waiting for them.")
            told = True
            time.sleep(PAUSE)
        watch.look()
        for run in left:
            if run.spec.key not in watch.ended and run.spec.is_complete:
                RunJournal(run.spec, self.name).write("found")
        watch.look()

    def _launch(self, jobs: Sequence[Job]) -> str:
        """Have the launcher run the jobs; what it says if it fails."""
        overrides = [
            [
                *job.runs[0].words,  # so that a launcher shows what it runs
                f"job.sweep={self.name}",
                f"job.runs={quoted([run.words for run in job.runs])}",
            ]
            for job in jobs
        ]
        first, self.launched = self.launched, self.launched + len(jobs)
        try:
            with stopped_as_by_ctrl_c():
                self.launcher.launch(overrides, initial_job_idx=first)
        except Exception as error:  # which, and what it means, depends on the launcher
            return f"{type(error).__name__}: {' '.join(str(error).split())}"
        return ""

    def _ends(self) -> Counter[tuple[str, str]]:
        """How often each run of this sweep has been left unfinished, and by what."""
        found: Counter[tuple[str, str]] = Counter()
        for worker in journal.workers(self.results_dir):
            last = worker.unfinished
            if last is not None and last.sweep == self.name and not worker.alive:
                found[last.run, "died"] += 1
            for event in worker.events:
                if event.sweep == self.name and event.kind in ("stopped", "busy"):
                    found[event.run, event.kind] += 1
        return found

    def _note_failed(self, runs: Iterable[PlannedRun], sentence: str) -> None:
        for run in runs:
            RunJournal(run.spec, self.name).write("failed", sentence)

    # -- the end -----------------------------------------------------------------------------------

    def _summarise(self, planned: SweepPlan, ended: dict[str, Event], seconds: float) -> None:
        failures = [event for event in ended.values() if event.kind == "failed"]
        made = sum(event.kind == "done" for event in ended.values())
        skipped = len(planned.complete) + sum(event.kind == "found" for event in ended.values())
        wrong = len(planned.wrong)
        self.say(
            f"{made:,} done in {duration(seconds)}, {skipped:,} were complete, "
            f"{planned.not_applicable:,} not applicable, {len(failures) + wrong:,} failed."
        )
        for words, sentence in planned.wrong.items():
            self.say(f"  {sentence}\n    {with_own(Command('posbench', words), searched())}")
        alike: dict[str, list[Event]] = {}  # but for numbers, as a shape; each had its line
        for event in failures:
            alike.setdefault(re.sub(r"\d+", "", event.sentence), []).append(event)
        for first, *rest in alike.values():
            also = f" (and {counted(len(rest), 'run')} like it)" * bool(rest)
            self.say(f"  {first.title}{also}: {first.sentence}\n    {first.command}")
        if self.leaderboard and (made or skipped):
            self.say(f"Leaderboard: {leaderboard_command(self.results_dir, searched())}")
        if failures or wrong:
            raise Failed(f"{len(failures) + wrong:,} of {counted(planned.requested, 'run')} failed")


@contextmanager
def stopped_as_by_ctrl_c() -> Iterator[None]:
    """Within the block SIGTERM raises Terminated, as Ctrl-C raises KeyboardInterrupt: a launcher
    that has started workers then ends them. By itself the signal would leave them at work.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def stop(number: int, frame: object) -> None:
        if signal.getsignal(number) is stop:  # else a training in this process obeys it
            raise Terminated(number)

    before = signal.signal(signal.SIGTERM, stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _without(jobs: Iterable[Job], keys: set[str]) -> list[Job]:
    left = (tuple(run for run in job.runs if run.spec.key not in keys) for job in jobs)
    return [Job(runs) for runs in left if runs]


def _weights(runs: Sequence[PlannedRun], cost: Sequence[float]) -> list[float]:
    """The expected cost of each run, in CPU seconds where records tell it for every run."""
    if cost and not np.isnan(cost).any() and min(cost) > 0:
        return list(cost)
    seen: set[str] = set()
    found = []
    for run in runs:
        found.append(SHARE_OF_TEST if run.training in seen else 1.0)
        seen.add(run.training)
    return found
