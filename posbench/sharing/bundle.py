"""One file of records with the code of your own that made them, to be sent to others.

A bundle is a gzipped tar archive:

    bundle.json     what it holds, and the hash of all other files
    published/      records, as a published folder has them
    own/            the YAML and Python files of the user that these records were made with, as
                    `--config-dir` takes them

The same records and files give the same bytes. What is unpacked has been sent by somebody else:
names are those that `write` gives, no name is there twice, and reading ends at the first byte too
many.
"""

from __future__ import annotations

import ast
import gzip
import hashlib
import io
import json
import re
import tarfile
import unicodedata
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any, Self

from yaml import YAMLError  # type: ignore[import-untyped]

from posbench.base.content_hash import content_hash
from posbench.base.disk import read_text, write_bytes, write_whole
from posbench.base.errors import PosbenchError
from posbench.base.wording import counted, printable, reason
from posbench.config.building import OF_A_RUN
from posbench.config.modules import python_of
from posbench.config.provenance import targets
from posbench.config.record_command import Command
from posbench.config.yaml_text import loaded
from posbench.records import files
from posbench.records.lines import contents, encoded, unpacking
from posbench.records.record import Audit, Record
from posbench.sharing.agreement import comparable

FORMAT = 2
PUBLISHED, OWN, MANIFEST = "published", "own", "bundle.json"
CODE, INIT = ("*.py", "*.yaml"), "__init__.py"
LARGEST = 64_000_000
"""Bytes that a bundle may unpack to, eight times those of 4,000 records."""
LINES = 4 * LARGEST
"""Bytes that the records in it may unpack to, again four times those of 4,000."""
MOST = 10_000
"""Files of a bundle."""
HEADER = 4096
"""Bytes of an extended header, which has a name that is long or not ASCII."""
LONGEST = 200
"""Bytes of the name of a file."""
NAMES = re.compile(
    rf"{re.escape(MANIFEST)}|{OWN}/.+\.(py|yaml)"
    rf"|{PUBLISHED}/(records/[^/]+\.jsonl\.gz|audits\.jsonl)"
)


def write(
    records: Sequence[Record], audits: Sequence[Audit], own: Path | None, path: Path
) -> dict[str, Any]:
    """Write a bundle of records with the audits that were made of them; returns its manifest."""
    lines = contents(records, files.made_of(records, audits))
    code = _code(own, records)
    content = {f"{PUBLISHED}/{name}": encoded(text, name) for name, text in lines.items()}
    content |= {f"{OWN}/{name}": text.encode() for name, text in code.items()}
    manifest = {
        "format": FORMAT,
        "records": len(records),
        "methods": sorted({record.method.label for record in records}),
        "tasks": sorted({record.task.label for record in records}),
        "code": list(code),
        "hash": hash_of(content),
    }
    content[MANIFEST] = (json.dumps(manifest, indent=1) + "\n").encode()
    names = Names()
    for name in content:
        if why := names.add(name):
            raise PosbenchError(
                f"{printable(name)} {why}, and nobody could read the bundle: rename it"
            )
    write_whole(path, _archived(content))
    return manifest


def _code(own: Path | None, records: Sequence[Record]) -> dict[str, str]:
    """The files of the user that these records were made with, by their place in the folder."""
    texts: dict[str, str] = {}
    if own is None:
        return texts
    folder = CodeFolder(own)
    waiting = [*folder.of_records(records)]
    while waiting:
        if (path := waiting.pop()) not in texts:
            texts[path] = _text_of(own / path)
            waiting += folder.named_in(path, texts[path])
    return dict(sorted(texts.items()))


class CodeFolder:
    """The YAML and Python files of a folder of the user, and which lead to which. Whoever sends one
    method sends nothing of the others.

    What is in a hidden folder, as an environment or what Hydra notes, is no part of a method.
    """

    def __init__(self, own: Path) -> None:
        found = (path.relative_to(own) for pattern in CODE for path in own.rglob(pattern))
        kept = sorted(
            path.as_posix()
            for path in found
            if "__pycache__" not in path.parts and not any(part[0] == "." for part in path.parts)
        )
        self.modules = {module_of(path): path for path in kept if path.endswith(".py")}
        self.named: dict[str, list[str]] = {}
        for path in kept:
            if path.endswith(".yaml"):
                self.named.setdefault(PurePosixPath(path).stem, []).append(path)

    def of_records(self, records: Iterable[Record]) -> Iterator[str]:
        """The files that commands and configurations of records name."""
        for record in records:
            words = Command.parse(record.command).words
            names = {word.partition("=")[2] for word in words} | {record.method.encoding}
            yield from self._of_texts(names | {record.method.extension})
            yield from self._of_texts(
                target for node in OF_A_RUN for target in targets(record.config[node])
            )

    def named_in(self, path: str, text: str) -> Iterator[str]:
        """The files that a file imports, chooses or builds."""
        if path.endswith(".yaml"):
            yield from self._of_texts(_values(text))
            return
        module = module_of(path)
        try:
            tree = ast.parse(text.lstrip("\ufeff"))
        except (SyntaxError, ValueError, RecursionError):
            return  # it made no record
        package = module.split(".") if path.endswith(INIT) else module.split(".")[:-1]
        for node in ast.walk(tree):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                # As in __all__, or for import_module, whose names may be relative.
                below = ".".join([*package, node.value.lstrip(".")])
                yield from self._modules_of([below] if package else [])
                yield from self._modules_of([node.value] if "." in node.value else [])
            elif isinstance(node, ast.Call) and _imports(node.func):
                yield from self._modules_of(
                    str(each.value) for each in node.args if isinstance(each, ast.Constant)
                )
            elif isinstance(node, ast.Import):
                yield from self._modules_of(alias.name for alias in node.names)
            elif isinstance(node, ast.ImportFrom):
                above = package[: len(package) - node.level + 1] if node.level else []
                start = ".".join([*above, *([node.module] if node.module else [])])
                yield from self._modules_of(f"{start}.{alias.name}" for alias in node.names)

    def _of_texts(self, texts: Iterable[str]) -> Iterator[str]:
        """The YAML files of a name, or the modules of one."""
        for text in texts:
            yield from self.named.get(text.rpartition("/")[2].removesuffix(".yaml"), ())
            yield from self._modules_of([text])

    def _modules_of(self, names: Iterable[str]) -> Iterator[str]:
        """The modules that dotted names go through, packages among them."""
        for name in names:
            parts = name.split(".")
            for end in range(1, len(parts) + 1):
                if found := self.modules.get(".".join(parts[:end])):
                    yield found


def _values(text: str) -> Iterator[str]:
    """The texts in YAML that are no keys and no comments."""
    try:
        waiting: list[Any] = [loaded(text)]
    except (YAMLError, ValueError):
        return  # it made no record
    while waiting:
        each = waiting.pop()
        if isinstance(each, dict):
            waiting += each.values()
        elif isinstance(each, list):
            waiting += each
        elif isinstance(each, str):
            yield each


def _imports(function: ast.expr) -> bool:
    name = function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")
    return name in ("import_module", "__import__")


def module_of(path: str) -> str:
    """The name under which a file of the folder is imported."""
    return path.removesuffix(".py").replace("/", ".").removesuffix(".__init__")


def _text_of(path: Path) -> str:
    try:
        text = read_text(path)
        if path.suffix == ".py":
            python_of(text.encode(), path)
        return text
    except OSError as error:
        raise PosbenchError(
            f"{path} cannot be sent ({error.strerror}): put the file itself there"
        ) from None
    except UnicodeDecodeError as error:
        raise PosbenchError(
            f"{path} is not text in UTF-8 ({error.reason} at byte {error.start}): save it in that "
            "encoding, and run the same command again"
        ) from None


def hash_of(content: Mapping[str, bytes]) -> str:
    """The hash of files by their names."""
    return content_hash({name: hashlib.sha256(data).hexdigest() for name, data in content.items()})


def _archived(content: Mapping[str, bytes]) -> bytes:
    out = io.BytesIO()
    with (
        gzip.GzipFile(fileobj=out, mode="wb", mtime=0, filename="") as zipped,
        tarfile.open(fileobj=zipped, mode="w") as archive,
    ):
        for name in sorted(content):
            entry = tarfile.TarInfo(name)
            entry.size = len(content[name])
            archive.addfile(entry, io.BytesIO(content[name]))
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

    @property
    def shown(self) -> str:
        """What is in these files as it would be run, for a terminal, which obeys none of it."""
        return "\n".join(
            f"--- {name}\n{printable(read_text(self.published.parent / name))}"
            for name in self.code
        )


def unpack(path: Path, folder: Path) -> Bundle:
    """Unpack a bundle into an empty folder; nothing in it is run.

    PosbenchError says what is wrong with it: it is none, it is damaged, a record cannot be read.
    """
    content = _read(path)
    manifest = _manifest(content.pop(MANIFEST, None), path)
    if hash_of(content) != manifest["hash"]:
        raise PosbenchError(f"{path} is damaged, or was changed by hand: have it made again")
    for name, data in content.items():
        write_bytes(data, folder / name)
    held, own = files.read_folder(folder / PUBLISHED), folder / OWN
    if wrong := held.unreadable:
        rest = f", and {len(wrong) - 1} more" if len(wrong) > 1 else ""
        raise PosbenchError(f"{path} holds what cannot be read: {wrong[0]}{rest}")
    runs = Counter(record.run for record in held.records)
    if (most := max(runs.values(), default=1)) > 1:  # one might be repeated, and another be kept
        raise PosbenchError(f"{path} holds a run {most:,} times: have it made again")
    return Bundle(folder / PUBLISHED, own if own.is_dir() else None, held.records, held.audits)


class Names:
    """The names of an archive so far, none of which another file system takes for one of these."""

    def __init__(self) -> None:
        self.files: set[str] = set()
        self.folders: set[str] = set()

    def add(self, name: str) -> str:
        """Add a name; returns why no bundle has it beside those before it, or ""."""
        path = PurePosixPath(name)
        if not name.isprintable() or len(name.encode()) > LONGEST:
            return f"has a name that cannot be printed, or is longer than {LONGEST} bytes"
        if path.as_posix() != name or any(part[0] == "." for part in path.parts):
            return "has a name that leads elsewhere, or is hidden"
        if not NAMES.fullmatch(name):
            return "is no file of a bundle"
        file, folders = _folded(name), {_folded(str(folder)) for folder in path.parents}
        if {file, *folders} & self.files or file in self.folders:
            return "is there twice, as a file or a folder"
        if any(folder.endswith((".py", ".yaml")) for folder in folders):
            return "is in a folder that is called like a file"
        self.files.add(file)
        self.folders |= folders
        return ""


def _folded(name: str) -> str:
    """What is equal for two names that are one on a file system of any kind."""
    return unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", name).casefold())


class _Counted:
    """A stream that ends with a sentence where it is longer than any bundle."""

    def __init__(self, stream: gzip.GzipFile, path: Path, most: int) -> None:
        self.stream, self.path, self.most, self.left = stream, path, most, most

    def read(self, size: int) -> bytes:
        found = self.stream.read(size)
        self.left -= len(found)
        if self.left < 0:
            raise PosbenchError(f"{self.path} unpacks to more than {self.most // 10**6} MB")
        return found


def _headers(path: Path) -> type[tarfile.TarInfo]:
    """The headers of an archive, each looked at before what it announces is read."""
    before, files = b"", 0  # the kind of the last header, and how many were of files

    class Header(tarfile.TarInfo):
        @classmethod
        def frombuf(cls, buf: bytes | bytearray, encoding: str, errors: str) -> Self:
            nonlocal before, files
            found = super().frombuf(buf, encoding, errors)
            extended = found.type == tarfile.XHDTYPE
            if extended and (found.size > HEADER or before == found.type):
                raise PosbenchError(f"{path} has a header that no bundle has")
            if found.size < 0 or not (extended or found.type in tarfile.REGULAR_TYPES):
                raise PosbenchError(f"{path} {_holds(found.name)}, which is no plain file")
            before, files = found.type, files + (not extended)
            if files > MOST:
                raise PosbenchError(f"{path} holds more than {MOST:,} files")
            return found

    return Header


def _holds(name: str) -> str:
    shown = printable(name if len(name) <= LONGEST else f"{name[:LONGEST]}...")
    return "holds " + shown.replace("\n", r"\n").replace("\t", r"\t")


def _read(path: Path) -> dict[str, bytes]:
    """The files of an archive, each with a name that `write` gives."""
    found: dict[str, bytes] = {}
    names = Names()
    try:
        if not path.is_file():  # nor a pipe, for which it would wait
            raise FileNotFoundError
        with (
            gzip.open(path) as zipped,
            tarfile.open(
                fileobj=_Counted(zipped, path, LARGEST),  # type: ignore[call-overload]
                mode="r|",
                tarinfo=_headers(path),
            ) as archive,
        ):
            lines = _Counted(zipped, path, LINES)
            for member in archive:
                if why := names.add(member.name):
                    raise PosbenchError(f"{path} {_holds(member.name)}, which {why}")
                if member.issparse() or not member.isreg():
                    raise PosbenchError(f"{path} {_holds(member.name)}, which is no plain file")
                file = archive.extractfile(member)
                data = file.read() if file else b""
                if member.name.endswith(".gz"):
                    lines.stream = unpacking(io.BytesIO(data))
                    while lines.read(2**20):
                        pass
                elif member.name.endswith(".py"):
                    python_of(data, Path(member.name))
                else:
                    data.decode()
                if member.name == MANIFEST:  # the first, which says how to read the others
                    _manifest(data, path)
                found[member.name] = data
            return found
    except FileNotFoundError:
        said = f"there is no file {path}: name a bundle that was sent to you"
        raise PosbenchError(said) from None
    except (OSError, EOFError, ValueError, zlib.error, tarfile.TarError) as error:
        raise PosbenchError(
            f"{path} is not a readable bundle ({reason(error)}): it is made by "
            "`posbench records bundle`"
        ) from None


def _manifest(text: bytes | None, path: Path) -> dict[str, Any]:
    try:
        manifest = json.loads(text or b"")
        known = isinstance(manifest, dict) and isinstance(manifest.get("hash"), str)
    except (ValueError, RecursionError):
        known = False
    if not known:
        raise PosbenchError(
            f"{path} has no {MANIFEST} that can be read: it is made by `posbench records bundle`"
        )
    if manifest.get("format") != FORMAT:
        raise PosbenchError(
            f"{path} is of format {str(manifest.get('format'))[:20]!r}, this posbench reads "
            f"{FORMAT}: update "
            "posbench, or have the bundle made with this version"
        )
    found: dict[str, Any] = manifest
    return found


def added(records: Iterable[Record], target: Path) -> Iterator[str]:
    """What publishing these records in a folder would change, a line a row. Runs that are there
    with other numbers or settings, or of other code, are those in the place of which others come.
    """
    there = {record.run: record for record in files.records(target)} if target.exists() else {}
    rows: dict[str, list[Record]] = {}
    for record in records:
        rows.setdefault(f"{record.method.label}, {record.protocol.label}", []).append(record)
    for row, several in sorted(rows.items()):
        known = [there.get(record.run) for record in several]
        pairs = zip(known, several, strict=True)
        same = sum(old is not None and _same(old, made) for old, made in pairs)
        new = sum(old is None for old in known)
        tasks = counted(len({record.task.label for record in several}), "task")
        seeds = counted(len({record.seed for record in several}), "seed")
        yield (
            f"{row}: {tasks}, {seeds}; of its runs {new} new, {len(several) - new - same} in the "
            f"place of others, {same} there already"
        )


def _same(old: Record, new: Record) -> bool:
    """Whether two records of a run say the same, and are of the same code."""
    return Audit.key_of(old) == Audit.key_of(new) and comparable(old) == comparable(new)
