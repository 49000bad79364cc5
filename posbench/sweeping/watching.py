"""What a person sees of a sweep while it goes on: a line for each run that ends."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from posbench.sweeping.journal import Event, Worker, workers
from posbench.wording import duration

ENDED = ("done", "found", "failed")
PAUSE = 0.5  # seconds between two looks at the journal


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
        self.started = time.monotonic()
        self.sizes: dict[Path, int] = {}
        self.looking = threading.Lock()  # the sweep looks as well, when a launcher has returned
        self.stop = threading.Event()
        self.thread = threading.Thread(target=self._follow, daemon=True)

    def __enter__(self) -> Watch:
        self.thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop.set()
        self.thread.join()
        self.look()

    def _follow(self) -> None:
        while not self.stop.wait(PAUSE):
            self.look()

    def look(self) -> None:
        """Say what has ended since the last look."""
        with self.looking:
            for worker in self._changed():
                for event in worker.events:
                    if event.sweep == self.sweep and event.kind in ENDED and self._is_new(event):
                        self.ended[event.run] = event
                        self.say(self._line(event))

    def _changed(self) -> list[Worker]:
        found = workers(self.results_dir, self.sizes)
        self.sizes |= {worker.path: worker.size for worker in found}
        return found

    def _is_new(self, event: Event) -> bool:
        return event.run not in self.ended and event.run in self.costs

    def _line(self, event: Event) -> str:
        failed = sum(each.kind == "failed" for each in self.ended.values())
        where = [f"{len(self.ended):,} of {len(self.costs):,}"]
        where += [f"{failed:,} failed"] if failed else []
        where += [f"{duration(self.left())} left"] if len(self.ended) < len(self.costs) else []
        said = {"failed": f": {event.sentence}", "found": ": was complete"}.get(event.kind, "")
        took = f" ({duration(event.seconds)})" if event.kind == "done" else ""
        return f"[{', '.join(where)}] {event.title}{took}{said}"

    def left(self) -> float:
        """Seconds until the end, as fast as it has been: by CPU time where that is known."""
        done = sum(self.costs[run] for run in self.ended)
        rest = sum(self.costs.values()) - done
        return (time.monotonic() - self.started) * rest / done if done else 0.0
