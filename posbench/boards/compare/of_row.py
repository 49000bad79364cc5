"""A row of the user among the published ones: its place, and the rows that it differs from."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pandas as pd

from posbench.base.content_hash import content_hash
from posbench.base.errors import PosbenchError
from posbench.base.wording import listed
from posbench.boards.compare.rivals import Rivals
from posbench.boards.measured_runs import MeasuredRuns
from posbench.boards.ranking import BoardPart, Pool, RankedRows
from posbench.records.record import Record, RecordedTraining
from posbench.statistics import standings

NEAREST = 2
"""So many rows above and below are named."""
OF_EXTENSIONS = ("direct", "pi", "ntk", "yarn")
"""Any other extension is compared with these, on its host."""


@dataclass(frozen=True)
class RowStanding:
    """A row among others of its class, on the tasks that it has been run on."""

    row: str
    tasks: tuple[str, ...]
    others: pd.DataFrame  # ours minus each of the others with a number, `p_holm` over all of them
    named: tuple[str, ...]  # of these the nearest, and those that the board refers to
    ranked: RankedRows
    measured: MeasuredRuns  # the runs of all its rows on these tasks
    than: str | None = None  # the one row that ours was to be compared with

    @property
    def kind(self) -> str:
        """The class of the method: zero-shot, tuned ..."""
        return self.ranked.kind

    @property
    def summary(self) -> pd.DataFrame:
        """One line a row, best first: see `posbench.statistics.standings`."""
        return self.ranked.summary

    @property
    def rivals(self) -> pd.DataFrame:
        """The lines of `others` that a report shows."""
        return self.others.loc[list(self.named)]

    @property
    def places(self) -> tuple[int, int] | None:
        """The best and the worst place that it may have: rows that are shown to differ from it are
        above or below it, and each of the others may be either. None where it has no place in the
        table, or no interval says what differs.
        """
        placed = self.ranked.placed
        if self.row not in placed or pd.isna(self.summary.loc[self.row, "low"]):
            return None
        return 1 + len(self.shown(-1)), len(placed) - len(self.shown(1))

    def shown(self, sign: int) -> list[str]:
        """The rows of the table that ours is shown to reach further than (1), or less far (-1)."""
        theirs = self.others.reindex([row for row in self.ranked.placed if row != self.row])
        sure = theirs["p_holm"] < standings.SIGNIFICANT
        return [str(row) for row in theirs.index[sure & (sign * theirs["difference"] > 0)]]

    def sketched(self, sketch: Mapping[str, Any]) -> RowStanding:
        """The same with a picture of its row; see `posbench.explain.sketches`."""
        sketches = {**self.measured.sketches, self.row: sketch}
        return replace(self, measured=replace(self.measured, sketches=sketches))

    def frame(self) -> pd.DataFrame:
        """What the report says in numbers, a line for each row of its class, best first.

        Columns: `learned`, a share of trainings; `tasks` learned `of` so many; `reaches` with `low`
        and `high` (95 %); `difference`, ours minus theirs over the `common` tasks, with
        `difference_low` and `difference_high`; `p_holm`; `best_place` and `worst_place`, of our
        row; `yours`, whether it is that.
        """
        summary = self.summary.rename(columns={"num_tasks": "of"})
        table = summary[["learned", "tasks", "of", "reaches", "low", "high"]].copy()
        bounds = {"low": "difference_low", "high": "difference_high"}
        columns = ["difference", *bounds.values(), "common", "p_holm"]
        table = table.join(self.others.rename(columns=bounds)[columns])
        best, worst = self.places or (None, None)
        ours = table.index == self.row
        placed = {"best_place": best, "worst_place": worst}
        for name, place in placed.items():
            table[name] = pd.array([place if own else None for own in ours], dtype="Int64")
        return table.assign(yours=ours).rename_axis(index="row")

    @property
    def rows(self) -> list[str]:
        """Our row and its rivals, best first."""
        wanted = {self.row, *self.named}
        return [str(row) for row in self.summary.index if row in wanted]


def standing(
    own: Sequence[Record], rivals: Rivals, draws: int | None = None, than: str | None = None
) -> RowStanding:
    """Put the runs of a row of the user among its rivals; `than` is the row of one of them.

    Rivals that lack a task of ours are left out. PosbenchError if nothing is left to compare with.
    """
    first, board, others = own[0], rivals.board, rivals.records
    tasks = tuple(task for task in board.all_tasks if any(each.task.label == task for each in own))
    rivals.refuse_lack(tasks)
    taken = first.method.label in rivals.tasks_of
    mine = [_marked(record) for record in own] if taken else own
    row = mine[0].method.label
    records = [each for each in (*others, *mine) if each.task.label in tasks]
    known = MeasuredRuns.of(records).runs.dropna(subset="area")
    has_all = known.groupby("row")["task"].nunique() == len(tasks)
    rows = set(has_all.index[has_all])
    if len(rows) < 2 or row not in rows:
        raise PosbenchError(
            f"the runs of {row} on {', '.join(tasks)} have not the lengths of the published ones, "
            "which areas are made of: evaluate it at those of the board"
        )
    measured = MeasuredRuns.of([each for each in records if each.method.label in rows])
    runs = measured.runs.assign(learned=measured.runs["trained"], passes=measured.runs["learned"])
    runs = runs.sort_values("task", key=lambda names: names.map(tasks.index), kind="stable")
    references = set(board.references)
    if not first.plain:
        references = {
            each.method.label for each in others if each.method.extension in OF_EXTENSIONS
        }
    references |= {than} if than is not None else set()
    judged, kind = board.judged, first.method_class
    pool = Pool.of(runs, measured, draws=draws or judged.draws, seed=judged.seed)
    ranked = RankedRows.of(BoardPart.of_runs(f"{kind} rows", runs), kind, pool)
    return RowStanding(
        row,
        tasks,
        *_rivals(ranked, row, references),
        ranked,
        measured,
        than,
    )


def _marked(record: Record) -> Record:
    """The record of a row that is published already, under another name."""
    name = record.method
    own = {"name": f"{name.label} (yours)", "changed": (), "hash": content_hash([name.hash])}
    return record.model_copy(update={"method": name.model_copy(update=own)})


def _rivals(
    ranked: RankedRows, row: str, references: set[str]
) -> tuple[pd.DataFrame, tuple[str, ...]]:
    """Our row minus each of the others, see `AdditiveFit.differences`, and those that are named;
    none where ours has learned nothing.
    """
    ordered = ranked.known
    if ranked.fitted is None or row not in ordered:
        return pd.DataFrame(columns=["difference", "low", "high", "common", "p_holm"]), ()
    here = ordered.index(row)
    named = [*ordered[max(here - NEAREST, 0) : here], *ordered[here + 1 : here + 1 + NEAREST]]
    named += [each for each in ordered if each in references and each != row]
    theirs = ranked.fitted.differences(row, ordered)
    turned = {"difference": -theirs["difference"], "low": -theirs["high"], "high": -theirs["low"]}
    return theirs.assign(**turned), tuple(dict.fromkeys(named))


def differences(own: Sequence[Record], published: Sequence[Record]) -> list[str]:
    """In what the machines, libraries and code of two lots of records differ, a sentence each."""
    said = []
    kinds = sorted({record.training.device for record in published})
    mine = sorted({record.training.device for record in own})
    if published and mine != kinds:
        said.append(f"Yours were trained on {', '.join(mine)}, the others on {', '.join(kinds)}.")
    # Not by the version of posbench: what counts of its code, the records' hashes say.
    names = {name for record in own for name in record.training.versions} - {"posbench"}
    for name in sorted(names):
        theirs = _versions(published, name)
        ours = _versions(own, name)
        if theirs and ours != theirs:
            said.append(
                f"Yours were trained with {name} {', '.join(ours)}, the others with "
                f"{', '.join(theirs)}."
            )
    return [*said, *_other_weights(own, published)]


def _other_weights(own: Sequence[Record], published: Sequence[Record]) -> Iterator[str]:
    """A training has one hash on every kind of processor, and other weights."""
    made: dict[str, list[RecordedTraining]] = {}
    for record in published:
        made.setdefault(record.training.hash, []).append(record.training)
    other = {
        f"{record.task.label} (seed {record.seed})"
        for record in own
        for training in made.get(record.training.hash, ())
        if not record.training.made_weights_of(training)
    }
    if other:
        yield (
            f"Some published rows of {listed(sorted(other))} come from the same trainings on "
            "another machine, and so from other weights: small differences to them say little."
        )


def _versions(records: Sequence[Record], name: str) -> list[str]:
    return sorted({str(record.training.versions.get(name)) for record in records})
