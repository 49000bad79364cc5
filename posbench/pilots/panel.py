"""The panels share how they read their records, and that each gives a table and a sentence."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd
from omegaconf import OmegaConf

from posbench.base.errors import PosbenchError
from posbench.config.board import AS_TRAINED, Board
from posbench.records.record import Record
from posbench.showing.table import pipes, plain
from posbench.statistics.measures import area


@dataclass(frozen=True)
class Choice:
    """A table, and the sentence that says what follows from it."""

    title: str
    table: pd.DataFrame
    decision: str

    @property
    def markdown(self) -> str:
        shown = self.table.map(lambda value: "" if value != value else str(value))
        cells = [list(map(plain, row)) for row in shown.to_numpy().tolist()]
        lines = pipes([plain(str(each)) for each in shown.columns], cells)
        return "\n".join([f"## {self.title}", "", *lines, "", f"**{self.decision}**", ""])


def of_panel(records: Iterable[Record], panel: Board) -> dict[str, list[Record]]:
    """The records of each part of a panel; PosbenchError if one is missing."""
    known: dict[tuple[str, ...], list[Record]] = {}
    for record in records:
        method, where = record.method, (record.protocol.name, record.task.name, str(record.seed))
        for row in {(method.base, method.extension), (method.name, "")}:
            known.setdefault((*where, *row), []).append(record)
    found: dict[str, list[Record]] = {}
    for name, part in panel.parts.items():
        rows = [*itertools.product(part.encodings, part.extensions)]
        rows += [(method, "") for method in part.methods]
        for task, row, seed in itertools.product(part.tasks or panel.all_tasks, rows, part.seeds):
            key = (part.protocol or panel.protocol, task, str(seed), *row)
            mine = [each for each in known.get(key, []) if _has(each, part.settings)]
            if not mine:
                called = row[0] if row[1] in ("", AS_TRAINED) else f"{row[0]} with {row[1]}"
                raise PosbenchError(
                    f"panel {panel.name} has no record of {called} on {task}, seed {seed} ({name})"
                )
            found.setdefault(name, []).append(mine[-1])
    return found


def _has(record: Record, settings: Sequence[str]) -> bool:
    """Whether the record was made with these settings, and with no others that were changed.

    A setting that is the protocol's own is not among those that were changed.
    """
    changed = {
        change for name in (record.protocol, record.task, record.method) for change in name.changed
    }
    asked = dict(setting.split("=", 1) for setting in settings)
    if not {change.split("=", 1)[0] for change in changed} <= asked.keys():
        return False
    return all(_setting(record, key) == _read(value) for key, value in asked.items())


def _read(value: str) -> object:
    """A value as the command line reads it: to YAML itself 6e-3 is a text."""
    return OmegaConf.create(f"value: {value}").value


def _setting(record: Record, key: str) -> object:
    value: Any = record.config
    for part in key.split("."):
        value = value.get(part) if isinstance(value, dict) else None
    return value


def area_of(record: Record) -> float:
    """The area of all its lengths beyond training."""
    tested = record.rows
    return area(
        [row.true_multiple for row in tested],
        [row.score for row in tested],
        [row.chance for row in tested],
    )
