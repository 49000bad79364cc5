"""Records as files: one JSON file a run while they are your own, lines of a file once published."""

from __future__ import annotations

import gc
import importlib.resources
import os
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self, TypeVar

from pydantic import ValidationError

from posbench.base.content_hash import content_hash
from posbench.base.disk import read_bytes, read_text, write_json
from posbench.base.errors import PosbenchError, first_mistake
from posbench.base.wording import reason
from posbench.config.record_command import Command
from posbench.records.lines import (
    AUDITS,
    LARGEST,
    RECORDS,
    content_of,
    lines_of,
    parsed,
    refuse_another_schema,
)
from posbench.records.record import Audit, Record

LOCAL = Path("results/local")
MAIN = Path("results/main")
OF_A_RUN = re.compile(r"seed=.*\.json")
LONGEST = 1000
"""Characters of a sentence about what cannot be read."""
NO_NUMBERS = (b"NaN", b"Infinity")
"""What pydantic takes for numbers of JSON."""
Kept = TypeVar("Kept", Record, Audit)


def shipped() -> Path:
    """The folder of the main board's records, as they come with the package."""
    return Path(str(importlib.resources.files("posbench.published")))


def record_path(results_dir: str | Path, protocol: str, task: str, method: str, seed: int) -> Path:
    """Where the record of a run of your own is kept; the names are slugs."""
    return Path(results_dir) / "records" / protocol / task / method / f"seed={seed}.json"


def path_of(record: Record, results_dir: str | Path) -> Path:
    names = (record.protocol.slug, record.task.slug, record.method.slug)
    return record_path(results_dir, *names, record.seed)


def leaderboard_command(results_dir: Path, own: Iterable[Path] = ()) -> Command:
    """The command that makes the page of a results folder; your own needs no name. Folders of the
    user are named, so that their classes are at hand.

    A folder with claims of papers and no leaderboard has the page of its claims alone.
    """
    if (results_dir / "claims.yaml").exists() and not (results_dir / "leaderboard.csv").exists():
        return Command("posbench board claims", (str(results_dir),))
    found = Command("posbench board", () if results_dir == LOCAL else (str(results_dir),))
    return found.with_options(*(word for each in own for word in ("--config-dir", str(each))))


def loose(results_dir: str | Path) -> list[Path]:
    """The records that are files of their own, as runs write them; published ones are lines.

    PosbenchError for a folder that cannot be listed, which would hide what is in it.
    """
    return _of_runs(Path(results_dir, "records"))


def _of_runs(folder: Path) -> list[Path]:
    def refuse(error: OSError) -> None:
        if not isinstance(error, FileNotFoundError | NotADirectoryError):
            raise PosbenchError(
                f"{error.filename} cannot be listed ({reason(error)}): give yourself the right to "
                "read it, or move it away"
            )

    found = os.walk(folder, onerror=refuse)
    return sorted(
        Path(place, name)
        for place, folders, names in found
        for name in (*folders, *names)  # a folder of such a name is refused when it is read
        if OF_A_RUN.fullmatch(name)
    )


def audit_path(record: Path) -> Path:
    """Where the audit of the run with that record is kept: like `record_path`, under audits/."""
    records = record.parents[3]
    return records.parent / "audits" / record.relative_to(records)


def kept_beside(path: Path) -> Path:
    """Move a record that another takes the place of, and say where it goes."""
    try:
        content = read_bytes(path).decode(errors="surrogateescape")
    except OSError:  # a link, which goes as it is
        content = str(path.lstat().st_mtime_ns)
    kept = place_beside(path, content)
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
        return parsed(read_text(path, LARGEST))
    except OSError as error:  # what is there may be good, and of somebody else
        raise PosbenchError(
            f"{path} is not a readable {kind} ({error.strerror}): look at what is there, and put "
            "the file itself in its place"
        ) from None
    except ValueError as error:
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
        raise PosbenchError(
            f"{where} is no valid {kind.__name__.lower()} ({first_mistake(error)}): delete it and "
            "repeat the run"
        ) from None


@contextmanager
def keeping_all() -> Iterator[None]:
    """Within the block, no garbage is collected: where nearly everything is kept, as many records
    are, searching through it again and again takes longer than reading it.
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
    with keeping_all():
        records = [*_records(folder, unreadable)]
    audits = _published_audits(folder, unreadable)
    audits += _each(read_audit, _of_runs(folder / "audits"), unreadable)
    return Folder(records, made_of(records, audits), unreadable)


def read_published(folder: Path) -> Folder:
    """Its published lines alone."""
    unreadable: list[str] = []
    with keeping_all():
        records = [*_published_records(folder, unreadable)]
    audits = _published_audits(folder, unreadable)
    return Folder(records, made_of(records, audits), unreadable)


def records(results_dir: str | Path) -> list[Record]:
    """The records of `read_folder` without its audits; PosbenchError names the first that cannot
    be read.
    """
    with keeping_all():
        return [*each_record(results_dir)]


def each_record(results_dir: str | Path) -> Iterator[Record]:
    """The same, one at a time: whoever keeps a part of each needs a tenth of the memory."""
    unreadable: list[str] = []
    yield from _records(Path(results_dir), unreadable)
    _refuse(unreadable)


def without_records(folder: Path) -> str:
    """The sentence about a results folder that holds no record."""
    if folder == LOCAL:
        return f"no records in {folder}: run `python -m posbench` first"
    return f"no records in {folder}: name a folder that holds records/, such as {MAIN}"


def made_of(records: Iterable[Record], audits: Iterable[Audit]) -> list[Audit]:
    """The audits that were made of one of these records."""
    made = {Audit.key_of(record) for record in records}
    return [audit for audit in audits if audit.key in made]


def _refuse(unreadable: Sequence[str]) -> None:
    if unreadable:
        raise PosbenchError(unreadable[0])


@contextmanager
def _noting(unreadable: list[str]) -> Iterator[None]:
    """Within the block, what cannot be read is noted instead of raised."""
    try:
        yield
    except PosbenchError as error:
        said = str(error)  # what is wrong may be a text of megabytes
        unreadable.append(said if len(said) <= LONGEST else f"{said[:LONGEST]} ...")


def _each(
    read_one: Callable[[Path], Kept], paths: Iterable[Path], unreadable: list[str]
) -> Iterator[Kept]:
    for path in paths:
        with _noting(unreadable):
            yield read_one(path)


def _records(folder: Path, unreadable: list[str]) -> Iterator[Record]:
    yield from _published_records(folder, unreadable)
    yield from _each(read, loose(folder), unreadable)


def _published_records(folder: Path, unreadable: list[str]) -> Iterator[Record]:
    for path in sorted(folder.glob(RECORDS)):
        with _noting(unreadable):
            for where, line in lines_of(path):
                with _noting(unreadable):
                    yield record_in(line, where)


def record_in(line: bytes, where: str) -> Record:
    """The record in a line, straight from its bytes; only of what that refuses is it asked why."""
    if not any(word in line for word in NO_NUMBERS):
        with suppress(ValidationError):
            found = Record.model_validate_json(line)
            if "schema_version" in found.model_fields_set:
                return found
    content = content_of(line, where)
    refuse_another_schema(content, where)
    return validated(Record, content, where)


def _published_audits(folder: Path, unreadable: list[str]) -> list[Audit]:
    found: list[Audit] = []
    with _noting(unreadable):
        for where, line in lines_of(folder / AUDITS) if os.path.lexists(folder / AUDITS) else []:
            with _noting(unreadable):
                found.append(validated(Audit, content_of(line, where), where))
    return found
