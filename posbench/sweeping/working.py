"""A job of a sweep, in whichever process a launcher starts it."""

from __future__ import annotations

import re
import time
import traceback
from collections.abc import Sequence
from pathlib import Path

import filelock

from posbench.base.disk import Lock, is_held, read_bytes, unlinked, writing_to
from posbench.base.errors import Unwritable
from posbench.config import blame
from posbench.config.compose import compose
from posbench.config.folders import searched, with_own
from posbench.config.mistakes import sentence
from posbench.config.options import BROKEN
from posbench.running.make import make
from posbench.running.run_spec import RunSpec
from posbench.running.scores import ANNOUNCED, STEP
from posbench.sweeping.journal import Event, Kind, Writer

PATIENCE = 1.0
"""Seconds for which a lock is waited for: `is_claimed` holds it for an instant, and whoever loads
weights for about as long."""


def work(job: Sequence[Sequence[str]], sweep: str) -> None:
    """Make the runs of a job, each of which is given by its words; one that fails stops no other.

    A run that another process is making is left to that one. One whose training another process
    makes is left until later, so that this worker goes on with other jobs. What a run says of
    itself goes into a file beside what its loggers write; the journal says what became of it.
    """
    runs = [RunSpec.of(compose(*words)) for words in job]
    _train_together([spec for spec in runs if not spec.is_complete], sweep)
    for spec in runs:
        journal, claim = RunJournal(spec, sweep), claim_on(spec)
        blame.forget()
        try:
            claim.acquire(timeout=PATIENCE)
        except filelock.Timeout:
            journal.write("busy")
            continue
        try:
            _work(spec, journal)
        finally:
            claim.release()


def _work(spec: RunSpec, journal: RunJournal) -> None:
    if spec.is_complete:
        journal.write("found")
        return
    if _is_being_trained(spec, PATIENCE):
        journal.write("busy")
        return
    journal.write("begun")
    log = log_path(spec)
    with open(log, "a", encoding="utf-8", opener=unlinked) as file:
        try:
            make(spec, file)
        except Unwritable as error:
            journal.write("failed", sentence(error))
            raise  # the rest of the job would fail as well
        except BROKEN as error:
            journal.write("failed", sentence(error))
        except (Exception, SystemExit) as error:  # of whomever: the next may work
            traceback.print_exc(file=file)
            said = blame.of_own_code(error) or blame.told(error)
            journal.write("failed", f"{said} (more in {log})")
        except BaseException:  # a signal, of a person or of the queue
            journal.write("stopped")
            raise
        else:
            journal.write("done")


def _train_together(runs: Sequence[RunSpec], sweep: str) -> None:
    """Make the trainings of runs in step, if that is asked for."""
    if len(runs) < 2 or int(runs[0].composed.content["trainer"]["replicas"]) < 2:
        return
    from posbench.running.console import Console
    from posbench.running.prepare import quiet
    from posbench.running.together import train_together

    quiet()
    journal = RunJournal(runs[0], sweep)
    journal.write("begun")  # so that the death of a worker here is seen
    log = log_path(runs[0])
    log.parent.mkdir(parents=True, exist_ok=True)
    with open(log, "a", encoding="utf-8", opener=unlinked) as file:
        try:
            train_together(runs, Console(file))
        except Exception:  # a mistake of ours, or the machine's: each run then trains alone
            traceback.print_exc(file=file)
        except BaseException:  # a signal, of a person or of the queue
            journal.write("stopped")
            raise


class RunJournal:
    """What this process says of one run in the journal."""

    def __init__(self, spec: RunSpec, sweep: str) -> None:
        self.spec, self.sweep, self.start = spec, sweep, time.monotonic()

    def write(self, kind: Kind, sentence: str = "") -> None:
        spec = self.spec
        took = time.monotonic() - self.start
        command = str(with_own(spec.command_there, searched()))
        event = Event(kind, self.sweep, spec.key, spec.title, time.time(), took, command, sentence)
        with writing_to(spec.results_dir):
            Writer.of(spec.results_dir).write(event)


def log_path(spec: RunSpec) -> Path:
    """Where a sweep keeps what a run says of itself."""
    return said_in(spec.results_dir, spec.key)


def said_in(results_dir: Path, run: str) -> Path:
    """The same of a run by its key, the path of its record."""
    return results_dir / "logs" / Path(run).relative_to("records").with_suffix("") / "said.txt"


def last_step(log: Path) -> str:
    """The last step that the run says since it was last begun; "" for none."""
    try:
        lines = read_bytes(log).decode(errors="replace").splitlines()
    except OSError:  # nothing is said yet
        return ""
    for line in reversed(lines):
        if line.startswith(STEP):
            return " ".join(line.split())
        if line.startswith(ANNOUNCED):
            break
    return ""


def claim_on(spec: RunSpec) -> Lock:
    """The lock of whoever makes a run for a sweep; the system lets it go when that process ends."""
    path = _claim_path(spec)
    path.parent.mkdir(parents=True, exist_ok=True)
    return Lock(path)


def is_claimed(spec: RunSpec) -> bool:
    """Whether a process is making the run, or a training that it needs."""
    return is_held(_claim_path(spec)) or _is_being_trained(spec)


def _claim_path(spec: RunSpec) -> Path:
    return log_path(spec).with_name("lock")


def _is_being_trained(spec: RunSpec, patience: float = 0.0) -> bool:
    try:
        return spec.is_being_trained(patience)
    except Exception:  # of a class of the user, say: the run tells it
        return False


def quoted(job: Sequence[Sequence[str]]) -> str:
    """A job as the value of a setting, which Hydra reads as a list of lists of texts."""
    runs = (",".join(map(_text, words)) for words in job)
    return f"[{','.join(f'[{run}]' for run in runs)}]"


def _text(word: str) -> str:
    """In quotes. Hydra takes a backslash for itself unless quotes follow."""
    escaped = re.sub(r"(\\*)('|$)", lambda found: found[1] * 2 + found[2].replace("'", "\\'"), word)
    return f"'{escaped}'"
