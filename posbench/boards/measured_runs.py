"""All runs of a folder, each once and under the name that is shown: the frames behind every page.

Records become a line a run and test length (`lengths`), a line a run (`runs`), and a line a row and
test length (`by_length`). Pages, CSV files and the documentation take these frames, and no records.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.resources import files
from typing import Any

import numpy as np
import pandas as pd

from posbench.base.content_hash import content_hash
from posbench.config.board import Board
from posbench.config.board_rows import Pair, pairs, protocol_label
from posbench.config.methods import AS_TRAINED
from posbench.config.names import Name
from posbench.config.words import Word
from posbench.records import tables
from posbench.records.record import MEANINGLESS, Record
from posbench.statistics.aggregates import FEWEST, quantile, zero_shot_first
from posbench.statistics.context import Difference, beside_the_first, of_rows
from posbench.statistics.measures import LONGEST, corrected_lines, of_runs

# -- names that are shown --------------------------------------------------------------------------

BOARD = ["protocol", "protocol_hash"]
TASK = ["task", "task_hash", "task_version"]
METHOD = ["method", "method_hash"]
RUN = [*BOARD, *TASK, *METHOD, "seed"]
"""Columns that keep apart what must not be mixed: hashes of contents, and the names people gave."""
SHOWN = ["protocol_name", "task_name", "row", "seed"]
"""Columns that do so with the names that are shown, in tables of lengths and of runs."""
ROW = SHOWN[:-1]


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


def _suffixes(table: pd.DataFrame, label: list[str], column: str, form: str) -> pd.Series | str:
    """`form` with the value of `column` if its label has several values, "" elsewhere."""
    several = table.groupby(label)[column].transform("nunique") > 1
    if not several.any():
        return ""
    return table[column].map(form.format).where(several, "")


def under_one_protocol(found: Iterable[Record], board: Board) -> list[Record]:
    """The records, in which a run whose settings the board chose is one of its protocol.

    Such a run is called "learned (training.learning_rate=0.006)", and a rate that somebody else
    chose makes another protocol. What the `settings` of a part change of the protocol becomes part
    of the name of a row, so that its runs are ranked beside those of the others.
    """
    own = {each.protocol.label: each.protocol for each in found}
    renamed: dict[tuple[str, Pair], tuple[str, tuple[str, ...]]] = {}
    for part in board.parts.values():
        protocol = part.protocol or board.protocol
        chosen = zip(pairs(part), part.words, strict=True)
        for pair, words in chosen if not part.experiments else ():
            others = tuple(sorted(word for word in words if not Word.of(word).makes_row))
            if others:
                # What records have in the name of the row comes before the others.
                before = pair[2].removesuffix(", ".join(others)).removesuffix(", ")
                label = protocol_label(protocol, others)
                renamed[label, (pair[0], pair[1], before)] = protocol, others
    joined = []
    for each in found:
        place = each.protocol.label, each.method.row
        if place in renamed:
            label, others = renamed[place]
            joint = own.setdefault(label, Name(name=label, hash=each.protocol.hash))
            method = each.method
            meant = content_hash([method.hash, *others])
            changed = (*method.changed, *others)
            method = method.model_copy(update={"changed": changed, "hash": meant})
            each = each.model_copy(update={"protocol": joint, "method": method})
        joined.append(each)
    return joined


# -- runs ------------------------------------------------------------------------------------------

ALIKE = ["measure", "method_class", "multiple", "aggregated", "chance", "parameters"]
ALIKE += ["method_hash", "protocol_hash", "task_hash", "task_version"]
"""Columns that all seeds of a row have alike."""
MEANS = (
    "token_accuracy_teacher_forced",
    "token_accuracy_within_trained_distance",
    "token_accuracy_beyond_trained_distance",
    "loss",
    "untrained",
    "train_cpu_seconds",
    "train_gpu_seconds",
    "solved_step",
)
"""Columns that are averaged over seeds as they are, what is unknown left out."""


@functools.cache
def sketches() -> dict[str, dict[str, Any]]:
    """What `posbench.explain.sketches` has written, by method."""
    path = files("posbench.explain") / "sketches.jsonl"
    lines = path.read_text(encoding="utf-8").splitlines() if path.is_file() else []
    return {line["method"]: line for line in map(json.loads, lines)}


@dataclass(frozen=True)
class MeasuredRuns:
    """Every run once: what was measured at each length, a line a run, and rows by length."""

    records: Sequence[Record]  # a run that was repeated is there twice
    lengths: pd.DataFrame  # the long table, with the names that are shown
    runs: pd.DataFrame  # see `posbench.statistics.measures.of_runs`
    sketches: Mapping[str, Mapping[str, Any]] = field(default_factory=lambda: sketches())  # by row

    @classmethod
    def of(cls, found: Iterable[Record], board: Board | None = None) -> MeasuredRuns:
        """The frames of these records, as a board sees them if one is given."""
        records = list(found) if board is None else under_one_protocol(found, board)
        lengths = named(tables.table(records))
        return cls(records, lengths, of_runs(lengths))

    @functools.cached_property
    def latest(self) -> list[Record]:
        """The last record of each run."""
        return tables.latest(self.records)

    @property
    def shown(self) -> Iterator[tuple[tuple[str, str, str], Record]]:
        """These records, with the names of protocol, task and row under which they are shown."""
        names = self.lengths.drop_duplicates(tables.RUN)[ROW]
        return zip(names.itertuples(index=False, name=None), self.latest, strict=True)

    @property
    def meaningless(self) -> list[str]:
        """Warnings for protocols whose numbers mean nothing, such as smoke."""
        names = set(self.lengths["protocol_chosen"].unique())
        return [said for name, said in MEANINGLESS.items() if name in names]

    @functools.cached_property
    def as_trained(self) -> frozenset[str]:
        """The rows that were tested without an extension."""
        plain = self.lengths["extension"] == AS_TRAINED
        return frozenset(self.lengths.loc[plain, "row"].unique())

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

    @functools.cached_property
    def by_text(self) -> pd.DataFrame:
        """One line a run whose training learned, test length and text, with the names that are
        shown; see `posbench.records.tables.by_text`.
        """
        names = self.lengths.drop_duplicates(tables.RUN)[[*tables.RUN, *ROW]]
        learned = self.runs.loc[self.runs["trained"], SHOWN]
        return tables.by_text(self.records).merge(names, on=tables.RUN).merge(learned, on=SHOWN)

    @functools.cached_property
    def by_length(self) -> pd.DataFrame:
        """One line a row of a task and test length; classes in their order, best first.

        `score` is the mean over seeds, `half_width_95` half of its interval (Student's t, from
        three seeds on). `reaches`, the mean area of trainings that learned, `learned`, their
        number, and `seeds_at_1x` are those of the row. A length that not all seeds have, as they
        did not climb there or their ceiling diverged, has no fair sample of them: its score is NaN.
        """
        known = self.lengths
        lines = known.groupby([*ROW, "test_length"], sort=True)
        score = lines["score"]
        told = lines[ALIKE].first().rename(columns={"method_class": "class"})
        found = told.assign(
            score=score.mean(),
            half_width_95=_half_widths(score),
            lowest=score.min(),
            highest=score.max(),
            **{name: lines[name].mean() for name in MEANS if name in known},
        )
        rows = known.groupby(ROW)["seed"].nunique()
        found["seeds"] = rows.reindex(found.index.droplevel("test_length")).to_numpy()
        partial = score.count() < found["seeds"]
        found.loc[partial, ["score", "half_width_95", "lowest", "highest"]] = np.nan
        runs = self.runs.assign(known=self.runs["in_distribution"].notna())
        areas = runs["area"].where(runs["trained"]).groupby([runs[name] for name in ROW])
        of_row = pd.DataFrame(
            {
                "reaches": areas.mean(),
                "reaches_half_width_95": _half_widths(areas),
                "learned": (runs["trained"] & runs["known"]).groupby([runs[n] for n in ROW]).sum(),
                "seeds_at_1x": runs.groupby(ROW)["known"].sum(),
            }
        )
        found = found.reset_index().merge(of_row, how="left", left_on=ROW, right_index=True)
        for name in ("learned", "seeds_at_1x"):  # a row without a test from 1x on is no run there
            found[name] = found[name].fillna(0).astype(int)
        order = found.assign(
            first=found["class"].map(zero_shot_first), best=-found["reaches"].fillna(-1.0)
        ).sort_values(
            ["protocol_name", "task_name", "first", "best", "row", "test_length"], kind="stable"
        )
        return found.loc[order.index].reset_index(drop=True)


def _half_widths(values: pd.core.groupby.SeriesGroupBy) -> pd.Series:
    """Half of the 95 % interval of each mean, by Student's t; NaN below three values."""
    count = values.count()
    return (quantile(count) * values.std() / np.sqrt(count)).where(count >= FEWEST)


# -- what more context gives or takes, where tests ask for the same tokens throughout --------------

MULTIPLES = (2.0, 8.0)
"""Lengths whose losses are compared with those at 1x."""


@dataclass(frozen=True)
class MoreContext:
    """What it does on one task, under one protocol."""

    protocol: str
    task: str
    rows: pd.DataFrame  # the best at the longest first; see `posbench.statistics.context.of_rows`
    beside: Mapping[str, Difference]  # at the longest, the others minus the first
    by_text: pd.DataFrame  # that all of it is made of; see `MeasuredRuns.by_text`


def more_context(measured: MeasuredRuns) -> list[MoreContext]:
    """One for each protocol and task with such tests."""
    found = []
    for (protocol, task), mine in measured.by_text.groupby(["protocol_name", "task_name"]):
        rows = of_rows(mine, MULTIPLES)
        beside = beside_the_first(mine, list(rows.index), MULTIPLES[-1])
        found.append(MoreContext(protocol, task, rows, beside, mine))
    return found


# -- frames for files ------------------------------------------------------------------------------


def lengths_frame(measured: MeasuredRuns) -> pd.DataFrame:
    """leaderboard.csv: a line a row of a task and test length."""
    first = ["protocol_name", "task_name", "measure", "row", "class", "multiple", "test_length"]
    lines = measured.by_length
    rest = [name for name in lines if name not in first]
    return _renamed(lines[[*first, *rest]])


def runs_frame(measured: MeasuredRuns) -> pd.DataFrame:
    """runs.csv: a line a run, with the measures by which rows are ranked."""
    once = measured.lengths.drop_duplicates(SHOWN)
    more = ["solved_step", "parameters", "train_gpu_seconds", "training_hash", "method_hash"]
    # The first is `solved_step`; the others are what it costs.
    again = ["steps_to_gate", "multiplications", "step_multiplications"]
    runs = measured.runs.drop(columns=["protocol", "task", "training", *again])
    runs["reach_low"] = [each.low for each in runs["reach"]]
    runs["reach_high"] = [each.high for each in runs.pop("reach")]
    for name in ("learned", "trained"):
        runs[name] = runs[name].astype(object).where(runs["in_distribution"].notna())
    found = runs.merge(once[[*SHOWN, *more]], on=SHOWN, how="left")
    return _renamed(found.sort_values(SHOWN, kind="stable"))


def _renamed(table: pd.DataFrame) -> pd.DataFrame:
    named = {"protocol_name": "protocol", "task_name": "task", "row": "method"}
    named["cpu_seconds"] = "train_cpu_seconds"
    return table.rename(columns=named)
