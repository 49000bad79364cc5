"""Published folders: records are put among those of a folder, or taken from there."""

from __future__ import annotations

import fnmatch
import io
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from posbench.base.disk import (
    Lock,
    make_writable,
    read_bytes,
    refuse_linked,
    write_bytes,
    write_json,
    writing_to,
)
from posbench.base.errors import PosbenchError
from posbench.records import files
from posbench.records.lines import AUDITS, DAMAGED, RECORDS, contents, encoded, unpacking
from posbench.records.record import Audit, Record
from posbench.records.tables import latest


def publish_matching(source: Path, target: Path, protocol: str, task: str, method: str) -> int:
    """Put the matching records among the published ones; returns how many."""
    held = files.read_folder(source).whole()
    found = matching(held.records, protocol, task, method)
    if found:
        publish(found, held.audits, target)
    return len(found)


def matching(records: Iterable[Record], protocol: str, task: str, method: str) -> list[Record]:
    """The last record of each run whose names, as their paths have them, match these patterns (`*`,
    `?`).
    """
    return [
        record
        for record in latest(records)
        if fnmatch.fnmatchcase(record.protocol.slug, protocol)
        and fnmatch.fnmatchcase(record.task.slug, task)
        and fnmatch.fnmatchcase(record.method.slug, method)
    ]


def publish(records: Iterable[Record], audits: Iterable[Audit], folder: Path) -> None:
    """Put records among those of a published folder, each in the place of the same run."""
    with _changing(folder):
        _publish(records, audits, folder, files.read_published(folder).whole())


def revise(revised: Iterable[tuple[Record, Record]], folder: Path) -> int:
    """Put records in the place of published ones that are still as they were, each with the audit
    that was made of the one before; how many.
    """
    with _changing(folder):
        known = files.read_published(folder).whole()
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
    """Keep others from changing what is published in a folder until the block ends: what they
    published between its reading and its writing would be lost.
    """
    make_writable(folder)
    with writing_to(folder), Lock(folder / ".lock"):
        yield


def _publish(
    records: Iterable[Record], audits: Iterable[Audit], folder: Path, known: files.Folder
) -> None:
    merged = [*{record.run: record for record in (*known.records, *records)}.values()]
    made = {audit.key: audit for audit in (*known.audits, *audits)}
    write(merged, files.made_of(merged, made.values()), folder)


def unpublish(records: list[Record], audits: list[Audit], folder: Path) -> int:
    """Put published records, a file each, where a folder has none of the same run; how many.

    Of two runs of one name that of the later version of its task takes the place, or else the one
    that comes later, and the other stays beside it. PosbenchError, before anything is written, if
    a file that may be the same run cannot be read.
    """
    packed = {record.run for record in files.read_published(folder).whole().records}
    new = [
        record
        for record in records
        if record.run not in packed
        and record.run not in _runs_of_name(files.path_of(record, folder))
    ]
    with writing_to(folder):
        for audit in files.made_of(new, audits):
            _add_audit(audit, folder)
        for record in new:
            _add(record, files.path_of(record, folder))
    return len(new)


def _runs_of_name(path: Path) -> set[tuple[str | int, ...]]:
    """The runs whose records are at a path, or were kept beside it."""
    there = [path] if path.exists() else []
    return {files.read(each).run for each in (*there, *path.parent.glob(f"{path.stem}.*.json"))}


def _add(record: Record, path: Path) -> None:
    """Write a record where none of the same run is."""
    if path.exists() and files.read(path).task_version > record.task_version:
        path = files.place_beside(path, record.as_json())
    elif path.exists():
        files.kept_beside(path)
    files.write(record, path)


def _add_audit(audit: Audit, folder: Path) -> None:
    """Write an audit; another of its name, or what cannot be read, stays beside it."""
    record = files.record_path(folder, audit.protocol, audit.task, audit.method, audit.seed)
    path = files.audit_path(record)
    if path.exists() and not _holds(path, audit):
        files.kept_beside(path)
    write_json(audit.model_dump(mode="json"), path)


def _holds(path: Path, audit: Audit) -> bool:
    try:
        return files.read_audit(path) == audit
    except PosbenchError:
        return False


def write(records: list[Record], audits: Sequence[Audit], folder: Path) -> None:
    """Make these the published records and audits of a folder, and no others.

    Audits come before the records that they were made of, beside those of the records that were
    there, which go last. So whenever this is killed, every record has its audit, and the same call
    ends it.
    """
    texts = contents(records, audits)
    make_writable(folder)
    refuse_linked(folder / "records/any", folder)
    with writing_to(folder):
        audited = texts.pop(AUDITS, "")
        if audited:
            _write(_with_lines_of(folder / AUDITS, audited), folder / AUDITS)
        for name, text in texts.items():
            _write(text, folder / name)
        for path in folder.glob(RECORDS):
            if path.relative_to(folder).as_posix() not in texts:
                path.unlink(missing_ok=True)
        if audited:
            _write(audited, folder / AUDITS)
        else:
            (folder / AUDITS).unlink(missing_ok=True)


def _with_lines_of(path: Path, text: str) -> str:
    """The lines of a text and those of a file, if it is there, each once and in order."""
    there = read_bytes(path).splitlines() if path.exists() else []
    lines = sorted({*there, *text.encode().splitlines()})
    return b"".join(line + b"\n" for line in lines).decode()


def _write(text: str, path: Path) -> None:
    """Write atomically, unless the file has this text: another zlib compresses otherwise."""
    if not path.exists() or _text_of(path) != text.encode():
        write_bytes(encoded(text, path.name), path)


def _text_of(path: Path) -> bytes | None:
    """What a file holds, unpacked; None where it is damaged."""
    stream = io.BytesIO(read_bytes(path))
    if path.suffix != ".gz":
        return stream.read()
    with suppress(*DAMAGED), unpacking(stream) as opened:
        return opened.read()
    return None
