"""`python -m posbench` in processes of their own, and what they leave behind.

The processes are forked from one that has torch imported already, see `preloaded`: real signals
and real exit statuses, without five seconds of importing for each.
"""

from __future__ import annotations

import contextlib
import functools
import json
import multiprocessing
import os
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing.forkserver import ensure_running
from pathlib import Path
from typing import Any

import pytest

PATIENCE = 240.0  # seconds; only a hanging process takes as long

_processes = multiprocessing.get_context("forkserver")
_processes.set_forkserver_preload(["preloaded"])


@functools.cache
def _ready() -> None:
    """Start the process that is forked, which does not search where this one does."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", str(Path(__file__).parent), prepend=os.pathsep)
        ensure_running()


@dataclass
class Command:
    """`python -m posbench ARGUMENTS` under way."""

    process: Any
    folder: Path
    name: str

    @property
    def out(self) -> str:
        return self._written("out")

    @property
    def err(self) -> str:
        return self._written("err")

    def _written(self, ending: str) -> str:
        """Nothing, of a process that was killed before it opened its files."""
        path = self.folder / f"{self.name}.{ending}"
        return path.read_text() if path.exists() else ""

    @property
    def status(self) -> int | None:
        return self.process.exitcode

    def until(self, reached: Callable[[], bool]) -> Command:
        """Returns when `reached`; fails when the process ends or hangs before."""
        deadline = time.monotonic() + PATIENCE
        while not reached():
            assert self.process.is_alive(), f"ended too early:\n{self.out}{self.err}"
            assert time.monotonic() < deadline, f"hangs:\n{self.out}"
            time.sleep(0.005)
        return self

    def signalled(self, signum: int) -> Command:
        """Sends the signal and waits for the end. A process that ended a moment before gets none;
        its exit status tells the two apart.
        """
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.process.pid, signum)
        return self.ended()

    def ended(self) -> Command:
        self.process.join(PATIENCE)
        if self.process.is_alive():
            self.process.kill()
            pytest.fail(f"hangs:\n{self.out}")
        return self


def _main(folder: Path, name: str, arguments: tuple[str, ...]) -> None:
    os.chdir(folder)
    for descriptor, ending in ((1, "out"), (2, "err")):
        with open(folder / f"{name}.{ending}", "w") as file:
            os.dup2(file.fileno(), descriptor)
    sys.argv = ["posbench", *arguments]
    from posbench.cli import main
    from posbench.sweeping import plan

    # To read what the main board has published would take longer than all else.
    plan.shipped = lambda: folder / "unpublished"
    main()


def started(folder: Path, *arguments: str, name: str = "command") -> Command:
    """The command with the working directory `folder`, which also gets NAME.out and NAME.err."""
    folder.mkdir(parents=True, exist_ok=True)
    for ending in ("out", "err"):
        (folder / f"{name}.{ending}").unlink(missing_ok=True)
    _ready()
    process = _processes.Process(target=_main, args=(folder, name, arguments), daemon=True)
    process.start()
    return Command(process, folder, name)


def finished(folder: Path, *arguments: str) -> Command:
    return started(folder, *arguments).ended()


def succeeded(folder: Path, *arguments: str) -> Command:
    command = finished(folder, *arguments)
    assert (command.status, command.err) == (0, ""), command.out + command.err
    return command


def record_path(folder: Path, method: str = "rope") -> Path:
    (only,) = folder.glob(f"results/local/records/smoke/passkey*/{method}/seed=0.json")
    return only


def record(folder: Path, method: str = "rope") -> dict[str, Any]:
    return json.loads(record_path(folder, method).read_text())


def without_seconds(folder: Path, method: str = "rope") -> bytes:
    """The bytes of the record, less what alone may differ between two runs."""
    content = record(folder, method)
    for part in ("training", "evaluated"):
        kept = {key: value for key, value in content[part].items() if not key.endswith("_seconds")}
        assert len(kept) < len(content[part])
        content[part] = kept
    return json.dumps(content).encode()


def left_over(folder: Path) -> list[str]:
    """Files in the results that a finished run has no use for."""
    files = [path for path in (folder / "results").rglob("*") if path.is_file()]
    wanted = {
        "weights.pt",
        "training.json",
        "content.json",
        "lock",
        "metrics.csv",
        "hparams.yaml",
        "seed=0.json",
    }
    return [
        path.name
        for path in files
        if path.name not in wanted and not path.name.startswith("tested-")
    ]


def checkpoint_folder(folder: Path) -> Path:
    (only,) = (folder / "results/local/checkpoints").iterdir()
    return only
