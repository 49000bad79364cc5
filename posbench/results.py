"""Records as data frames: `load` them, `plot` them, `summarise` their rows, and take `difference`s.

`load` is the long table of all records of a folder, and `plot` draws it. `summarise` says what its
rows have learned and how far they reach, with intervals, and `difference` tests one of them
against another. All three take data frames, of other sources as well. results/explore.ipynb shows
them at work. `posbench records` publishes records and verifies them: see
`posbench.sharing.command`.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd

from posbench.base.errors import PosbenchError
from posbench.records import files, tables
from posbench.records.files import LOCAL, keeping_all
from posbench.statistics.standings import difference, summarise

if TYPE_CHECKING:
    from posbench.showing.plotting import plot

__all__ = ["difference", "load", "plot", "summarise"]


def __getattr__(name: str) -> Any:
    """`plot`, once it is asked for: matplotlib takes as long to import as a table to make."""
    if name != "plot":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from posbench.showing.plotting import plot

    return plot


def load(results_dir: str | os.PathLike[str] = LOCAL) -> pd.DataFrame:
    """One row a run and test length; `posbench.records.tables.documentation()` has the columns.

    Raises:
        PosbenchError: if the folder holds no records, or one that cannot be read
    """
    if not isinstance(results_dir, str | os.PathLike) or not os.fspath(results_dir):
        several = isinstance(results_dir, list | tuple | set)
        hint = (
            "pandas.concat([load(each) for each in FOLDERS]) has the runs of several"
            if several
            else f"name a folder that holds records/, or leave it out for {LOCAL}"
        )
        raise PosbenchError(f"load takes one folder, got {results_dir!r}: {hint}")
    folder = Path(results_dir)
    with keeping_all():
        found = tables.table(files.each_record(folder) if _is_folder(folder) else [])
    if found.empty:
        raise PosbenchError(files.without_records(folder))
    return found


def _is_folder(folder: Path) -> bool:
    try:
        return folder.is_dir()
    except OSError:
        return False
