"""The journal of a results folder: what its workers say of the runs they make.

Each worker process appends lines to a file of its own and holds that file's lock for as long as it
lives, so that anybody can tell a run that is being made from one whose worker has died. Records
alone say what is complete; the journal says what is going on and what has failed.
"""

from __future__ import annotations

import errno
import json
import os
import socket
import time
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, ClassVar, Literal

from pydantic import FiniteFloat, TypeAdapter

from posbench.base.disk import Lock, is_held, read_bytes

FOLDER = Path("sweeps", "journal")  # in a results folder
Kind = Literal["begun", "done", "found", "failed", "stopped", "busy"]


@dataclass(frozen=True)
class Event:
    """A line of the journal."""

    kind: Kind  # "found": the record was there already; "busy": another process makes the run
    sweep: str  # that asked for the run
    run: str  # the path of its record below the results folder
    title: str
    at: FiniteFloat  # seconds since 1970, by the clock of the worker
    seconds: FiniteFloat = 0.0  # for which the run took
    command: str = ""  # that repeats it
    sentence: str = ""  # why it failed


EVENT = TypeAdapter(Event)
TEXTS = ("sweep", "run", "title", "command", "sentence")
"""What of an event is shown on terminals, and is whatever is in a file of whomever."""


class Writer:
    """The file of this process in a journal."""

    kept: ClassVar[dict[Path, Writer]] = {}

    def __init__(self, results_dir: str | Path) -> None:
        folder = Path(results_dir) / FOLDER
        folder.mkdir(parents=True, exist_ok=True)
        name = f"{socket.gethostname()}-{os.getpid()}-{time.time_ns()}"
        self.lock = Lock(folder / f"{name}.lock")
        self.lock.acquire()  # let go when the process ends, however it ends
        self.path = folder / f"{name}.jsonl"
        self.torn = False  # a full disk took half of a line

    @classmethod
    def of(cls, results_dir: Path) -> Writer:
        """The journal that this process keeps in a results folder, wherever it goes meanwhile."""
        place = Path(results_dir).resolve()
        found = cls.kept.get(place)
        if found is None or not found.path.parent.is_dir():  # a notebook outlives its folders
            found = cls.kept[place] = cls(place)
        return found

    def write(self, event: Event) -> None:
        """Append a line; whoever reads meanwhile sees all of it or nothing."""
        line = ("\n" * self.torn + json.dumps(asdict(event)) + "\n").encode()
        self.torn = True
        with open(self.path, "ab", buffering=0) as file:
            if file.write(line) < len(line):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(self.path))
        self.torn = False


@dataclass(frozen=True)
class Worker:
    """What one process has written."""

    path: Path
    size: int  # in bytes, of what was read
    events: tuple[Event, ...]

    @property
    def alive(self) -> bool:
        """Whether the process that writes the file still holds its lock."""
        return is_held(self.path.with_suffix(".lock"))

    @property
    def unfinished(self) -> Event | None:
        """The beginning of the run that it is making, or was making when it died."""
        last = self.events[-1] if self.events else None
        return last if last is not None and last.kind == "begun" else None


def workers(results_dir: str | Path, seen: Mapping[Path, int] | None = None) -> list[Worker]:
    """Everyone who has written in the journal of a results folder, since files had these sizes."""
    found = []
    for path in sorted((Path(results_dir) / FOLDER).glob("*.jsonl")):
        try:
            if seen is not None and path.stat().st_size <= seen.get(path, 0):
                continue
            content = read_bytes(path)
        except OSError:  # another sweep has tidied it away; or it is no file, or not ours to read
            continue
        found.append(Worker(path, len(content), tuple(_events(content))))
    return found


def _events(content: bytes) -> Iterator[Event]:
    for line in content.splitlines():
        try:
            event = EVENT.validate_json(line)
        except ValueError:  # the line that a worker died in, or of another version, or no text
            continue
        texts: dict[str, Any] = {name: _printable(getattr(event, name)) for name in TEXTS}
        yield replace(event, **texts)


def _printable(text: str) -> str:
    return "".join(each if each.isprintable() else " " for each in text)


def tidy(results_dir: str | Path) -> None:
    """Remove the files of dead workers all of whose runs have records: they tell nothing more."""
    for worker in workers(results_dir):
        recorded = all((Path(results_dir) / event.run).exists() for event in worker.events)
        if recorded and not worker.alive:
            worker.path.unlink(missing_ok=True)
            worker.path.with_suffix(".lock").unlink(missing_ok=True)
