"""Can published numbers be made again? Records are repeated by their commands and compared."""

from __future__ import annotations

import contextlib
import functools
import shlex
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Any

import numpy as np
from hydra.errors import HydraException
from omegaconf.errors import OmegaConfBaseException

from posbench import provenance
from posbench.composing.compose import compose, composing
from posbench.composing.folders import with_own
from posbench.composing.mistakes import sentence
from posbench.errors import Diverged, PosbenchError, counted
from posbench.records import files
from posbench.records.command import Command
from posbench.records.packing import comparable
from posbench.records.record import CarriedOver, Record
from posbench.running.console import Console, Passing
from posbench.running.devices import device_name
from posbench.running.run import make
from posbench.running.run_spec import RunSpec

SHOWN = 5
"""How many differences of a record are named."""
Stratum = tuple[str, ...]
"""What records have in common whose numbers stand or fall together."""


@dataclass(frozen=True)
class Today:
    """A record, and the hashes of the code that would make it today."""

    record: Record
    source_hash: str
    evaluation_hash: str

    @classmethod
    def of(cls, record: Record) -> Today:
        return cls(record, *record.source_hashes_today)

    @property
    def changed(self) -> bool:
        """Whether the code has changed since the record was made, or carried over."""
        return any(before != now for before, now in self._hashes)

    @property
    def _hashes(self) -> tuple[tuple[str, str], tuple[str, str]]:
        record = self.record
        return (
            (record.training.source_hash, self.source_hash),
            (record.evaluated.source_hash, self.evaluation_hash),
        )

    @property
    def stratum(self) -> Stratum:
        """The hashes that changed, and the hardware: code that is the same needs no evidence.

        Of records whose code is unchanged, all whose training or test code is the same are alike.
        """
        hardware = (self.record.training.device, self.record.evaluated.device)
        if not self.changed:
            return (self.source_hash, self.evaluation_hash, *hardware)
        changes = (f"{before}>{now}" if before != now else "" for before, now in self._hashes)
        return (*changes, *hardware)

    def carried_over(self, verified: int, of: int) -> Record:
        """The record with the hashes of today, because so many of its stratum were verified."""
        record = self.record
        stamp = CarriedOver(
            source_hash=record.training.source_hash,
            evaluation_hash=record.evaluated.source_hash,
            verified=verified,
            of=of,
        )
        training, evaluated = (
            made.model_copy(update={"source_hash": now})
            for made, now in (
                (record.training, self.source_hash),
                (record.evaluated, self.evaluation_hash),
            )
        )
        update = {"carried_over": stamp, "training": training, "evaluated": evaluated}
        return record.model_copy(update=update)


def of_code(each: Today) -> Stratum:
    """Strata of records that stand or fall with the same code."""
    return each.stratum


def of_method_and_task(each: Today) -> Stratum:
    """Strata of records that somebody else has sent, whose rows may each have another mistake."""
    names = (each.record.method, each.record.task, each.record.protocol)
    return (*(name.label for name in names), *(name.hash for name in names))


class Kind(Enum):
    """What came of repeating a record, as it is counted."""

    EXACT = "exact"
    DIFFERENT = "different"
    FAILED = "cannot be repeated"  # its command makes nothing any more
    NOT_COMPARED = "not compared"  # of other hardware or versions, whose numbers may differ


@dataclass(frozen=True)
class Verdict:
    """What came of repeating a record, and in words what differs or why."""

    kind: Kind
    why: str = ""

    def __str__(self) -> str:
        if self.kind is Kind.DIFFERENT:
            return self.why
        return f"{self.kind.value} ({self.why})" if self.why else self.kind.value


@dataclass(frozen=True)
class Repeated:
    """How a sample of records came out."""

    counts: Counter[Kind]  # of those that were drawn
    of: int
    without: list[Stratum]  # of which none was drawn

    @property
    def drawn(self) -> int:
        return self.counts.total()

    @property
    def agreed(self) -> bool:
        """Whether all that was drawn is made again exactly."""
        return self.counts[Kind.EXACT] == self.drawn

    @property
    def disagreed(self) -> bool:
        """Whether a record differs or cannot be repeated, or nothing at all could be compared."""
        wrong = self.counts[Kind.DIFFERENT] + self.counts[Kind.FAILED]
        return wrong > 0 or self.counts[Kind.NOT_COMPARED] == self.drawn > 0

    def __str__(self) -> str:
        """As "9 of 12 exact, 1 different, 2 not compared", without what there is none of."""
        others = (
            f"{self.counts[kind]} {kind.value}"
            for kind in Kind
            if kind is not Kind.EXACT and self.counts[kind]
        )
        return ", ".join([f"{self.counts[Kind.EXACT]} of {self.drawn} exact", *others])


def verify(
    folder: Path,
    sample: int | None,
    seed: int = 0,
    restamp: bool = False,
    scratch: Path | None = None,
    own: Sequence[Path] = (),
    alike: Callable[[Today], Stratum] = of_code,
    shown: Callable[[Path], str] = str,
) -> Repeated:
    """Repeat `sample` records of a published folder, None for one of each stratum.

    The sample is spread over the strata as evenly as it goes; `alike` says which record is in
    which. With `restamp` it is drawn from
    records of earlier code alone, and a stratum whose sample agrees exactly is carried over to the
    code of today: its records name its hash and say how many were repeated. Names, settings and
    counts are compared exactly, losses to the digits that are stored, timings not at all. A record
    of another machine or version is named and counted, but not compared. `own` are folders with
    methods that posbench has not, called as `shown` says in the commands that need them.
    """
    if sample is not None and sample < 1:
        raise PosbenchError(f"--sample {sample} repeats nothing: choose 1 or more")
    if restamp and (own_runs := files.loose(folder)):
        raise PosbenchError(
            f"--restamp carries published records over, and {folder} holds "
            f"{counted(len(own_runs), 'record')} as runs write them, such as {own_runs[0]}: "
            "publish them first, python -m posbench.results publish --from "
            f"{shlex.quote(str(folder))} --to FOLDER"
        )
    # Classes of their own must be at hand before their code is hashed.
    with tempfile.TemporaryDirectory() as temporary, composing(*own):
        said = functools.partial(with_own, own=own, shown=shown)
        console = Passing() if scratch is None else Console()
        made = scratch or Path(temporary)
        return _verified(folder, sample, seed, restamp, made, alike, console, said)


def _verified(
    folder: Path,
    sample: int | None,
    seed: int,
    restamp: bool,
    scratch: Path,
    alike: Callable[[Today], Stratum],
    console: Console,
    said: Callable[[Command], Command],
) -> Repeated:
    found = [Today.of(record) for record in files.records(folder)]
    if not found:
        raise PosbenchError(f"no records in {folder}: name a folder of published records")
    strata: dict[Stratum, list[Today]] = {}
    for each in found:
        if each.changed or not restamp:
            strata.setdefault(alike(each), []).append(each)
    if restamp and not strata:
        console.say(f"{folder}: every record is of today's code already.")
        return Repeated(Counter(), len(found), [])
    drawn = _drawn(strata, sample or len(strata), np.random.default_rng(seed))
    console.say(
        f"Repeating {len(drawn)} of {len(found)} records, from {len({s for s, _ in drawn})} of "
        f"{len(strata)} strata."
    )
    verdicts: dict[Stratum, list[Verdict]] = {}
    for number, (stratum, each) in enumerate(drawn, start=1):
        verdict = _repeat(each.record, scratch, console)
        verdicts.setdefault(stratum, []).append(verdict)
        command = said(Command.parse(each.record.command))
        console.say(f"{number} of {len(drawn)}: {verdict}: {command}")
    without = [stratum for stratum in strata if stratum not in verdicts]
    counts = Counter(verdict.kind for each in verdicts.values() for verdict in each)
    seen = Repeated(counts, len(found), without)
    console.say(f"{seen}.")
    if restamp:
        agreed = {
            stratum: each
            for stratum, each in verdicts.items()
            if all(verdict.kind is Kind.EXACT for verdict in each)
        }
        stamped = [
            (each.record, each.carried_over(len(several), len(strata[stratum])))
            for stratum, several in agreed.items()
            for each in strata[stratum]
        ]
        carried = files.revise(stamped, folder)
        total = sum(map(len, strata.values()))
        console.say(f"Carried over {carried} of {total} records of earlier code.")
        if others := len(stamped) - carried:
            console.say(
                f"Left alone {counted(others, 'record')} that another process published anew "
                "meanwhile."
            )
    return seen


def _drawn(
    strata: dict[Stratum, list[Today]], sample: int, rng: np.random.Generator
) -> list[tuple[Stratum, Today]]:
    """From each stratum one, then from each another, until there are enough."""
    shuffled = {key: [strata[key][i] for i in rng.permutation(len(strata[key]))] for key in strata}
    order = [list(strata)[i] for i in rng.permutation(len(strata))]
    rounds = max(map(len, strata.values()))
    found = [
        (key, shuffled[key][turn])
        for turn in range(rounds)
        for key in order
        if turn < len(shuffled[key])
    ][:sample]
    # Those that share weights one after the other, so that a look at the list says how far it is.
    return sorted(found, key=lambda pair: (pair[1].record.training.hash, pair[1].record.command))


def _repeat(record: Record, scratch: Path, console: Console) -> Verdict:
    """What comes of making the record again."""
    if reason := _incomparable(record):
        return Verdict(Kind.NOT_COMPARED, reason)
    try:
        again = _made_again(record, scratch, console)
    except PosbenchError as error:
        return Verdict(Kind.FAILED, str(error))
    except (HydraException, OmegaConfBaseException) as error:
        return Verdict(Kind.FAILED, sentence(error))
    found = list(differences(comparable(record), comparable(again)))
    if not found:
        return Verdict(Kind.EXACT)
    rest = f"; and {len(found) - SHOWN} more" if len(found) > SHOWN else ""
    return Verdict(Kind.DIFFERENT, "; ".join(found[:SHOWN]) + rest)


def _incomparable(record: Record) -> str:
    """Why nothing would follow from making the record again here, or ""."""
    if Command.parse(record.command).module != "posbench":
        return "it needs a model that does not come with it: repeat it by hand"
    today = provenance.versions()
    for made in (record.training, record.evaluated):
        if not provenance.same_versions(made.versions, today):
            return ", ".join(
                f"{name} {made.versions.get(name)} there, {today.get(name)} here"
                for name in provenance.COMPARED
            )
    hardware = device_name(_accelerator(record))
    for device in (record.training.device, record.evaluated.device):
        if device != hardware:
            return f"made on {device}, this is {hardware}"
    if record.training.replicas > 1:
        return (
            f"trained in step with {record.training.replicas - 1} others, which training alone "
            "equals but for rounding"
        )
    return ""


def _accelerator(record: Record) -> str:
    """The accelerator of the trainer that made the record."""
    return "cpu" if record.training.device == "cpu" else "auto"


def _made_again(record: Record, scratch: Path, console: Console) -> Record:
    """The record that its command makes today, in a folder of its own."""
    composed = compose(*Command.parse(record.command).words)
    # No name depends on the accelerator, so that a command does not hold it.
    trainer = composed.content["trainer"] | {"accelerator": _accelerator(record)}
    spec = RunSpec.of(composed.but(results_dir=str(scratch), logger={}, trainer=trainer))
    with contextlib.suppress(Diverged):  # recorded, and compared as it is
        make(spec, console)
    return files.read(spec.path)


def differences(old: Any, new: Any, where: str = "") -> Iterator[str]:
    """All that is not the same, each by its place: "rows.loss.3: 0.12 was 0.13"."""
    if isinstance(old, dict) and isinstance(new, dict):
        for key in sorted(old.keys() | new.keys()):
            yield from differences(old.get(key), new.get(key), f"{where}.{key}".lstrip("."))
    elif isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        for index, pair in enumerate(zip(old, new, strict=True)):
            yield from differences(*pair, f"{where}.{index}")
    elif old != new:
        yield f"{where}: {new} was {old}"
