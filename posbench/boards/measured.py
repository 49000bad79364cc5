"""All runs of a folder, each once and under the name that is shown, as every page takes them."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from posbench.base.content_hash import content_hash
from posbench.config.board import RATE, Board
from posbench.config.board_rows import Pair, pairs, protocol_label
from posbench.config.methods import AS_TRAINED
from posbench.config.names import Name
from posbench.config.words import Word
from posbench.records.record import Record
from posbench.statistics.measures import LONGEST, corrected_lines, of_runs

# -- names that are shown --------------------------------------------------------------------------

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


def under_one_protocol(found: Sequence[Record], board: Board) -> list[Record]:
    """The records, in which a run whose settings the board chose is one of its protocol.

    Such a run is called "learned (training.learning_rate=0.006)", and a rate that somebody else
    chose makes another protocol. The `rates` of the board are part of how its rows are trained.
    What the `settings` of a part change of the protocol becomes part of the name of a row, so that
    its runs are ranked beside those of the others.
    """
    own = {each.protocol.label: each.protocol for each in found}
    renamed: dict[tuple[str, Pair], tuple[str, tuple[str, ...]]] = {}
    for part in board.parts.values():
        protocol = part.protocol or board.protocol
        chosen = zip(pairs(part), part.choices, part.rate_of_each, strict=True)
        for pair, words, rate in chosen if not part.experiments else ():
            others = tuple(sorted(word for word in words if not Word.of(word).makes_row))
            settings = (*others, *([] if rate is None else [f"{RATE}={rate}"]))
            if settings:
                # What records have in the name of the row comes before the others.
                before = pair[2].removesuffix(", ".join(others)).removesuffix(", ")
                label = protocol_label(protocol, settings)
                renamed[label, (pair[0], pair[1], before)] = protocol, others
    joined = []
    for each in found:
        row = each.method.base, each.method.extension, ", ".join(each.method.changed)
        place = each.protocol.label, row
        if place in renamed:
            label, others = renamed[place]
            joint = own.setdefault(label, Name(name=label, hash=each.protocol.hash))
            method = each.method
            if others:
                meant = content_hash([method.hash, *others])
                changed = (*method.changed, *others)
                method = method.model_copy(update={"changed": changed, "hash": meant})
            each = each.model_copy(update={"protocol": joint, "method": method})
        joined.append(each)
    return joined


# -- runs ------------------------------------------------------------------------------------------


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

    def with_scores(
        self, runs: pd.DataFrame, longest: float = LONGEST
    ) -> tuple[pd.DataFrame, list[str]]:
        """The runs with their scores above chance, not below 0, at the lengths up to `longest` that
        every task has, each in a column such as "2x"; and the names of these columns.
        """
        known = self.lengths[
            self.lengths["aggregated"] & self.lengths["multiple"].between(1, longest)
        ]
        ours = pd.MultiIndex.from_frame(runs[SHOWN])
        known = known[pd.MultiIndex.from_frame(known[SHOWN]).isin(ours)]
        known = known.drop_duplicates([*SHOWN, "multiple"], keep="last")
        known = known.assign(corrected=np.maximum(corrected_lines(known), 0.0))
        scores = known.pivot(index=SHOWN, columns="multiple", values="corrected").reindex(ours)
        each = scores.groupby(level="task_name").transform("count").gt(0).all()
        scores = scores.loc[:, each].rename(columns=lambda multiple: f"{multiple:g}x")
        return runs.assign(**{name: scores[name].to_numpy() for name in scores}), list(scores)
