"""`posbench status WORDS`: how far a sweep is, from any terminal.

    posbench status board=main
    posbench status 'method=glob(rope*)' task=passkey,copy 'seed=range(3)'

The words are those of the sweep. What they mean is planned again and compared with the records and
the journal of the results folder. Nothing is run and nothing is written.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from posbench.base.wording import duration
from posbench.config import command_lines, mistakes
from posbench.config.compose import compose, composing
from posbench.config.exit_status import exit_status
from posbench.sweeping.journal import Event, Worker, workers
from posbench.sweeping.plan import SweepPlan, plan
from posbench.sweeping.requests import request


def main(arguments: list[str] | None = None) -> int:
    parser = command_lines.parser("posbench status", "How far a sweep is.", config_dir=True)
    parser.add_argument("words", nargs="*", help="as after posbench sweep")
    parser.add_argument(
        "-m", "--multirun", action="store_true", help="allowed, and changes nothing"
    )
    chosen = parser.parse_intermixed_args(arguments)

    def told() -> int:
        with composing(*chosen.config_dir):
            mistakes.check(chosen.words, chosen.config_dir)
            requested = request(chosen.words, chosen.config_dir)
            for line in requested.lines():
                print(line, flush=True)
            planned = plan(requested)
            for line in lines(planned, _results_dir(planned)):
                print(line)
        return 0

    return exit_status(told, chosen.words, chosen.config_dir)


def _results_dir(planned: SweepPlan) -> Path:
    """The folder that all runs share; the usual one for a sweep of which none can be run."""
    for run in (*planned.complete, *planned.runs):
        return run.spec.results_dir
    return Path(compose().content["results_dir"])


def lines(planned: SweepPlan, results_dir: Path) -> Iterator[str]:
    """What is complete, under way, failed and missing, and how long the rest will take."""
    if not results_dir.is_dir():
        yield f"There is no folder {results_dir} yet: results_dir= names that of another sweep."
    yield from planned.heading()
    found = workers(results_dir)
    by_key = {run.spec.key: run for run in planned.runs}
    running = {
        event.run: (event, worker)
        for worker in found
        if (event := worker.unfinished) is not None and event.run in by_key and worker.alive
    }
    failed = {name: event for name, event in _failed(found) if name in by_key.keys() - running}
    yield f"  {len(running):7,}  running"
    for event, worker in running.values():
        since = duration(max(time.time() - event.at, 0.0))
        yield f"           {event.title}, for {since}, by {worker.path.stem.rpartition('-')[0]}"
    yield f"  {len(failed):7,}  failed"
    for event in failed.values():
        yield f"           {event.title}: {event.sentence}\n             {event.command}"
    missing = [run for name, run in by_key.items() if name not in running and name not in failed]
    yield f"  {len(missing):7,}  missing"
    left = {name: run for name, run in by_key.items() if name not in failed}
    if left:
        cost = planned.cost(results_dir, set(left))
        said = f"The rest: {cost.said}"
        if running and cost.unknown < len(left):
            each = duration(cost.total / len(running))
            said += f" With {len(running)} at a time, each has {each} of CPU time left."
        yield said


def _failed(found: Sequence[Worker]) -> Iterator[tuple[str, Event]]:
    """The runs whose last end was a failure, each with that."""
    last: dict[str, Event] = {}
    for event in sorted((each for worker in found for each in worker.events), key=lambda e: e.at):
        if event.kind not in ("begun", "busy"):
            last[event.run] = event
    return ((name, event) for name, event in last.items() if event.kind == "failed")
