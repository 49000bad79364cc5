"""Records as files: one JSON file a run while they are your own, packed lines once published."""

from __future__ import annotations

import gc
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self, TypeVar

import filelock
from pydantic import ValidationError

from posbench.disk import atomically, make_writable, write_json, writing_to
from posbench.errors import PosbenchError, place_and_reason
from posbench.provenance import content_hash
from posbench.records.command import Command
from posbench.records.packing import (
    AUDITS,
    LARGEST,
    content_of,
    lines_of,
    pack,
    parsed,
    record_of,
    refuse_another_schema,
    shelves,
)
from posbench.records.record import Audit, Record

LOCAL = Path("results/local")
MAIN = Path("results/main")
Kept = TypeVar("Kept", Record, Audit)


def record_path(results_dir: str | Path, protocol: str, task: str, method: str, seed: int) -> Path:
    """Where the record of a run of your own is kept; the names are slugs."""
    return Path(results_dir) / "records" / protocol / task / method / f"seed={seed}.json"


def path_of(record: Record, results_dir: str | Path) -> Path:
    names = (record.protocol.slug, record.task.slug, record.method.slug)
    return record_path(results_dir, *names, record.seed)


def leaderboard_command(results_dir: Path) -> Command:
    """What makes the leaderboard of a results folder; your own needs no name."""
    return Command("posbench.leaderboard", () if results_dir == LOCAL else (str(results_dir),))


def loose(results_dir: str | Path) -> list[Path]:
    """The records that are files of their own, as runs write them; published ones are lines."""
    return sorted(Path(results_dir).glob("records/**/seed=*.json"))


def audit_path(record: Path) -> Path:
    """Where the audit of the run with that record is kept: like `record_path`, under audits/."""
    records = record.parents[3]
    return records.parent / "audits" / record.relative_to(records)


def kept_beside(path: Path) -> Path:
    """Move a record that another takes the place of, and say where it goes."""
    kept = place_beside(path, path.read_text(encoding="utf-8", errors="surrogateescape"))
    os.replace(path, kept)
    return kept


def place_beside(path: Path, content: Any) -> Path:
    """Where a record is kept whose place another has: seed=0.1a2b3c4d.json."""
    return path.with_suffix(f".{content_hash(content)[:8]}.json")


def write(record: Record, path: Path) -> None:
    """Write one file, atomically."""
    write_json(record.as_json(), path)


def read(path: Path) -> Record:
    """The record in a file; PosbenchError names the file and what is wrong with it."""
    content = _content(path, "record")
    refuse_another_schema(content, str(path))
    return validated(Record, content, str(path))


def _content(path: Path, kind: str) -> Any:
    try:
        if (size := path.stat().st_size) > LARGEST:
            raise ValueError(f"{size:,} bytes are more than it can have")
        return parsed(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise PosbenchError(
            f"{path} is not a readable {kind} ({error}): delete it and repeat the run"
        ) from None


def read_audit(path: Path) -> Audit:
    return validated(Audit, _content(path, "audit"), str(path))


def validated(kind: type[Kept], content: Any, where: str) -> Kept:
    """The record or audit with this content; `where` names it in the sentence about what is wrong.

    The sentence has the first field alone: a file of another kind would name them all.
    """
    try:
        return kind.model_validate(content)
    except ValidationError as error:
        place, reason = place_and_reason(error)
        named = f"{place}: {reason}" if place else reason
        raise PosbenchError(
            f"{where} is no valid {kind.__name__.lower()} ({named}): delete it and repeat the run"
        ) from None


@contextmanager
def keeping_all() -> Iterator[None]:
    """Meanwhile no garbage is looked for: where nearly all is kept, as many records are, looking
    through it again and again takes longer than reading it.
    """
    looking = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if looking:
            gc.enable()


# -- folders ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Folder:
    """What a results folder holds."""

    records: list[Record]
    audits: list[Audit]  # that were made of these records as they are
    unreadable: list[str]  # a sentence for each that cannot be read

    def whole(self) -> Self:
        """Itself; PosbenchError is the sentence about the first that cannot be read."""
        _refuse(self.unreadable)
        return self


def read_folder(results_dir: str | Path) -> Folder:
    """A results folder: published lines, then files in the order of their paths."""
    folder = Path(results_dir)
    unreadable: list[str] = []
    records, audits = _records(folder, unreadable), _published_audits(folder, unreadable)
    audits += _each(read_audit, sorted(folder.glob("audits/**/seed=*.json")), unreadable)
    return Folder(records, made_of(records, audits), unreadable)


def read_published(folder: Path) -> Folder:
    """Its published lines alone."""
    unreadable: list[str] = []
    with keeping_all():
        records = _published_records(folder, unreadable)
    audits = _published_audits(folder, unreadable)
    return Folder(records, made_of(records, audits), unreadable)


def records(results_dir: str | Path) -> list[Record]:
    """The records of `read_folder` without its audits; PosbenchError names the first that cannot
    be read.
    """
    unreadable: list[str] = []
    found = _records(Path(results_dir), unreadable)
    _refuse(unreadable)
    return found


def made_of(records: Iterable[Record], audits: Iterable[Audit]) -> list[Audit]:
    """The audits that were made of one of these records."""
    made = {Audit.key_of(record) for record in records}
    return [audit for audit in audits if audit.key in made]


def _refuse(unreadable: Sequence[str]) -> None:
    if unreadable:
        raise PosbenchError(unreadable[0])


@contextmanager
def _noting(unreadable: list[str]) -> Iterator[None]:
    """Meanwhile what cannot be read is noted, and stops nothing that comes after."""
    try:
        yield
    except PosbenchError as error:
        unreadable.append(str(error))


def _each(
    read_one: Callable[[Path], Kept], paths: Iterable[Path], unreadable: list[str]
) -> list[Kept]:
    found = []
    for path in paths:
        with _noting(unreadable):
            found.append(read_one(path))
    return found


def _records(folder: Path, unreadable: list[str]) -> list[Record]:
    with keeping_all():
        return [*_published_records(folder, unreadable), *_each(read, loose(folder), unreadable)]


def _published_records(folder: Path, unreadable: list[str]) -> list[Record]:
    found: list[Record] = []
    paths = sorted(folder.glob("records/*.jsonl"))
    with _noting(unreadable):
        parts = shelves(folder) if paths else ({}, {})
        for path in paths:
            with _noting(unreadable):
                for where, text in lines_of(path):
                    with _noting(unreadable):
                        found.append(validated(Record, record_of(text, where, parts), where))
    return found


def _published_audits(folder: Path, unreadable: list[str]) -> list[Audit]:
    found: list[Audit] = []
    with _noting(unreadable):
        for where, text in lines_of(folder / AUDITS) if (folder / AUDITS).exists() else []:
            with _noting(unreadable):
                found.append(validated(Audit, content_of(text, where), where))
    return found


# -- publishing ------------------------------------------------------------------------------------


def publish(records: Iterable[Record], audits: Iterable[Audit], folder: Path) -> None:
    """Put records among those of a published folder, each in the place of the same run."""
    with _changing(folder):
        _publish(records, audits, folder, read_published(folder).whole())


def revise(revised: Iterable[tuple[Record, Record]], folder: Path) -> int:
    """Put records in the place of published ones that are still as they were, each with the audit
    that was made of the one before; how many.
    """
    with _changing(folder):
        known = read_published(folder).whole()
        there = {record.run: record for record in known.records}
        kept = [(old, new) for old, new in revised if there.get(old.run) == old]
        before = {audit.key: audit for audit in known.audits}
        audits = [
            audit.model_copy(
                update={
                    "source_hash": new.training.source_hash,
                    "evaluation_hash": new.evaluated.source_hash,
                }
            )
            for old, new in kept
            if (audit := before.get(Audit.key_of(old))) is not None
        ]
        if kept:
            _publish([new for _, new in kept], audits, folder, known)
    return len(kept)


@contextmanager
def _changing(folder: Path) -> Iterator[None]:
    """Meanwhile nobody else changes what is published in a folder: what others publish between
    reading and writing would be lost.
    """
    make_writable(folder)
    with writing_to(folder), filelock.FileLock(folder / ".lock"):
        yield


def _publish(
    records: Iterable[Record], audits: Iterable[Audit], folder: Path, known: Folder
) -> None:
    merged = [*{record.run: record for record in (*known.records, *records)}.values()]
    made = {audit.key: audit for audit in (*known.audits, *audits)}
    write_packed(merged, made_of(merged, made.values()), folder)


def unpublish(records: list[Record], audits: list[Audit], folder: Path) -> int:
    """Put published records, a file each, where a folder has none of the same run; how many.

    Of two runs of one name that of the later version of its task takes the place, or else the one
    that comes later, and the other stays beside it. PosbenchError, before anything is written, if
    a file that may be the same run cannot be read.
    """
    packed = {record.run for record in read_published(folder).whole().records}
    new = [
        record
        for record in records
        if record.run not in packed and record.run not in _runs_of_name(path_of(record, folder))
    ]
    with writing_to(folder):
        for audit in made_of(new, audits):
            _add_audit(audit, folder)
        for record in new:
            _add(record, path_of(record, folder))
    return len(new)


def _runs_of_name(path: Path) -> set[tuple[str | int, ...]]:
    """The runs whose records are at a path, or were kept beside it."""
    there = [path] if path.exists() else []
    return {read(each).run for each in (*there, *path.parent.glob(f"{path.stem}.*.json"))}


def _add(record: Record, path: Path) -> None:
    """Write a record where none of the same run is."""
    if path.exists() and read(path).task_version > record.task_version:
        path = place_beside(path, record.as_json())
    elif path.exists():
        kept_beside(path)
    write(record, path)


def _add_audit(audit: Audit, folder: Path) -> None:
    """Write an audit; another of its name, or what cannot be read, stays beside it."""
    record = record_path(folder, audit.protocol, audit.task, audit.method, audit.seed)
    path = audit_path(record)
    if path.exists() and _each(read_audit, [path], []) != [audit]:
        kept_beside(path)
    write_json(audit.model_dump(mode="json"), path)


def write_packed(records: list[Record], audits: Sequence[Audit], folder: Path) -> None:
    """Make these the published records and audits of a folder, and no others.

    What lines refer to comes before them, beside what the lines that were there refer to, which
    goes last. So whenever this is killed, every line is whole, and the same call ends it.
    """
    contents = pack(records, audits)
    lines = [name for name in contents if name.startswith("records/")]
    referred = [name for name in contents if name not in lines]
    make_writable(folder)
    with writing_to(folder):
        for name in referred:
            _write_bytes(_with_lines_of(folder / name, contents[name]), folder / name)
        for name in lines:
            _write_bytes(contents[name].encode(), folder / name)
        for path in (*folder.glob("records/*.jsonl"), folder / AUDITS):
            if path.relative_to(folder).as_posix() not in contents:
                path.unlink(missing_ok=True)
        for name in referred:
            _write_bytes(contents[name].encode(), folder / name)


def _with_lines_of(path: Path, text: str) -> bytes:
    """The lines of a text and those of a file, if it is there, each once and in order."""
    there = path.read_bytes().splitlines() if path.exists() else []
    return b"".join(line + b"\n" for line in sorted({*there, *text.encode().splitlines()}))


def _write_bytes(content: bytes, path: Path) -> None:
    """Write atomically, unless that is what the file says already."""
    if path.exists() and path.read_bytes() == content:
        return
    with atomically(path) as beside:
        beside.write_bytes(content)
