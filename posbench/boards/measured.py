"""All runs of a folder, each once, as every page takes them."""

from __future__ import annotations

import functools
from dataclasses import dataclass

import pandas as pd

from posbench.boards.labels import named
from posbench.config.methods import AS_TRAINED
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
    def as_trained(self) -> frozenset[str]:
        """The rows that were tested without an extension."""
        return frozenset(self.lengths.loc[self.lengths["extension"] == AS_TRAINED, "row"])
