"""One file of records with the code of one's own that made them, to be sent to others.

A bundle is a gzipped tar archive:

    bundle.json     what it holds, and the hash of all other files
    published/      records, as a published folder has them
    own/            the YAML and Python files of one's own, as `--config-dir` takes them

The same records and files give the same bytes.
"""

from __future__ import annotations

import gzip
import io
import json
import tarfile
import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from posbench.content_hash import content_hash
from posbench.disk import atomically, writing_to
from posbench.errors import PosbenchError
from posbench.records import files
from posbench.records.packing import comparable, pack
from posbench.records.record import Audit, Record
from posbench.wording import counted

FORMAT = 1
PUBLISHED, OWN, MANIFEST = "published", "own", "bundle.json"
CODE = ("*.py", "*.yaml")
LARGEST = 500_000_000
"""Bytes that a bundle may unpack to: more is no bundle of records."""


def write(
    records: Sequence[Record], audits: Sequence[Audit], own: Path | None, path: Path
) -> dict[str, Any]:
    """Write a bundle of records with the audits that were made of them; returns its manifest."""
    packed = pack(records, files.made_of(records, audits))
    code = _code(own)
    content = {f"{PUBLISHED}/{name}": text for name, text in packed.items()}
    content |= {f"{OWN}/{name}": text for name, text in code.items()}
    manifest = {
        "format": FORMAT,
        "records": len(records),
        "methods": sorted({record.method.label for record in records}),
        "tasks": sorted({record.task.label for record in records}),
        "code": list(code),
        "hash": content_hash(content),
    }
    content[MANIFEST] = json.dumps(manifest, indent=1) + "\n"
    with writing_to(path.parent), atomically(path) as beside:
        beside.write_bytes(_archived(content))
    return manifest


def _code(own: Path | None) -> dict[str, str]:
    """The files of one's own, by their place in the folder; what is in a hidden folder, as an
    environment or what Hydra notes, is no part of a method.
    """
    if own is None:
        return {}
    paths = sorted(path.relative_to(own) for pattern in CODE for path in own.rglob(pattern))
    return {
        path.as_posix(): _text_of(own / path)
        for path in paths
        if "__pycache__" not in path.parts and not any(part[0] == "." for part in path.parts)
    }


def _text_of(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise PosbenchError(
            f"{path} is not text in UTF-8 ({error.reason} at byte {error.start}): save it in that "
            "encoding, and run the same command again"
        ) from None


def _archived(content: Mapping[str, str]) -> bytes:
    out = io.BytesIO()
    with (
        gzip.GzipFile(fileobj=out, mode="wb", mtime=0, filename="") as zipped,
        tarfile.open(fileobj=zipped, mode="w") as archive,
    ):
        for name in sorted(content):
            data = content[name].encode()
            entry = tarfile.TarInfo(name)
            entry.size = len(data)
            archive.addfile(entry, io.BytesIO(data))
    return out.getvalue()


@dataclass(frozen=True)
class Bundle:
    """A bundle that has been unpacked."""

    published: Path
    own: Path | None
    records: list[Record]
    audits: list[Audit]

    @property
    def code(self) -> list[str]:
        """The files in it that can run code, by their names in the archive: YAML names classes."""
        found = [path for pattern in CODE for path in (self.own.rglob(pattern) if self.own else ())]
        return sorted(path.relative_to(self.published.parent).as_posix() for path in found)


def unpack(path: Path, folder: Path) -> Bundle:
    """Unpack a bundle into an empty folder; nothing in it is run.

    PosbenchError says what is wrong with it: it is none, it is damaged, a record cannot be read.
    """
    content = _read(path)
    manifest = _manifest(content.pop(MANIFEST, None), path)
    if content_hash(content) != manifest["hash"]:
        raise PosbenchError(f"{path} is damaged, or was changed by hand: have it made again")
    for name, text in content.items():
        target = folder / name
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text, encoding="utf-8")
    held, own = files.read_folder(folder / PUBLISHED), folder / OWN
    if wrong := held.unreadable:
        rest = f", and {len(wrong) - 1} more" if len(wrong) > 1 else ""
        raise PosbenchError(f"{path} holds what cannot be read: {wrong[0]}{rest}")
    return Bundle(folder / PUBLISHED, own if own.is_dir() else None, held.records, held.audits)


def _read(path: Path) -> dict[str, str]:
    """The files of an archive, none of which may lie outside of its folders."""
    try:
        with tarfile.open(path, "r:gz") as archive:
            members = archive.getmembers()
            if sum(member.size for member in members) > LARGEST:
                raise PosbenchError(f"{path} unpacks to more than {LARGEST // 10**6} MB")
            found = {}
            for member in members:
                parts = Path(member.name).parts
                inside = member.name == MANIFEST or parts[:1] in ((PUBLISHED,), (OWN,))
                if not member.isreg() or not inside or ".." in parts:
                    raise PosbenchError(f"{path} holds {member.name}, which no bundle has")
                file = archive.extractfile(member)
                found[member.name] = file.read().decode() if file else ""
            return found
    except (FileNotFoundError, IsADirectoryError):
        said = f"there is no file {path}: name a bundle that was sent to you"
        raise PosbenchError(said) from None
    except (OSError, EOFError, zlib.error, tarfile.TarError, UnicodeDecodeError) as error:
        raise PosbenchError(
            f"{path} is not a readable bundle ({error}): it is made by "
            "`python -m posbench.results bundle`"
        ) from None


def _manifest(text: str | None, path: Path) -> dict[str, Any]:
    try:
        manifest = json.loads(text or "")
        known = isinstance(manifest, dict) and isinstance(manifest.get("hash"), str)
    except (ValueError, RecursionError):
        known = False
    if not known:
        raise PosbenchError(
            f"{path} has no {MANIFEST}: it is made by `python -m posbench.results bundle`"
        )
    if manifest.get("format") != FORMAT:
        raise PosbenchError(
            f"{path} is of format {manifest.get('format')}, this posbench reads {FORMAT}: update "
            "posbench, or have the bundle made with this version"
        )
    found: dict[str, Any] = manifest
    return found


@dataclass(frozen=True)
class Added:
    """What records would do to a published folder, in runs of one row."""

    row: str
    tasks: int
    seeds: int
    new: int
    replaced: int  # runs that are there with other numbers or settings, or of other code
    same: int

    def __str__(self) -> str:
        return (
            f"{self.row}: {counted(self.tasks, 'task')}, {counted(self.seeds, 'seed')}; "
            f"of its runs {self.new} new, {self.replaced} in the place of others, "
            f"{self.same} there already"
        )


def added(records: Iterable[Record], target: Path) -> list[Added]:
    """What publishing these records in a folder would change, row by row."""
    there = {record.run: record for record in files.records(target)} if target.exists() else {}
    rows: dict[str, list[Record]] = {}
    for record in records:
        rows.setdefault(f"{record.method.label}, {record.protocol.label}", []).append(record)
    found = []
    for row, several in sorted(rows.items()):
        known = [there.get(record.run) for record in several]
        pairs = zip(known, several, strict=True)
        same = sum(old is not None and _same(old, made) for old, made in pairs)
        new = sum(old is None for old in known)
        found.append(
            Added(
                row,
                len({record.task.label for record in several}),
                len({record.seed for record in several}),
                new,
                len(several) - new - same,
                same,
            )
        )
    return found


def _same(old: Record, new: Record) -> bool:
    """Whether two records of a run say the same, and are of the same code."""
    return Audit.key_of(old) == Audit.key_of(new) and comparable(old) == comparable(new)
