"""A job of a sweep, in whichever process a launcher starts it."""

from __future__ import annotations

import re
import time
import traceback
from collections.abc import Sequence
from pathlib import Path

import filelock
from hydra.errors import HydraException
from omegaconf.errors import OmegaConfBaseException

from posbench.composing.compose import compose
from posbench.composing.mistakes import sentence
from posbench.disk import writing_to
from posbench.errors import PosbenchError, Unwritable
from posbench.running.asked import Asked
from posbench.running.making import make
from posbench.sweeping.journal import Event, Kind, Writer

PATIENCE = 1.0
"""Seconds for which a claim is waited for: `is_claimed` holds it for an instant."""


def work(job: Sequence[Sequence[str]], sweep: str) -> None:
    """Make the runs of a job, each of which is given by its words; one that fails stops no other.

    A run that another process is making is left to that one. What a run says of itself goes into a
    file beside what its loggers write; the journal says what became of it.
    """
    runs = [Asked.of(compose(*words)) for words in job]
    _train_together([asked for asked in runs if not asked.is_complete], sweep)
    for asked in runs:
        said, claim = Said(asked, sweep), claim_on(asked)
        try:
            claim.acquire(timeout=PATIENCE)
        except filelock.Timeout:
            said.write("busy")
            continue
        try:
            _work(asked, said)
        finally:
            claim.release()


def _work(asked: Asked, said: Said) -> None:
    if asked.is_complete:
        said.write("found")
        return
    said.write("begun")
    log = log_path(asked)
    with open(log, "a", encoding="utf-8") as file:
        try:
            make(asked, file)
        except Unwritable as error:
            said.write("failed", sentence(error))
            raise  # the rest of the job would fail as well
        except (PosbenchError, HydraException, OmegaConfBaseException) as error:
            said.write("failed", sentence(error))
        except Exception as error:  # a mistake of ours, or the machine's: the next may work
            traceback.print_exc(file=file)
            said.write("failed", f"{type(error).__name__}: {error} (more in {log})")
        except BaseException:  # a signal, of a person or of the queue
            said.write("stopped")
            raise
        else:
            said.write("done")


def _train_together(runs: Sequence[Asked], sweep: str) -> None:
    """Make the trainings of runs in step, if that is asked for."""
    if len(runs) < 2 or int(runs[0].composed.content["trainer"]["replicas"]) < 2:
        return
    from posbench.running.console import Console
    from posbench.running.ready import quiet
    from posbench.running.together import train_together

    quiet()
    said = Said(runs[0], sweep)
    said.write("begun")  # so that the death of a worker here is seen
    log = log_path(runs[0])
    log.parent.mkdir(parents=True, exist_ok=True)
    with open(log, "a", encoding="utf-8") as file:
        try:
            train_together(runs, Console(file))
        except Exception:  # a mistake of ours, or the machine's: each run then trains alone
            traceback.print_exc(file=file)
        except BaseException:  # a signal, of a person or of the queue
            said.write("stopped")
            raise


class Said:
    """What this process says of one run in the journal."""

    def __init__(self, asked: Asked, sweep: str) -> None:
        self.asked, self.sweep, self.start = asked, sweep, time.monotonic()

    def write(self, kind: Kind, sentence: str = "") -> None:
        asked = self.asked
        took, command = time.monotonic() - self.start, asked.identity.command
        event = Event(
            kind, self.sweep, asked.key, asked.title, time.time(), took, command, sentence
        )
        with writing_to(asked.results_dir):
            Writer.of(asked.results_dir).write(event)


def log_path(asked: Asked) -> Path:
    """Where a sweep keeps what a run says of itself."""
    below = asked.path.relative_to(asked.results_dir / "records").with_suffix("")
    return asked.results_dir / "logs" / below / "said.txt"


def claim_on(asked: Asked) -> filelock.BaseFileLock:
    """The lock of whoever makes a run for a sweep; the system lets it go when that process ends."""
    path = log_path(asked).with_name("lock")
    path.parent.mkdir(parents=True, exist_ok=True)
    return filelock.FileLock(path)


def is_claimed(asked: Asked) -> bool:
    """Whether a process is making the run."""
    try:
        with claim_on(asked).acquire(timeout=0):
            return False
    except filelock.Timeout:
        return True


def quoted(job: Sequence[Sequence[str]]) -> str:
    """A job as the value of a setting, which Hydra reads as a list of lists of texts."""
    runs = (",".join(map(_text, words)) for words in job)
    return f"[{','.join(f'[{run}]' for run in runs)}]"


def _text(word: str) -> str:
    """In quotes. Hydra takes a backslash for itself unless quotes follow."""
    escaped = re.sub(r"(\\*)('|$)", lambda found: found[1] * 2 + found[2].replace("'", "\\'"), word)
    return f"'{escaped}'"
