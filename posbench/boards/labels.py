"""The columns that tell runs apart, and the names under which runs are shown."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd

BOARD = ["protocol", "protocol_hash"]
TASK = ["task", "task_hash", "task_version"]
METHOD = ["method", "method_hash"]
RUN = [*BOARD, *TASK, *METHOD, "seed"]
"""Columns that keep apart what must not be mixed: hashes of contents, and the names people gave."""
SHOWN = ["protocol_name", "task_name", "row", "seed"]
"""Columns that do so with the names that are shown, in tables of lengths and of runs."""


def named(table: pd.DataFrame) -> pd.DataFrame:
    """The table with the names to show, in columns `protocol_name`, `task_name` and `row`.

    These are the labels, with a hash or version added if a label is not unique.
    """
    versions = _suffixes(table, [*BOARD, "task"], "task_version", ", version {}")
    return table.assign(
        protocol_name=table["protocol"]
        + _suffixes(table, ["protocol"], "protocol_hash", " [{:.8}]"),
        task_name=table["task"]
        + versions
        + _suffixes(table, [*BOARD, "task"], "task_hash", " [{:.8}]"),
        row=table["method"] + _suffixes(table, [*BOARD, "method"], "method_hash", " [{:.8}]"),
    )


def short_names(names: Sequence[str]) -> list[str]:
    """The names without the pretrained model behind an @ that all of them have."""
    if len({name.partition("@")[2] for name in names}) > 1:
        return list(names)
    return [name.partition("@")[0] for name in names]


def _suffixes(table: pd.DataFrame, label: list[str], column: str, form: str) -> pd.Series | str:
    """`form` with the value of `column` if its label has several values, "" elsewhere."""
    several = table.groupby(label)[column].transform("nunique") > 1
    if not several.any():
        return ""
    return table[column].map(form.format).where(several, "")
