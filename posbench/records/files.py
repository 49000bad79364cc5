"""Records as files: one JSON file a run while they are your own, packed lines once published."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from posbench.errors import PosbenchError
from posbench.records.packing import pack, pack_audits, unpack, unpack_audits
from posbench.records.record import SCHEMA, Audit, Record

LOCAL = Path("results/local")
PUBLISHED = Path("results/published")


@contextmanager
def atomically(path: Path) -> Iterator[Path]:
    """A file beside `path` to write to; it takes the place of `path` when all is on the disk."""
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = path.with_suffix(f".{os.getpid()}.tmp")
    try:
        yield beside
        with open(beside, "rb") as file:
            os.fsync(file.fileno())
        os.replace(beside, path)
    finally:
        beside.unlink(missing_ok=True)


def write_json(content: Any, path: Path) -> None:
    """Write atomically: the file is either complete or not there."""
    with atomically(path) as beside:
        text = json.dumps(content, indent=1, allow_nan=False)
        beside.write_text(text + "\n", encoding="utf-8")


def record_path(results_dir: str | Path, protocol: str, task: str, method: str, seed: int) -> Path:
    """Where the record of a run of your own is kept; the names are slugs."""
    return Path(results_dir) / "records" / protocol / task / method / f"seed={seed}.json"


def path_of(record: Record, results_dir: str | Path) -> Path:
    names = (record.protocol.slug, record.task.slug, record.method.slug)
    return record_path(results_dir, *names, record.seed)


def audit_path(record: Path) -> Path:
    """Where the audit of the run with that record is kept: like `record_path`, under audits/."""
    records = record.parents[3]
    return records.parent / "audits" / record.relative_to(records)


def write(record: Record, path: Path) -> None:
    """Write one file, atomically."""
    write_json(record.as_json(), path)


def read(path: Path) -> Record:
    """The record in a file; PosbenchError names the file and what is wrong with it."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise PosbenchError(
            f"{path} is not a readable record ({error}): delete it and repeat the run"
        ) from None
    return validated(content, str(path))


def validated(content: Any, where: str) -> Record:
    """The record with this content; `where` names it in the sentence about what is wrong."""
    names = ("schema_version", "schema")  # the second before 3
    known = [content[name] for name in names if isinstance(content, dict) and name in content]
    schema = known[0] if known else None
    if schema != SCHEMA:
        newer = isinstance(schema, int) and schema > SCHEMA
        advice = "upgrade posbench" if newer else "repeat the run with force=true"
        raise PosbenchError(
            f"{where} has record schema {schema}, this version reads {SCHEMA}: {advice}"
        )
    try:
        return Record.model_validate(content)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        field = ".".join(map(str, first["loc"]))
        reason = first["msg"][:1].lower() + first["msg"][1:]
        raise PosbenchError(
            f"{where} is no valid record ({field}: {reason}): delete it and repeat the run"
        ) from None


def records(results_dir: str | Path) -> list[Record]:
    """All records of a results folder: published lines, then files in the order of their paths."""
    folder = Path(results_dir)
    paths = sorted(folder.glob("records/**/seed=*.json"))
    return [*_packed(folder), *(read(path) for path in paths)]


def _packed(folder: Path) -> list[Record]:
    return [validated(content, f"{path}, line {line}") for path, line, content in unpack(folder)]


def audits(results_dir: str | Path) -> list[Audit]:
    """The audits of a results folder that were made of its records as they are."""
    folder = Path(results_dir)
    made = {Audit.key_of(each) for each in records(folder)}
    own = [
        Audit.model_validate_json(path.read_text(encoding="utf-8"))
        for path in sorted(folder.glob("audits/**/seed=*.json"))
    ]
    return [audit for audit in [*_packed_audits(folder), *own] if audit.key in made]


def _packed_audits(folder: Path) -> list[Audit]:
    return [Audit.model_validate(content) for content in unpack_audits(folder)]


def publish(records: list[Record], audits: list[Audit], folder: Path) -> None:
    """Put records among those of a published folder, each in the place of the same run."""
    known = {_run(record): record for record in _packed(folder)}
    write_packed([*(known | {_run(record): record for record in records}).values()], folder)
    made = {audit.key: audit for audit in [*_packed_audits(folder), *audits]}
    if made:
        _write_text(pack_audits(made.values()), folder / "audits.jsonl")


def write_packed(records: list[Record], folder: Path) -> None:
    """Make these the published records of a folder, and no others."""
    contents = pack(records)
    for path in folder.glob("records/*.jsonl"):
        if f"records/{path.name}" not in contents:
            path.unlink()
    for name, text in contents.items():
        _write_text(text, folder / name)


def _write_text(text: str, path: Path) -> None:
    with atomically(path) as beside:
        beside.write_bytes(text.encode())


def _run(record: Record) -> tuple[str | int, ...]:
    """What tells runs apart: another record of the same run takes its place."""
    hashes = (record.protocol.hash, record.task.hash, record.method.hash)
    names = (record.protocol.slug, record.task.slug, record.method.slug)
    return (*names, *hashes, record.task_version, record.seed)
