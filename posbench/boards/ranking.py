"""What is ranked together: the rows of one part of a board and one class, in their order."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from posbench.base.wording import counted
from posbench.boards.measured_runs import SHOWN, MeasuredRuns
from posbench.config.board import AS_TRAINED, Board, Rows
from posbench.config.board_rows import pairs
from posbench.showing.table import short_names
from posbench.statistics import standings
from posbench.statistics.aggregates import DRAWS, zero_shot_first
from posbench.statistics.effects import AdditiveFit
from posbench.statistics.measures import LONGEST, of_runs

# -- which rows of a board have been run, and on which of its tasks --------------------------------

MOST = 0.9
"""The share of rows that must have a run of a task before the task has been run, as a board says.
A sweep goes from task to task."""
ROW = ["encoding", "extension", "changed"]
"""What a board asks for, as the long table has it; see `posbench.config.board_rows.pairs`."""


@dataclass(frozen=True)
class BoardPart:
    """The runs of one part of a board, one line a run, with what is known of each row."""

    title: str
    rows: Rows
    runs: pd.DataFrame  # see `posbench.statistics.aggregates`
    unrun: int = 0  # how many rows it asks for that have no run
    merged: tuple[Rows, ...] = ()  # the parts whose runs it has, where the board asks in several

    @classmethod
    def of_runs(cls, title: str, runs: pd.DataFrame) -> BoardPart:
        """Runs that no part of a board asks for."""
        methods, tasks = (tuple(sorted(set(runs[each]))) for each in ("row", "task"))
        rows = Rows(methods=methods, seeds=(0,), tasks=tasks)
        return cls(f"{title[0].upper()}{title[1:]}", rows, runs)

    @property
    def protocol(self) -> str:
        """As it is shown."""
        return str(self.runs["protocol_name"].iloc[0])

    @property
    def is_of_a_host(self) -> bool:
        """Whether its rows are extensions of one encoding."""
        return len(self.rows.encodings) == 1 and len(self.rows.extensions) > 1

    @property
    def is_extended(self) -> bool:
        """Whether its rows are extensions: of one encoding, of several, or one with settings."""
        return bool(self.rows.encodings) and {*self.rows.extensions} != {AS_TRAINED}

    @property
    def as_trained(self) -> str:
        """The row of the encoding that all rows extend, without an extension; "" if they do not."""
        encodings, extensions = self.rows.encodings, self.rows.extensions
        return encodings[0] if len(encodings) == 1 and AS_TRAINED in extensions else ""

    def asked(self, board: Board) -> Sequence[str]:
        """The tasks that the board asks for."""
        return self.rows.tasks or board.all_tasks

    def lacking(self, board: Board) -> list[str]:
        """The tasks asked for that fewer than nine in ten of its rows have a run on."""
        rows = self.runs.groupby("task")["row"].nunique()
        enough = min(MOST * max(self.runs["row"].nunique(), 1), rows.max())
        return [task for task in self.asked(board) if rows.get(task, 0) < enough]

    def lacks(self, board: Board) -> str:
        """The lacking tasks in a sentence; "" if there are none."""
        if not (lacking := self.lacking(board)):
            return ""
        asked = counted(len(self.asked(board)), "task")
        return f"Too few rows have been run on {len(lacking)} of {asked}: {', '.join(lacking)}."


def parts(board: Board, measured: MeasuredRuns) -> list[BoardPart]:
    """Each part of the board that has a run, in the board's order."""
    once = measured.lengths.drop_duplicates(SHOWN)
    once = once[~once["task_changed"] & once["task"].isin(board.all_tasks)]
    once = _of_one_kind(once, "task", ["task_version", "task_hash"])
    once = _of_one_kind(once, "protocol", ["protocol_hash"])
    keys = list(once[[*ROW, "task", "seed"]].itertuples(index=False, name=None))
    found = []
    for title, together in _sections(board).items():
        rows, asked = together[0], {part: _asked(part, board) for part in together}
        protocol = _under(once, rows.protocol or board.protocol, board.protocol)
        wanted = frozenset().union(*asked.values())
        # An empty list would choose columns.
        ours = (once["protocol"] == protocol) & np.array([key in wanted for key in keys], bool)
        mine = once[ours]
        if mine.empty:
            continue
        there = set(itertools.compress(keys, ours))
        merged = tuple(part for part in together if not asked[part].isdisjoint(there))
        runs = measured.runs[_are_in(measured.runs, mine, SHOWN)]
        runs = runs.assign(learned=runs["trained"], passes=runs["learned"]).reset_index(drop=True)
        unrun = set(pairs(rows)).difference(mine[ROW].itertuples(index=False, name=None))
        found.append(BoardPart(title, rows, runs, len(unrun), merged))
    return found


def unrun_parts(board: Board, found: Iterable[BoardPart]) -> list[str]:
    """The titles of the board's parts of which no run is among those found."""
    known = [rows for part in found for rows in part.merged]
    return [title for title, rows in board.parts.items() if rows not in known]


def _asked(rows: Rows, board: Board) -> frozenset[tuple[Any, ...]]:
    """Encoding, extension, changes, task and seed of each run that a part asks for."""
    return frozenset(
        (*pair, task, seed)
        for pair, task in itertools.product(pairs(rows), rows.tasks or board.all_tasks)
        for seed in rows.seeds_of(task)
    )


def _sections(board: Board) -> dict[str, list[Rows]]:
    """By title, the parts that are ranked together: one, and those that ask for its rows and tasks
    again with other seeds.
    """
    found: dict[str, list[Rows]] = {}
    for title, rows in board.parts.items():
        again = (first for first, parts in found.items() if _is_again(rows, parts[0], board))
        found.setdefault(next(again, title), []).append(rows)
    return found


def _is_again(rows: Rows, first: Rows, board: Board) -> bool:
    """Whether a part asks for rows and tasks of an earlier one, with other seeds."""
    tasks, of_first = ({*(part.tasks or board.all_tasks)} for part in (rows, first))
    return (
        not rows.experiments
        and rows.protocol == first.protocol
        and tasks <= of_first
        and {*rows.seeds}.isdisjoint(first.seeds)
        and {*pairs(rows)} <= {*pairs(first)}
    )


def _under(known: pd.DataFrame, protocol: str, usual: str) -> str:
    """The protocol of a part; in a dry run of the board, the only one there is.

    It is a dry run if there is nothing under the board's usual protocol.
    """
    there = set(known["protocol"].unique())
    return there.pop() if len(there) == 1 and usual not in there else protocol


def _of_one_kind(table: pd.DataFrame, label: str, columns: list[str]) -> pd.DataFrame:
    """Keep, of runs with one label and unlike contents, those with the most frequent content.

    The remarks above the board say that there are several.
    """
    if table.empty:
        return table
    counts = table.groupby([label, *columns])["seed"].count().sort_values(kind="stable")
    chosen = counts.reset_index().groupby(label).tail(1)
    return table[_are_in(table, chosen, [label, *columns])]


def _are_in(table: pd.DataFrame, other: pd.DataFrame, columns: list[str]) -> npt.NDArray[np.bool_]:
    """Which lines have, in these columns, what a line of the other table has."""
    here, there = (pd.MultiIndex.from_frame(each[columns]) for each in (table, other))
    return here.isin(there)


# -- their order -----------------------------------------------------------------------------------

ROUNDING = 1e-9
AT = (1.0, 2.0, 4.0, 8.0)
"""Lengths at which the extensions of a host are shown."""


@dataclass(frozen=True)
class Pool:
    """Runs that one model is fitted to."""

    runs: pd.DataFrame  # of one protocol and class
    fitted: AdditiveFit | None  # to areas and to scores at lengths; None where nothing was learned

    @classmethod
    def of(
        cls,
        runs: pd.DataFrame,
        measured: MeasuredRuns,
        longest: float = LONGEST,
        draws: int = DRAWS,
        seed: int = 0,
    ) -> Pool:
        once = runs.drop_duplicates(["row", "task", "seed"])
        return cls(once, standings.fit(*measured.with_scores(once, longest), draws, seed))


@dataclass(frozen=True)
class RankedRows:
    """The rows of one part and one class, which alone are compared with each other."""

    part: BoardPart  # its runs of this class
    kind: str
    summary: pd.DataFrame  # by row, best first: see `posbench.statistics.standings.standing`
    fitted: AdditiveFit | None  # None where no row has learned anything
    pool: pd.DataFrame  # the runs that the model is fitted to, these and others
    longest: float = LONGEST  # where areas end

    @classmethod
    def of(cls, part: BoardPart, kind: str, pool: Pool, longest: float = LONGEST) -> RankedRows:
        """The standing of a part in a pool that has its runs."""
        fitted = pool.fitted
        if fitted is not None and {*part.runs["row"]}.isdisjoint(fitted.rows):
            fitted = None
        return cls(part, kind, standings.standing(part.runs, fitted), fitted, pool.runs, longest)

    @property
    def placed(self) -> list[str]:
        """The rows that have learned two thirds of the tasks, best first."""
        return [str(row) for row in self.summary.index[self.summary["placed"]]]

    @property
    def known(self) -> list[str]:
        """The rows that have a number: those, and behind them the others."""
        return [str(row) for row in self.summary.index[self.summary["reaches"].notna()]]

    def is_measured(self, row: str) -> bool:
        """Whether a row has learned more than one task, or the only one. The number of another is
        mostly what the model makes of the rows beside it.
        """
        return int(self.summary.loc[row, "tasks"]) >= min(2, len(self.tasks))

    def short_name(self, row: str) -> str:
        """Without the pretrained model behind an @ and the settings that all rows have."""
        return dict(zip(self.known, short_names(self.known), strict=True)).get(row, row)

    @property
    def tasks(self) -> list[str]:
        """The tasks that a row was run on, as the board orders them."""
        return list(dict.fromkeys(self.part.runs["task_name"]))

    @property
    def lengths(self) -> list[float]:
        """The multiples at which the model is fitted."""
        names = () if self.fitted is None else self.fitted.measures
        return [float(name[:-1]) for name in names if name != "area"]

    def number_at(self, multiple: float) -> pd.Series:
        """By row, the number at one length."""
        assert self.fitted is not None
        return self.fitted.number(f"{multiple:g}x").reindex(self.summary.index)

    def at(self, multiple: float) -> pd.DataFrame:
        """By row, the number at one length with its interval; see `AdditiveFit.table`."""
        assert self.fitted is not None
        return self.fitted.table(f"{multiple:g}x").reindex(self.summary.index)

    @functools.cached_property
    def first_without(self) -> dict[str, str]:
        """The first row where one of the tasks, or one of the seeds, is left out: by what is left
        out, as in "copy" or "seed 10". None where there are fewer than two of them. A task with
        one seed keeps it, and a seed without which most rows would lack tasks is not left out. Of
        rows that are exactly equal, the first of all is first.
        """
        found = {}
        cells = self.part.runs.groupby(["row", "task"]).ngroups
        seeds = self.part.runs.groupby("task_name")["seed"].nunique()
        once = set(seeds.index[seeds == 1])
        for column, named in (("task_name", "{}"), ("seed", "seed {}")):
            values = list(dict.fromkeys(self.part.runs[column]))
            kept = once if column == "seed" else set()
            for value in values if len(values) > 1 else ():
                runs, pool = (
                    each[(each[column] != value) | each["task_name"].isin(kept)]
                    for each in (self.part.runs, self.pool)
                )
                if column == "seed" and runs.groupby(["row", "task"]).ngroups < MOST * cells:
                    continue
                summary = standings.ordered(runs, standings.fit(pool))
                if summary["placed"].any():
                    best = summary.index[summary["placed"] & _equal(summary["reaches"])]
                    found[named.format(value)] = next(iter(set(self.placed[:1]) & {*best}), best[0])
        return found

    def cells(self) -> pd.DataFrame:
        """Mean area of the trainings that learned, [row, task]; NaN where none has."""
        known = pd.DataFrame() if self.fitted is None else self.fitted.cell_means()
        names = self.part.runs.drop_duplicates("task").set_index("task")["task_name"]
        named = known.reindex(index=self.summary.index, columns=list(names.index))
        return named.rename(columns=names)[self.tasks]


def _equal(numbers: pd.Series) -> pd.Series:
    """Which numbers are as high as the first, up to rounding."""
    return (numbers.iloc[0] - numbers).abs() < ROUNDING


def standings_of(board: Board, measured: MeasuredRuns) -> list[RankedRows]:
    """Every part of the board, class by class; none if no run is there.

    The model is fitted to all rows of a protocol and class together that are asked for the same
    tasks, so that a row has the same number in these sections; but the extensions of one host,
    which share trainings, by themselves.
    """
    places = {task: place for place, task in enumerate(board.all_tasks)}
    sections: list[tuple[BoardPart, str]] = []
    for part in parts(board, measured):
        for kind in sorted(set(part.runs["class"]), key=zero_shot_first):
            mine = part.runs[part.runs["class"] == kind]
            runs = mine.sort_values("task", key=lambda names: names.map(places), kind="stable")
            sections.append((replace(part, title=_titled(part, kind), runs=runs), kind))

    def pool(part: BoardPart, kind: str) -> Hashable:
        alone = part.title if part.is_of_a_host else ""
        return kind, part.protocol, frozenset(part.asked(board)), alone

    pooled: dict[Hashable, list[pd.DataFrame]] = {}
    for part, kind in sections:
        pooled.setdefault(pool(part, kind), []).append(part.runs)
    judged = board.judged
    pools = {
        key: Pool.of(pd.concat(each), measured, draws=judged.draws, seed=judged.seed)
        for key, each in pooled.items()
    }
    return [RankedRows.of(part, kind, pools[pool(part, kind)]) for part, kind in sections]


def _titled(part: BoardPart, kind: str) -> str:
    title = part.title[0].upper() + part.title[1:]
    return title if part.runs["class"].nunique() == 1 else f"{title}: {kind}"


def standings_without_board(measured: MeasuredRuns) -> list[RankedRows]:
    """Standings of runs that the board has not asked for, by protocol and class.

    Where areas to 8x cannot be had, they end at the longest length that all tasks have.
    """
    found = []
    known = measured.lengths[~measured.lengths["task_changed"]]  # a changed task has its own table
    kept = measured.runs[_are_in(measured.runs, known, SHOWN[:2])]
    for protocol, of_protocol in kept.groupby("protocol_name", sort=True):
        # Two versions of a task are two tasks.
        runs = of_protocol.assign(task=of_protocol["task_name"], learned=of_protocol["trained"])
        runs = runs.assign(passes=of_protocol["learned"])
        longest = LONGEST
        if runs["area"].isna().all():
            runs, longest = _to_common_length(runs, known[known["protocol_name"] == protocol])
        for kind in sorted(set(runs["class"]), key=zero_shot_first):
            part = BoardPart.of_runs(f"{kind}, protocol {protocol}", runs[runs["class"] == kind])
            found.append(RankedRows.of(part, kind, Pool.of(part.runs, measured, longest), longest))
    return found


def standings_beside(asked: Sequence[RankedRows], measured: MeasuredRuns) -> list[RankedRows]:
    """Standings of rows that a board has not asked for, or not on a task, as those of the user:
    among all rows of their protocol and class, on these tasks.
    """
    runs = measured.runs
    known = pd.concat([runs[:0], *(each.part.runs for each in asked)])
    others = runs[~_are_in(runs, known, SHOWN[:3])]
    wanted = _are_in(runs, others, ["protocol_name", "class", "task_name"])
    return standings_without_board(replace(measured, runs=runs[wanted]))


def _to_common_length(runs: pd.DataFrame, known: pd.DataFrame) -> tuple[pd.DataFrame, float]:
    """Runs with areas to the longest multiple that all tasks have, and that multiple.

    Each area ends at the length of its task nearest to the multiple. That may be far from it:
    protocols of early records asked for multiples of n, and not of positions.
    """
    known = known[known["aggregated"] & (known["multiple"] >= 1)]
    each = [set(part) for _, part in known.groupby("task_name")["multiple"]]
    common = sorted(set.intersection(*each)) if each else []
    if len(common) < 2:
        return runs, common[0] if common else 1.0
    longest = float(common[-1])
    last = known[known["multiple"] == longest].groupby("task_name")["true_multiple"].max()
    measured = pd.concat(of_runs(part, last[task]) for task, part in known.groupby("task_name"))
    areas = measured.set_index(SHOWN)["area"].reindex(pd.MultiIndex.from_frame(runs[SHOWN]))
    return runs.assign(area=areas.to_numpy()), longest
