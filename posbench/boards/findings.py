"""What a board has found, in sentences: every one is a comparison, with its interval.

- **First** is the row with the largest number, and which rows are not told apart from it is decided
  in `leaders`. A number is that of a group, or of one length, as the board has it.
- **Over all groups** the board's own rule names a winner or none.
- **Extensions** are compared on each host by their mean over groups at 2x, 4x and 8x, and with the
  host as it was trained.
- **Size**: Spearman's rank correlation of overall numbers on the same tasks, with its interval over
  draws of the seeds of both models.
- **Cost**: CPU seconds of a training, of the cheapest row that is not told apart from the first.
- **Learning**: at 8x extensions are compared once more on the tasks that every training of their
  host has learned.
- What no row has learned, what has too few seeds, and what was not run at all is said as well.

Most of these rules were written before the first run of the main board; results/main/measured.md
says which came after it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

import numpy as np
import pandas as pd

from posbench.base.wording import agreeing, counted
from posbench.boards.measured import SHOWN, Measured
from posbench.boards.ranking import Ranked
from posbench.boards.sections import MADE
from posbench.boards.winners import SURE, Leaders, overall
from posbench.config.board import AS_TRAINED, Board
from posbench.showing.table import code, number
from posbench.statistics import aggregates, bootstrap
from posbench.statistics.correlation import RankCorrelation
from posbench.statistics.measures import corrected_lines

FILE = "findings.md"
LENGTHS = (2.0, 4.0, 8.0)


def markdown(board: Board, measured: Measured, found: Sequence[Ranked]) -> str:
    """The findings, part by part; "" where no two rows can be compared."""
    sections = [
        ("Which encoding", list(_encodings(board, found))),
        ("Which extension", list(_extensions(board, measured, found))),
        ("What size and cost say", [*_size(board, found), *_cost(board, found)]),
        ("What is not known", list(_unknown(board, found))),
    ]
    if not any(sentences for _, sentences in sections[:2]):
        return ""
    lines = [
        "# Findings",
        "",
        "Each sentence is a comparison on the tasks of this board, with its 95 % interval over "
        f"seeds where there are {aggregates.FEWEST} or more. Two rows are told apart if one leads "
        f"by at least {number(board.judged.equivalent)} in {100 * SURE:.0f} % of the draws of "
        "seeds.",
    ]
    for title, sentences in sections:
        if sentences:
            lines += ["", f"## {title}", "", *(f"- {sentence}" for sentence in sentences)]
    return "\n".join([*lines, "", MADE, ""])


def _encodings(board: Board, found: Sequence[Ranked]) -> Iterator[str]:
    """Who is first in each group of the board's first part, and in all of them."""
    first = next(iter(found), None)
    if first is None or not _comparable(first):
        return
    runs = first.part.whole(board)
    for group in dict.fromkeys(runs["group"]):
        # A row that lacks a task of another group is as good here as any.
        here = runs[runs["group"] == group]
        leaders = Leaders.of(_whole(here, sorted(set(here["task"]))), board)
        asks, failed = board.groups[group].asks, _not_learned(here, leaders.peers)
        yield f"{group.capitalize()} ({asks}): {leaders}{failed}. {_link(first)}"
    for sentence in overall(board, first.part, first.complete):
        yield f"{sentence} {_link(first)}"


def _not_learned(runs: pd.DataFrame, rows: Sequence[str]) -> str:
    """The tasks that most trainings of these rows have not learned."""
    learned = runs.groupby(["row", "task"])["learned"]
    few = [
        f"{code(row)} learned {task} in {each.sum()} of {len(each)} trainings"
        for (row, task), each in learned
        if row in rows and each.mean() < 0.5
    ]
    return "".join(f"; {said}" for said in few)


def _extensions(board: Board, measured: Measured, found: Sequence[Ranked]) -> Iterator[str]:
    """Which extension is first at each length, on each host, and what the host does alone."""
    for standing in found:
        rows = standing.part.rows
        if len(rows.encodings) != 1 or len(rows.extensions) < 3 or not _comparable(standing):
            continue
        if standing.part.lacking(board):
            continue
        (host,) = rows.encodings
        for multiple in LENGTHS:
            runs = at_length(_complete(standing), measured, multiple)
            if runs["row"].nunique() < 2:
                continue
            leaders = Leaders.of(runs, board)
            alone = ""
            if AS_TRAINED in rows.extensions and host in leaders.estimates.index:
                alone = f"; as it was trained, {code(host)} is at {number(leaders.estimates[host])}"
                if leaders.certain and host not in leaders.peers:
                    alone += f", {leaders.above(host)} below {code(leaders.first)}"
            where = f"At {multiple:g}x, on {code(host)} ({standing.kind})"
            yield f"{where}: {leaders}{alone}. {_link(standing)}"
        yield from _where_the_host_learned(board, measured, standing, host)
        reaches = {row: standing.reach(row) for row in standing.complete}
        far = max(reaches, key=lambda row: np.nan_to_num(reaches[row].low))
        if reaches[far].low >= 1:
            over = "" if reaches[far].low == reaches[far].high else "more than "
            yield (
                f"The furthest on {code(host)} ({standing.kind}): {code(far)} scores "
                f"{number(board.judged.reach)} or more up to {over}{reaches[far].low:.3g}x, the "
                "median over tasks and seeds, in which every task counts the same"
                f"{_tasks_held(standing, measured, far, board)}. {_link(standing)}"
            )


def _where_the_host_learned(
    board: Board, measured: Measured, standing: Ranked, host: str
) -> Iterator[str]:
    """The longest of these lengths again, without what an extension cannot be blamed for."""
    runs = _complete(standing)
    whole = runs[runs["row"] == host].groupby("task")["learned"].all()
    learned = list(whole.index[whole])
    if not learned or len(learned) == len(whole):
        return
    kept = at_length(runs[runs["task"].isin(learned)], measured, LENGTHS[-1])
    if kept["row"].nunique() > 1:
        yield (
            f"At {LENGTHS[-1]:g}x, on the {counted(len(learned), 'task')} that every training of "
            f"{code(host)} has learned: {Leaders.of(kept, board)}. {_link(standing)}"
        )


def _tasks_held(standing: Ranked, measured: Measured, row: str, board: Board) -> str:
    """On how many tasks a row still has that score: a median hides that there are few."""
    longest = LENGTHS[-1]
    runs = at_length(_complete(standing), measured, longest)
    means = runs[runs["row"] == row].groupby("task")["area"].mean()
    held = int((means >= board.judged.reach).sum())
    return f"; at {longest:g}x it does so on {held} of {counted(len(means), 'task')}"


def at_length(runs: pd.DataFrame, measured: Measured, multiple: float) -> pd.DataFrame:
    """The same runs with the corrected score at one multiple, not below 0, in place of the area."""
    known = measured.lengths[measured.lengths["multiple"] == multiple]
    index = pd.MultiIndex.from_frame(known[SHOWN])
    by_run = pd.Series(corrected_lines(known).clip(min=0.0), index)
    mine = pd.MultiIndex.from_frame(runs[SHOWN])
    found = runs.assign(area=by_run[~by_run.index.duplicated(keep="last")].reindex(mine).to_numpy())
    whole = found.groupby("row")["area"].transform(lambda areas: areas.notna().all())
    return found[whole.astype(bool)]


def _size(board: Board, found: Sequence[Ranked]) -> Iterator[str]:
    """How the order in a part with another protocol agrees with that of the first part."""
    for standing in found[1:]:
        protocol = standing.part.rows.protocol
        if not protocol or not _comparable(standing) or not _comparable(found[0]):
            continue
        other, tasks = _complete(standing), standing.part.rows.tasks or board.all_tasks
        here = found[0].part.runs
        here = here[here["task"].isin(tasks)]
        rows = sorted(set(other["row"]) & set(_whole(here, tasks)["row"]))
        if len(rows) < 3 or standing.part.lacking(board):
            continue
        sides = [runs[runs["row"].isin(rows)] for runs in (_whole(here, tasks), other)]
        if not all(map(aggregates.repeated, sides)):
            continue
        judged = board.judged
        one, two = (bootstrap.given_tasks(runs, judged.draws, judged.seed) for runs in sides)
        agreed = RankCorrelation.of(one, two)
        yield (
            f"Under protocol {protocol} the order of {len(rows)} rows on "
            f"{counted(len(tasks), 'task')} has a rank correlation of {number(agreed.value)} "
            f"(95 % {number(agreed.low)} to {number(agreed.high)}) with that under "
            f"{board.protocol}. {_link(standing)}"
        )


def _cost(board: Board, found: Sequence[Ranked]) -> Iterator[str]:
    first = next(iter(found), None)
    if first is None or not _comparable(first):
        return
    leaders, cost = Leaders.of(_complete(first), board), first.part.cost
    if not leaders.certain:
        return
    cheap = min(leaders.peers, key=lambda row: cost[row])
    usual = cost[leaders.estimates.index].median()
    among = "the cheapest of the rows not told apart from the first"
    yield (
        f"{code(cheap)}, {among if len(leaders.peers) > 1 else 'the first'}, takes "
        f"{cost[cheap]:.0f} CPU s a training, where the median row takes {usual:.0f}. "
        f"{_link(first)}"
    )


def _unknown(board: Board, found: Sequence[Ranked]) -> Iterator[str]:
    for standing in found[:1]:
        runs = standing.part.runs
        if lacking := standing.part.lacking(board):
            yield (
                f"Too few of the rows of {_link(standing)} have been run on {', '.join(lacking)}."
            )
        if rest := len(standing.summary) - len(standing.complete):
            have = agreeing(rest, "has", "have")
            yield (
                f"{counted(rest, 'row')} of {_link(standing)} {have} not been run on all of the "
                "other tasks."
            )
        learned = runs.groupby("task")["learned"].mean()
        if never := list(learned.index[learned == 0]):
            yield (
                f"No row of {_link(standing)} has learned {', '.join(never)} at the training "
                "length, so that its numbers say little."
            )
        half = [task for task in learned.index if 0 < learned[task] < 0.5]
        if half:
            yield (
                f"Fewer than half of the runs of {_link(standing)} have learned {', '.join(half)} "
                "at the training length: what stands there is as much about learning as about "
                "reach."
            )
        seeds = runs.groupby(["task", "row"]).size().groupby("task").min()
        if few := [task for task in dict.fromkeys(runs["task"]) if seeds[task] < aggregates.FEWEST]:
            on, there = ("", "") if len(few) == len(seeds) else (f" on {', '.join(few)}", " there")
            yield (
                f"Some rows of {_link(standing)} have fewer than {aggregates.FEWEST} seeds{on}, so "
                f"no interval says how much of their scores{there} is luck."
            )
    for standing in found:
        yield from _hosts_that_did_not_learn(standing)
    known = [standing.part.rows for standing in found]
    if missing := [f"“{title}”" for title, rows in board.parts.items() if rows not in known]:
        yield f"No row has been run of these parts of the board: {', '.join(missing)}."


def _hosts_that_did_not_learn(standing: Ranked) -> Iterator[str]:
    """Extensions cannot do what their host has not learned, however they are ranked."""
    rows = standing.part.rows
    if len(rows.encodings) != 1 or AS_TRAINED not in rows.extensions:
        return
    (host,) = rows.encodings
    runs = standing.part.runs
    learned = runs[runs["row"] == host].groupby("task")["learned"]
    few = [f"{task} ({each.sum()} of {len(each)})" for task, each in learned if not each.all()]
    if few:
        yield (
            f"Not every training of {code(host)} has learned its task: {', '.join(few)}. There, "
            f"every row of {_link(standing)} includes trainings that did not learn."
        )


def _comparable(standing: Ranked) -> bool:
    return len(standing.complete) > 1


def _complete(standing: Ranked) -> pd.DataFrame:
    runs = standing.part.runs
    return runs[runs["row"].isin(standing.complete)]


def _whole(runs: pd.DataFrame, tasks: Sequence[str]) -> pd.DataFrame:
    """The runs of rows that have an area on all of these tasks."""
    known = runs.dropna(subset="area").groupby("row")["task"].nunique()
    return runs[runs["row"].isin(known.index[known == len(set(tasks))])]


def _link(standing: Ranked) -> str:
    anchor = re.sub(r"[^\w\- ]", "", standing.part.title.lower()).replace(" ", "-")
    return f"[{standing.part.title}](leaderboard.md#{anchor})"
