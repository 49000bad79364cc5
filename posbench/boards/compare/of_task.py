"""Where a task of one's own stands: whether it tells encodings apart, and what it says anew."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from posbench.base.disk import write_whole
from posbench.base.errors import PosbenchError
from posbench.base.wording import counted
from posbench.boards.compare.subject import (
    USUAL_SEEDS,
    folder_of,
    of_file,
    offered_seeds,
    one_protocol,
    refuse_several,
    some_of,
)
from posbench.boards.ranking import span
from posbench.config.board import Board
from posbench.config.folders import names
from posbench.config.words import Word, is_file
from posbench.records import tables
from posbench.records.record import Record
from posbench.showing.table import Line, Table, number, paragraph, plain
from posbench.statistics import aggregates, standings
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
        return cls(
            task,
            tuple(
                some_of("method", asked.get("method", board.references), names("method", [folder]))
            ),
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
    summary: pd.DataFrame  # one line a row, best first: see `posbench.statistics.standings`
    base: pd.Series  # corrected score at 1x, by row
    known: pd.DataFrame  # published numbers of these rows: "overall", and one column a group
    agreement: pd.Series  # rank correlation (Spearman) with each column of `known`

    @classmethod
    def of(cls, own: Sequence[Record], published: Sequence[Record], board: Board) -> TaskStanding:
        judged = board.judged
        task = own[0].task.label
        runs = of_runs(tables.table(list(own))).dropna(subset="area")
        runs = runs.assign(group=task, shown=task)
        if runs["row"].nunique() < 2:
            raise PosbenchError(
                f"{task} has areas of {counted(runs['row'].nunique(), 'row')}, and two are the "
                "least that can be compared: let more of its runs complete"
            )
        summary, _ = standings.standing(runs, judged.draws, judged.seed)
        known = _published(published, board, own[0].protocol.hash)
        known = known.reindex(summary.index).dropna()
        agreed = {name: rank_correlation(known[name], summary["overall"]) for name in known}
        return cls(
            task,
            summary,
            runs.groupby("row")["in_distribution"].mean(),
            known,
            pd.Series(agreed, dtype=float).dropna(),
        )


def _published(found: Sequence[Record], board: Board, protocol: str) -> pd.DataFrame:
    """Overall and group numbers of rows that have every task of the board, by row."""
    tasks, nothing = board.group_of, pd.DataFrame(columns=["overall", *board.groups])
    if not tasks:  # a panel has no groups, and so no numbers to agree with
        return nothing
    known = [
        record
        for record in found
        if record.plain and record.task.label in tasks and record.protocol.hash == protocol
    ]
    runs = of_runs(tables.table(known)).dropna(subset="area")
    if runs["task"].nunique() < len(tasks):
        return nothing
    means = aggregates.group_means(runs.assign(group=runs["task"].map(tasks)))
    return pd.concat([means.mean(axis=1, skipna=False).rename("overall"), means], axis=1)


def sentences(found: TaskStanding, board: Board) -> Iterator[str]:
    """Whether the task is learned, whether it tells rows apart, and what it agrees with."""
    summary = found.summary
    areas, learned = summary["overall"], summary["learned"]
    best, worst = str(areas.index[0]), str(areas.index[-1])
    yield (
        f"{found.task}: {(learned > 0).sum()} of {counted(len(summary), 'row')} learn it; areas "
        f"from {number(areas[worst])} ({worst}) to {number(areas[best])} ({best})."
    )
    if not (learned > 0).any():
        yield (
            "No row learns it at the length of training, so it says nothing about longer ones: "
            "train for more steps (training.steps), or make the task easier."
        )
    elif areas[best] - areas[worst] < 2 * board.judged.equivalent:
        yield "It does not tell these rows apart."
    elif (summary["seeds_rank_low"] <= summary["seeds_rank_high"].iloc[0]).all():
        yield "Seeds vary so much that it does not tell these rows apart: run more of them."
    if len(found.agreement) and len(found.known) >= FEW:
        said = ", ".join(f"{name} {number(value)}" for name, value in found.agreement.items())
        yield (
            f"Rank correlation of these areas with the numbers of board {board.name}, over "
            f"{len(found.known)} rows: {said}. A task that agrees with none says something new, or "
            "nothing; one that agrees with a group wholly says it again."
        )


def table(found: TaskStanding) -> Table:
    rows = []
    for row, line in found.summary.iterrows():
        overall = found.known["overall"].get(row, float("nan"))
        cells = [
            number(line["overall"]),
            span(found.summary, str(row), "seeds"),
            number(found.base[row]),
            f"{100 * line['learned']:.0f} %",
            number(overall),
        ]
        rows.append(Line(str(row), cells))
    return Table.of(["row", "1x to 8x", "95 %", "1x", "solved", "on the board"], rows)


def text(found: TaskStanding, board: Board, notes: Sequence[str]) -> str:
    lines = [*sentences(found, board), "", *table(found).aligned()]
    return "\n".join([*lines, *([""] if notes else []), *(f"Note: {note}" for note in notes)])


def write(found: TaskStanding, board: Board, notes: Sequence[str], folder: Path) -> Path:
    """The report in Markdown."""
    parts = [
        f"# {plain(found.task)}",
        "\n".join(f"- {paragraph(each)}" for each in sentences(found, board)),
        "\n".join(table(found).pipes),
        "1x to 8x: the area under the score on a logarithmic axis, corrected for guessing.",
        *(f"> {paragraph(note)}" for note in notes),
    ]
    path = folder / f"task_{found.task}.md"
    write_whole(path, "\n\n".join(parts) + "\n")
    return path


def remarks(planned: SweepPlan, seeds: Sequence[int], again: str) -> Iterator[str]:
    """What few seeds are worth, and what is missing; `again` says how that is made."""
    if len(seeds) < USUAL_SEEDS:
        yield "Intervals need several seeds; three are the least."
    if planned.runs:
        yield f"{counted(len(planned.runs), 'run')} missing: {again}."
