"""Records as data frames: `load` them, `plot` them, `summarise` and `compare` their rows.

`load` is the long table of all records of a folder, and `plot` draws it. `summarise` ranks its
rows, with intervals, and `compare` tests one of them against another; all three take data frames,
of other sources as well. results/explore.ipynb shows them at work. `python -m posbench.results`
publishes records and verifies them: see `posbench.results.command`.
"""

from __future__ import annotations

from pathlib import Path

import pandas as pd

from posbench.records import files, tables
from posbench.records.files import LOCAL
from posbench.results.publishing import publish_matching
from posbench.showing.plotting import plot
from posbench.statistics.standings import compare, summarise

__all__ = ["compare", "load", "plot", "publish_matching", "summarise"]


def load(results_dir: str | Path = LOCAL) -> pd.DataFrame:
    """One row a run and test length; `posbench.records.tables.documentation()` has the columns."""
    return tables.table(files.records(results_dir))
