"""Boards of small records, as the tests of the leaderboard ask about them."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import pandas as pd
from making import changed, plain, record, save, view

from posbench.boards import remarks as remarking
from posbench.boards.measured_runs import MeasuredRuns
from posbench.records.record import Record

FILES = ("leaderboard.md", "leaderboard.html", "leaderboard.csv", "runs.csv")


def lines(*found: Record) -> pd.DataFrame:
    """Rows by test length, see `MeasuredRuns.by_length`."""
    return MeasuredRuns.of(found).by_length


def scores(*found: Record) -> dict[str, dict[float, float]]:
    """Row -> multiple -> mean score, of records of one task under one protocol."""
    return {
        str(row): dict(zip(part["multiple"], part["score"], strict=True))
        for row, part in lines(*found).groupby("row", sort=False)
    }


def remarks(*found: Record) -> str:
    return "\n".join(remarking.remarks(MeasuredRuns.of(found)))


def seeds(method: str, accuracies: Iterable[dict[float, float]], **more: str) -> list[Record]:
    return [record(method, each, seed, **more) for seed, each in enumerate(accuracies)]


def contents(folder: Path) -> list[bytes]:
    return [(folder / name).read_bytes() for name in FILES]


def a_board(folder: Path) -> list[Record]:
    """Two tasks, three methods, two seeds, one of them unsolved, one method on one task only."""
    found = [
        *seeds("rope", [{1: 1.0, 2: 0.5}, {1: 0.9, 2: 0.3}]),
        *seeds("rope", [{1: 1.0, 2: 0.7}, {1: 1.0, 2: 0.5}], task="passkey"),
        *seeds("nope", [{1: 0.2, 2: 0.1}, {1: 0.1, 2: 0.0}]),
        *seeds("nope", [{1: 1.0, 2: 0.9}, {1: 1.0, 2: 0.7}], task="passkey"),
        *seeds("alibi", [{1: 1.0, 2: 1.0}, {1: 1.0, 2: 1.0}]),
    ]
    save(folder, *found)
    return found


def with_views() -> list[Record]:
    """Two methods on two tasks with two seeds, each with views of one length."""
    made = [
        plain(record(method, {1: 1.0, 2: 0.9 - 0.1 * seed, 8: worst}, seed=seed, task=task))
        for method, worst in (("rope", 0.1), ("alibi", 0.6))
        for task in ("copy", "sort")
        for seed in (0, 1)
    ]
    halves = view("depth", 10, (0, 0.5, 8, 0.5, 1), (0.5, 1, 8, 0.1, 1))
    return [changed(each, {"views": [halves]}) for each in made]
