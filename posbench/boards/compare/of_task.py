"""A task of the user: whether rows learn it and differ on it, and what it says anew."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

from posbench.base.errors import PosbenchError
from posbench.base.wording import agreeing, counted
from posbench.boards.compare.subject import (
    USUAL_SEEDS,
    folder_of,
    of_file,
    offered_seeds,
    one_protocol,
    refuse_several,
    some_of,
)
from posbench.config.board import Board
from posbench.config.folders import names
from posbench.config.words import Word, is_file
from posbench.records import tables
from posbench.records.record import Record
from posbench.showing.pages import Chapter, Items, Page
from posbench.showing.table import Line, Table, number, span
from posbench.statistics import standings
from posbench.statistics.aggregates import Estimate
from posbench.statistics.correlation import rank_correlation
from posbench.statistics.measures import of_runs
from posbench.sweeping.plan import SweepPlan
from posbench.sweeping.requests import Request, Words

LISTED = ("method", "seed", "protocol")
"""What words may list several values of."""
FEW = 3
"""A rank correlation of fewer rows says nothing."""


@dataclass(frozen=True)
class TaskSubject:
    """A task, and the rows that are trained on it: those that the board refers to, unless others
    are named by `method=`.
    """

    task: str
    rows: tuple[str, ...]  # names of methods
    seeds: tuple[int, ...]
    protocol: str
    settings: Words  # of the runs: the task's, those of training, where results are kept
    launcher: Words
    folder: Path

    @classmethod
    def of(cls, words: Sequence[str], board: Board, *, quick: bool) -> TaskSubject | None:
        """None if no word is a path in a folder task/; PosbenchError says what is wrong with it, or
        with the other words.
        """
        paths = [word for word in words if is_file(word)]
        tasks = [word for word in paths if folder_of(word).name == "task"]
        if not tasks:
            return None
        if len(paths) > 1:
            raise PosbenchError(
                f"{' and '.join(paths)}: a task is compared by itself; name other rows than "
                f"{', '.join(board.references)} with method=NAME,NAME"
            )
        _, task, folder = of_file(Path(tasks[0]), ("task",))
        others = [Word.of(word) for word in words if word not in paths]
        asked = {word.key: word.values([folder]) for word in others if word.key in LISTED}
        rest = [word for word in others if word.key not in LISTED]
        refuse_several(rest, "all rows have the same settings")
        for word in rest:
            if word.key in ("encoding", "extension"):
                raise PosbenchError(
                    f"{word.text}: all rows would have it, so leave it out: method=NAME,NAME names "
                    "the rows that are compared"
                )
        rows = some_of("method", asked.get("method", board.references), names("method", [folder]))
        if len(rows) < 2:
            named = f"{', '.join(rows)} alone is" if rows else "no row is"
            raise PosbenchError(
                f"{named} to be trained on {task}, and two are the least that can be compared: "
                "name more with method=NAME,NAME"
            )
        return cls(
            task,
            tuple(rows),
            offered_seeds(board, asked.get("seed"), 1 if quick else USUAL_SEEDS),
            one_protocol(asked, board),
            tuple(word.text for word in rest if not word.key.startswith("hydra")),
            tuple(word.text for word in rest if word.key.startswith("hydra")),
            folder,
        )

    @property
    def command(self) -> list[str]:
        """The words of the sweep that makes the runs: seeds outermost."""
        return [
            *("--config-dir", str(self.folder), "-m"),
            *(f"protocol={self.protocol}", f"seed={','.join(map(str, self.seeds))}"),
            *(f"method={','.join(self.rows)}", f"task={self.task}"),
            *self.settings,
            *self.launcher,
        ]

    @property
    def runs(self) -> Request:
        """The runs of all rows and seeds, each with its words."""
        return Request(
            [
                (
                    *(f"protocol={self.protocol}", f"task={self.task}"),
                    *(f"method={row}", f"seed={seed}"),
                    *self.settings,
                )
                for seed in self.seeds
                for row in self.rows
            ]
        )


@dataclass(frozen=True)
class TaskStanding:
    """How rows do on a task, and how that agrees with a board."""

    task: str
    # One line a row, furthest first: share `learned`, corrected score `at_1x`; and of the trainings
    # that learned the area `reaches`, with `low` and `high` (95 % over seeds).
    summary: pd.DataFrame
    known: pd.Series  # the published numbers of these rows
    agreement: float  # rank correlation (Spearman) with those

    @classmethod
    def of(cls, own: Sequence[Record], published: Sequence[Record], board: Board) -> TaskStanding:
        task = own[0].task.label
        runs = of_runs(tables.table(list(own))).dropna(subset="area")
        if runs["row"].nunique() < 2:
            raise PosbenchError(
                f"{task} has areas of {counted(runs['row'].nunique(), 'row')}, and two are the "
                "least that can be compared: let more of its runs complete"
            )
        lines = {}
        for row, each in runs.groupby("row"):
            estimate = Estimate.over(each.loc[each["trained"], "area"])
            lines[row] = {
                "learned": each["trained"].mean(),
                "at_1x": each["in_distribution"].mean(),
                "reaches": estimate.mean,
                "low": float(np.clip(estimate.mean - estimate.half_width, 0, 1)),
                "high": float(np.clip(estimate.mean + estimate.half_width, 0, 1)),
            }
        summary = pd.DataFrame.from_dict(lines, orient="index")
        summary = summary.sort_values("reaches", ascending=False, kind="stable")
        known = _published(published, board, own[0].protocol.hash).reindex(summary.index).dropna()
        reaches = summary["reaches"].reindex(known.index).dropna()  # what has learned it
        known = known.reindex(reaches.index)
        agreement = rank_correlation(known, reaches)
        return cls(task, summary, known, agreement)


def _published(found: Sequence[Record], board: Board, protocol: str) -> pd.Series:
    """The numbers of the rows of a board as it ranks them, by row."""
    known = [
        record
        for record in found
        if record.plain
        and record.task.label in board.all_tasks
        and record.protocol.hash == protocol
    ]
    runs = of_runs(tables.table(known)).dropna(subset="area") if known else pd.DataFrame()
    if runs.empty or runs["task"].nunique() < len(board.all_tasks):
        return pd.Series(dtype=float)
    runs = runs.assign(learned=runs["trained"])
    summary = standings.ordered(runs, standings.fit(runs))
    return summary.loc[summary["placed"].astype(bool), "reaches"]


def sentences(found: TaskStanding, board: Board) -> Iterator[str]:
    """Whether the task is learned, whether rows differ on it, and what it agrees with."""
    summary = found.summary
    some = summary[summary["learned"] > 0]
    said = f"{found.task}: {len(some)} of {counted(len(summary), 'row')} learn it"
    if some.empty:
        yield f"{said}."
        yield (
            "No row learns it at the length of training, so it says nothing about longer ones: "
            "train for more steps (training.steps), or make the task easier."
        )
        return
    best, worst = some.iloc[0], some.iloc[-1]
    yield (
        f"{said}; of what was learned, areas go from {number(worst['reaches'])} "
        f"({some.index[-1]}) to {number(best['reaches'])} ({some.index[0]})."
    )
    below = [str(row) for row, line in some.iterrows() if line["high"] < best["low"]]
    if best["reaches"] - worst["reaches"] < 2 * board.judged.equivalent:
        yield "It does not show these rows to differ."
    elif below:
        yield (
            f"It separates rows: the interval of {some.index[0]} is above "
            f"{agreeing(len(below), 'that', 'those')} of {', '.join(below)}."
        )
    elif math.isnan(best["low"]) or some["low"].notna().sum() < 2:
        yield "Without intervals it does not show these rows to differ: run more seeds."
    else:
        yield "Seeds vary so much that it does not show these rows to differ: run more of them."
    if len(found.known) >= FEW and not math.isnan(found.agreement):
        yield (
            f"Rank correlation of these areas with the numbers of board {board.name}, over "
            f"{len(found.known)} rows: {number(found.agreement)}. The closer to 1, the less the "
            "task adds to that board."
        )


def table(found: TaskStanding) -> Table:
    rows = []
    for row, line in found.summary.iterrows():
        cells = [
            f"{100 * line['learned']:.0f} %",
            number(line["at_1x"]),
            number(line["reaches"]),
            span(line["low"], line["high"]),
            number(found.known.get(row, float("nan"))),
        ]
        rows.append(Line(str(row), cells))
    return Table.of(["row", "learned", "1x", "reaches", "95 %", "on the board"], rows)


def text(found: TaskStanding, board: Board, notes: Sequence[str]) -> str:
    lines = [*sentences(found, board), "", *table(found).aligned()]
    return "\n".join([*lines, *([""] if notes else []), *(f"Note: {note}" for note in notes)])


def page(found: TaskStanding, board: Board, notes: Sequence[str]) -> Page:
    """The report, for Markdown."""
    parts = [Chapter("", [table(found), REACHES])]
    return Page(found.task, parts, [], lead=[Items(list(sentences(found, board)))], notes=notes)


REACHES = (
    "reaches: the area under the score from 1x to 8x on a logarithmic axis, corrected for "
    "blind guessing, of the trainings that learned."
)


def remarks(planned: SweepPlan, seeds: Sequence[int], again: str) -> Iterator[str]:
    """What few seeds are worth, and what is missing; `again` says how that is made."""
    if len(seeds) < USUAL_SEEDS:
        yield "Intervals need several seeds; three are the least."
    if planned.runs:
        yield f"{counted(len(planned.runs), 'run')} missing: {again}."
