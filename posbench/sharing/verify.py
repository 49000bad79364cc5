"""Can published numbers be made again? Records are repeated by their commands and compared."""

from __future__ import annotations

import contextlib
import functools
import os
import shlex
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from pathlib import Path

import numpy as np

from posbench.base.disk import make_writable
from posbench.base.errors import ConfigError, Diverged, PosbenchError, Unwritable, of_limits
from posbench.base.wording import counted
from posbench.config import blame, provenance
from posbench.config.compose import compose, composing
from posbench.config.folders import with_own
from posbench.config.mistakes import sentence
from posbench.config.names import in_a_line
from posbench.config.options import BROKEN
from posbench.config.record_command import Command
from posbench.records import files, published
from posbench.records.record import Acceptance, CarriedOver, Record
from posbench.running.console import Console, TemporaryConsole
from posbench.running.devices import device_name
from posbench.running.run import train_and_record
from posbench.running.run_spec import RunSpec, remark
from posbench.sharing.agreement import comparable, differences, stated
from posbench.showing.table import number, with_interval
from posbench.statistics.aggregates import Array, Estimate

SHOWN = 5
"""How many differences of a record are named."""
Stratum = tuple[str, ...]
"""What records have in common whose numbers hold or fail together."""
Run = tuple[str | int, ...]
"""What distinguishes runs, see `Record.run`."""


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
        hardware = (self.record.training.hardware, self.record.evaluated.hardware)
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
    """Strata of records that hold or fail with the same code."""
    return each.stratum


def of_method_and_task(each: Today) -> Stratum:
    """Strata of records that somebody else has sent, whose rows may each have another mistake."""
    names = (each.record.method, each.record.task, each.record.protocol)
    return (*(name.label for name in names), *(name.hash for name in names))


OF_ANOTHER_CPU = (
    "A CPU of another kind rounds otherwise, and training carries that on: scores that differ by "
    "less than those of two seeds may have been made on one."
)
"""What is to be thought of before a difference is called a mistake, where a record does not name
its CPU.
"""


class Kind(Enum):
    """What came of repeating a record, as it is counted."""

    EXACT = "exact"
    DIFFERENT = "different"
    FAILED = "cannot be repeated"  # its command makes nothing any more
    NOT_COMPARED = "not compared"  # of other hardware or versions, whose numbers may differ
    ROUNDED = "rounded otherwise"  # by another CPU or in step with others, and its numbers differ


@dataclass(frozen=True)
class Verdict:
    """What came of repeating a record, and in words what differs or why."""

    kind: Kind
    why: str = ""
    higher: float = 0.0  # by how much its published scores are above those made here, on average

    def __str__(self) -> str:
        if self.kind is Kind.DIFFERENT:
            return self.why
        return f"{self.kind.value} ({self.why})" if self.why else self.kind.value


@dataclass(frozen=True)
class Repetition:
    """How a sample of records came out."""

    verdicts: dict[Stratum, list[Verdict]]  # of those that were drawn
    of: int
    without: list[Stratum]  # of which none was drawn
    runs: frozenset[Run] = frozenset()  # that were drawn

    @functools.cached_property
    def counts(self) -> Counter[Kind]:
        return Counter(verdict.kind for each in self.verdicts.values() for verdict in each)

    @property
    def drawn(self) -> int:
        return self.counts.total()

    @property
    def agreed(self) -> bool:
        """Whether all that was drawn is made again exactly."""
        return self.counts[Kind.EXACT] == self.drawn

    @property
    def disagreed(self) -> bool:
        """Whether a record differs or cannot be repeated, nothing at all could be compared, or
        rounding does not explain the differences.
        """
        wrong = self.counts[Kind.DIFFERENT] + self.counts[Kind.FAILED]
        open = self.counts[Kind.NOT_COMPARED] + self.counts[Kind.ROUNDED]
        return wrong > 0 or open == self.drawn > 0 or self.leans

    @functools.cached_property
    def higher(self) -> Estimate:
        """By how much published scores are above those made here, where rounding may explain a
        difference: over records, which it moves up as often as down.
        """
        found = (verdict for each in self.verdicts.values() for verdict in each)
        return Estimate.over(each.higher for each in found if each.kind is Kind.ROUNDED)

    @property
    def leans(self) -> bool:
        """Whether these differences have a direction, by their 95 % interval."""
        return abs(self.higher.mean) > self.higher.half_width

    def accepted(self, record: Record) -> Record:
        """The record with what is known of it: whether it was repeated, of how many. What its
        sender says of a sample that was repeated earlier is left out, as nobody here saw that.
        """
        stamp = Acceptance(repeated=record.run in self.runs, verified=self.drawn, of=self.of)
        return record.model_copy(update={"accepted": stamp, "carried_over": None})

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
    scratch: Path | None = None,
    own: Sequence[Path] = (),
    alike: Callable[[Today], Stratum] = of_code,
    shown: Callable[[Path], str] = str,
) -> Repetition:
    """Repeat `sample` records of a published folder, None for one of each stratum.

    The sample is spread over the strata as evenly as it goes; `alike` says which record is in
    which. Names, settings and counts are compared exactly, losses to the digits that are stored,
    chances to six, timings not at all. A record of another GPU or version, or of more threads than
    there are cores here, is named and counted, but not compared. Where a CPU of another kind, or a
    training in step, rounds otherwise, the message says by how much the scores differ, and whether
    all of them differ in one direction.
    `own` are folders with methods that posbench has not, called as `shown` says
    in the commands that need them.
    """
    _refuse_none(sample, seed)
    with _repeating(scratch, own, shown) as repeating:
        found = _today(folder)
        return repeating.sample(_strata(found, alike), sample, seed, len(found))


def restamp(
    folder: Path,
    sample: int | None,
    seed: int = 0,
    scratch: Path | None = None,
    own: Sequence[Path] = (),
) -> Repetition:
    """Carry records of earlier code over to the code of today, where repeating shows that it gives
    the same.

    The sample is drawn, and compared, as by `verify`, from records of earlier code alone. All
    records of a stratum are carried over if those drawn from it agree exactly: they name the hash
    of today's code and say how many were repeated.
    """
    _refuse_none(sample, seed)
    if own_runs := files.loose(folder):
        raise PosbenchError(
            f"--restamp carries published records over, and {folder} holds "
            f"{counted(len(own_runs), 'record')} as runs write them, such as {own_runs[0]}: "
            "publish them first, posbench records publish --from "
            f"{shlex.quote(str(folder))} --to FOLDER"
        )
    with _repeating(scratch, own) as repeating:
        found = _today(folder)
        strata = _strata([each for each in found if each.changed], of_code)
        if not strata:
            repeating.console.say(f"{folder}: every record is of today's code already.")
            return Repetition({}, len(found), [])
        seen = repeating.sample(strata, sample, seed, len(found))
        _carry_over(strata, seen.verdicts, folder, repeating.console)
        return seen


def _carry_over(
    strata: dict[Stratum, list[Today]],
    verdicts: dict[Stratum, list[Verdict]],
    folder: Path,
    console: Console,
) -> None:
    stamped = [
        (each.record, each.carried_over(len(several), len(strata[stratum])))
        for stratum, several in verdicts.items()
        if all(verdict.kind is Kind.EXACT for verdict in several)
        for each in strata[stratum]
    ]
    carried = published.revise(stamped, folder)
    total = sum(map(len, strata.values()))
    console.say(f"Carried over {carried} of {total} records of earlier code.")
    if others := len(stamped) - carried:
        console.say(
            f"Left alone {counted(others, 'record')} that another process published anew meanwhile."
        )


def _refuse_none(sample: int | None, seed: int) -> None:
    if sample is not None and sample < 1:
        raise PosbenchError(f"--sample {sample} repeats nothing: choose 1 or more")
    if seed < 0:
        raise PosbenchError(f"--seed {seed} draws nothing: choose 0 or more")


def _today(folder: Path) -> list[Today]:
    found = [Today.of(record) for record in files.records(folder)]
    if not found:
        raise PosbenchError(files.without_records(folder))
    return found


def _strata(
    found: Iterable[Today], alike: Callable[[Today], Stratum]
) -> dict[Stratum, list[Today]]:
    strata: dict[Stratum, list[Today]] = {}
    for each in found:
        strata.setdefault(alike(each), []).append(each)
    return strata


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
    if hardware == "cpu" and (other := _other_threads(record)):
        return other
    return ""


def _other_threads(record: Record) -> str:
    """Why sums of the record cannot be split here as they were split there, or ""."""
    trained, tested = record.training.threads or 1, record.evaluated.threads or 1
    if trained != tested:
        return f"trained with {counted(trained, 'thread')} and tested with {tested}"
    if trained > (here := os.cpu_count() or 1):
        return f"made with {trained} threads, this machine has {counted(here, 'core')}"
    return ""


def _rounding(record: Record) -> str:
    """Why sums may round otherwise here than where the record was made, or ""."""
    here = provenance.cpu()
    made = (record.training, record.evaluated)
    kinds = {each.cpu for each in made if each.device == "cpu" and each.cpu} - {here}
    why = [f"made on {', '.join(sorted(kinds))}, this is {here}"] if kinds else []
    if (others := record.training.replicas - 1) > 0:
        why.append(f"trained in step with {counted(others, 'other')}")
    return ", ".join(why)


def _higher(record: Record, again: Record) -> Array:
    """By how much the scores of a record are above those of another, at each length of both."""
    scores = {row.test_length: row.score for row in again.rows}
    both = [row for row in record.rows if row.test_length in scores]
    return np.array([row.score - scores[row.test_length] for row in both])


def _apart(higher: Array) -> str:
    """The same in words, whatever the direction; "" if the scores are the same."""
    if not higher.any():
        return ""
    mean, most = (number(float(each), 3) for each in (abs(higher).mean(), abs(higher).max()))
    return f"scores differ by {mean} on average, {most} at most"


def _accelerator(record: Record) -> str:
    """The accelerator of the trainer that made the record."""
    return "cpu" if record.training.device == "cpu" else "auto"


@dataclass(frozen=True)
class Repeater:
    """Makes records again in a folder of its own."""

    scratch: Path
    console: Console
    called: Callable[[Command], Command]  # how a command is shown

    def sample(
        self, strata: dict[Stratum, list[Today]], sample: int | None, seed: int, of: int
    ) -> Repetition:
        """Repeat so many records of the strata, and say what came of each; `of` is the number of
        all records.
        """
        drawn = _drawn(strata, sample or len(strata), np.random.default_rng(seed))
        self.console.say(
            f"Repeating {len(drawn)} of {of} records, from {len({s for s, _ in drawn})} of "
            f"{len(strata)} strata."
        )
        verdicts: dict[Stratum, list[Verdict]] = {}
        perhaps_of_another_cpu = False
        for place, (stratum, each) in enumerate(drawn, start=1):
            verdict = self.verdict(each.record)
            if verdict.kind is Kind.DIFFERENT and each.record.training.cpu is None:
                perhaps_of_another_cpu = True
            verdicts.setdefault(stratum, []).append(verdict)
            command = self.called(Command.parse(each.record.command))
            self.console.say(f"{place} of {len(drawn)}: {verdict}: {command}")
        without = [stratum for stratum in strata if stratum not in verdicts]
        seen = Repetition(verdicts, of, without, frozenset(each.record.run for _, each in drawn))
        self.console.say(f"{seen}.")
        if seen.leans:
            several = counted(seen.counts[Kind.ROUNDED], "record")
            by, where = abs(seen.higher.mean), "higher" if seen.higher.mean > 0 else "lower"
            self.console.say(
                f"Published scores are {with_interval(replace(seen.higher, mean=by))} {where} "
                f"than those made here (mean of {several}), and rounding has no direction: draw "
                "more with --sample, and repeat one on a machine of its kind."
            )
        if perhaps_of_another_cpu:
            self.console.say(OF_ANOTHER_CPU)
        return seen

    def verdict(self, record: Record) -> Verdict:
        """What comes of making the record again."""
        if reason := _incomparable(record):
            return Verdict(Kind.NOT_COMPARED, reason)
        try:
            again = self._made_again(record)
        except Unwritable:  # of this machine, and no fault of the record
            raise
        except BROKEN as error:
            return Verdict(Kind.FAILED, sentence(error))
        except OSError:
            raise
        except Exception as error:  # a command of somebody else ends its own record alone
            return Verdict(Kind.FAILED, of_limits(error) or blame.told(error))
        before, now = comparable(record), comparable(again)
        if record.training.multiplications is None:  # the record is older
            del now["training"]["multiplications"]
        found = list(differences(before, now))
        if not found:
            return Verdict(Kind.EXACT)
        rest = f"; and {len(found) - SHOWN} more" if len(found) > SHOWN else ""
        told = in_a_line("; ".join(found[:SHOWN])) + rest
        both = {row.test_length for row in record.rows} & {row.test_length for row in again.rows}
        if (why := _rounding(record)) and stated(before, both) == stated(now, both):
            higher = _higher(record, again)
            apart = _apart(higher) or f"the scores are the same, but not all else: {told}"
            return Verdict(Kind.ROUNDED, f"{why}: {apart}", float(higher.mean()))
        return Verdict(Kind.DIFFERENT, told)

    def _made_again(self, record: Record) -> Record:
        """The record that its command makes today.

        The command is from somebody else: nothing is composed but names and values, and nothing
        made but what posbench itself would call by these words.
        """
        command = Command.parse(record.command)
        command.refuse_others()
        composed = compose(*command.words)
        if (ours := str(RunSpec.of(composed).command)) != record.command:
            raise ConfigError(f"its command is not as posbench writes it, which is {ours}")
        # No name depends on the accelerator and the threads, so that a command does not hold them.
        made_with = {"accelerator": _accelerator(record), "threads": record.training.threads or 1}
        trainer = composed.content["trainer"] | made_with
        # Without a zoo: what is verified is the training as well.
        places = {"results_dir": str(self.scratch), "zoo": "", "logger": {}, "trainer": trainer}
        spec = RunSpec.of(composed.but(**places))
        if (there := spec.record()) is not None:  # made before this was interrupted
            self.console.say(remark(there, spec.path))
            return there
        with contextlib.suppress(Diverged):  # recorded, and compared as it is
            train_and_record(spec, self.console)
        return files.read(spec.path)


@contextlib.contextmanager
def _repeating(
    scratch: Path | None, own: Sequence[Path], shown: Callable[[Path], str] = str
) -> Iterator[Repeater]:
    """Repeating in a folder that stays, if one is given, or else in one that goes at the end."""
    called = functools.partial(with_own, own=own, shown=shown)
    # Classes of their own must be at hand before their code is hashed.
    with tempfile.TemporaryDirectory() as temporary, composing(*own):
        if scratch is None:
            yield Repeater(Path(temporary), TemporaryConsole(), called)
        else:
            make_writable(scratch)
            yield Repeater(scratch, Console(), called)
