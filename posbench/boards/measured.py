"""All runs of a folder, each once, as every page takes them."""

from __future__ import annotations

import functools
from dataclasses import dataclass

import pandas as pd

from posbench.boards.labels import BOARD, SHOWN, TASK, named
from posbench.boards.summaries import TaskBoard
from posbench.statistics.measures import of_runs


@dataclass(frozen=True)
class Measured:
    """Every run once: what was measured at each length, and a line a run."""

    lengths: pd.DataFrame  # the long table, with the names that are shown
    runs: pd.DataFrame  # see `posbench.statistics.measures.of_runs`

    @classmethod
    def of(cls, table: pd.DataFrame) -> Measured:
        known = named(table)
        return cls(known, of_runs(known))

    @functools.cached_property
    def with_areas(self) -> pd.DataFrame:
        """The long table with the area of its run in each line."""
        areas = self.runs.set_index(SHOWN)["area"]
        found = areas.reindex(pd.MultiIndex.from_frame(self.lengths[SHOWN]))
        return self.lengths.assign(area=found.to_numpy())

    @functools.cached_property
    def boards(self) -> list[list[TaskBoard]]:
        """One list per protocol, with one board per task.

        Runs that differ in label, hash or version are never averaged.
        """
        ordered = self.with_areas.sort_values(["seed", "test_length"], kind="stable")
        return [
            [TaskBoard.of(runs) for _, runs in protocol.groupby(TASK)]
            for _, protocol in ordered.groupby(BOARD)
        ]
