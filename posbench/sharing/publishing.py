"""Records of one's own among published ones."""

from __future__ import annotations

import fnmatch
from collections.abc import Iterable
from pathlib import Path

from posbench.records import files, published
from posbench.records.record import Record
from posbench.records.tables import latest


def publish_matching(source: Path, target: Path, protocol: str, task: str, method: str) -> int:
    """Put the matching records among the published ones; returns how many."""
    held = files.read_folder(source).whole()
    found = matching(held.records, protocol, task, method)
    if found:
        published.publish(found, held.audits, target)
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
