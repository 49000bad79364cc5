"""Published records: lines of JSON, a file a task.

    records/<task>.jsonl.gz   a whole record a line, sorted by run
    audits.jsonl              an audit a line: few and small, so that people can look at them

Compressed by gzip, though xz would halve them: pandas, DuckDB, `datasets` and zcat read
`.jsonl.gz` as it is, and DuckDB reads no xz. The same records give the same bytes: keys are sorted,
numbers rounded (see `rounding`), and the header of gzip names neither a file nor a time.
"""

from __future__ import annotations

import gzip
import io
import itertools
import json
import re
import zlib
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from posbench.base.disk import read_bytes
from posbench.base.errors import PosbenchError
from posbench.base.wording import reason
from posbench.records.record import SCHEMA, Audit, Record
from posbench.records.rounding import rounded

Json = dict[str, Any]

AUDITS = "audits.jsonl"
RECORDS = "records/*.jsonl.gz"
LEVEL = 9
LARGEST = 2**22
"""Bytes of a record: what is larger is something else."""
MOST = 2**30
"""Bytes of a file of lines, before and after it is unpacked."""
MOST_LINES = 100_000
"""Lines of a file: a small one may unpack to as many that are empty as memory holds."""
HALF = re.compile(r"\\u[dD][89a-fA-F]")
"""How JSON writes the halves of a character, of which one alone is none."""
DAMAGED = (OSError, EOFError, zlib.error)
"""What gzip says of a file that is damaged, or none of its own."""
AGAIN = "take it from its commit again"


# -- writing ---------------------------------------------------------------------------------------


def contents(records: Iterable[Record], audits: Sequence[Audit] = ()) -> dict[str, str]:
    """The lines of these records and audits, by the path of their file inside a folder."""
    by_task: dict[str, list[tuple[Any, ...]]] = {}
    for record in records:
        order = (record.protocol.slug, record.method.slug, record.seed)
        by_task.setdefault(record.task.slug, []).append((*order, _line(rounded(record))))
    for task, lines in by_task.items():
        if len(lines) > MOST_LINES:
            raise PosbenchError(
                f"task {task} has {len(lines):,} records, and a file of records has at most "
                f"{MOST_LINES:,}: publish them into several folders"
            )
    found = {
        RECORDS.replace("*", task): "".join(line for *_, line in sorted(lines))
        for task, lines in by_task.items()
    }
    if audits:
        found[AUDITS] = "".join(sorted(_line(audit.model_dump(mode="json")) for audit in audits))
    return found


def _line(content: Any) -> str:
    return json.dumps(content, separators=(",", ":"), sort_keys=True, allow_nan=False) + "\n"


def encoded(text: str, name: str) -> bytes:
    """The bytes of a file of lines, compressed where its name says so."""
    if not name.endswith(".gz"):
        return text.encode()
    out = io.BytesIO()
    with gzip.GzipFile("", "wb", LEVEL, out, mtime=0) as zipped:
        zipped.write(text.encode())
    return out.getvalue()


# -- reading ---------------------------------------------------------------------------------------


def lines_of(path: Path) -> Iterator[tuple[str, bytes]]:
    """The lines of a file, each after the place where it is; what is compressed is unpacked
    line by line, and no further than a file of records goes.
    """
    try:
        stream = io.BytesIO(read_bytes(path, MOST))
    except (OSError, ValueError) as error:
        raise PosbenchError(f"{path} cannot be read ({reason(error)}): {AGAIN}") from None
    with unpacking(stream) if path.suffix == ".gz" else stream as opened:
        left = MOST
        for number in itertools.count(1):
            where = f"{path}, line {number}"
            try:
                line = opened.readline(LARGEST + 1)
            except DAMAGED as error:
                raise PosbenchError(f"{where} cannot be unpacked ({error}): {AGAIN}") from None
            if not line:
                return
            left -= len(line)
            if len(line) > LARGEST:
                raise PosbenchError(
                    f"{where} is not read, nor is what follows: more than {LARGEST:,} bytes are "
                    f"no record, so {AGAIN}"
                )
            if left < 0 or number > MOST_LINES:
                raise PosbenchError(
                    f"{where} is not read, nor is what follows: a task has at most "
                    f"{MOST_LINES:,} lines and {MOST:,} bytes, so publish into several folders"
                )
            yield where, line


def unpacking(stream: io.BytesIO) -> gzip.GzipFile:
    return gzip.GzipFile(fileobj=stream)


def content_of(line: bytes, where: str) -> Json:
    """The JSON object in a line."""
    try:
        content = parsed(line.decode())
    except ValueError as error:
        raise PosbenchError(f"{where} is not JSON ({error}): {AGAIN}") from None
    if not isinstance(content, dict):
        raise PosbenchError(f"{where} is not a JSON object: {AGAIN}")
    return content


def parsed(text: str) -> Any:
    """The content of a text of JSON; ValueError where it is none, or none that can be held."""
    try:
        found = json.loads(text, parse_constant=_refused)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    if HALF.search(text):  # of a pair, or alone, which no file can hold
        try:
            json.dumps(found, ensure_ascii=False).encode()
        except UnicodeEncodeError as error:
            half = ascii(error.object[error.start])
            raise ValueError(f"{half} is half a character") from None
    return found


def _refused(constant: str) -> float:
    raise ValueError(f"{constant} is no number of JSON")


def refuse_another_schema(content: Any, where: str) -> None:
    """Say what to do about a record of an older or a newer posbench; `where` names it."""
    schema = content.get("schema_version") if isinstance(content, dict) else None
    if schema == SCHEMA:
        return
    newer = isinstance(schema, int) and schema > SCHEMA
    advice = "upgrade posbench" if newer else "repeat the run with force=true"
    raise PosbenchError(
        f"{where} has record schema {schema}, this version reads {SCHEMA}: {advice}"
    )
