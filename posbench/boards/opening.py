"""What opens a page: what was measured on what, and the map.

The map has rows by tasks, coloured by how far what was learned reaches; hatched what was not. A
README shows it as well. In a page it takes its colours from there; it needs neither
a script nor matplotlib, whose versions draw the same picture with other bytes.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.resources import files

import numpy as np

from posbench.base.wording import counted
from posbench.boards.measured_runs import MeasuredRuns
from posbench.boards.ranking import RankedRows
from posbench.showing.pages import Picture, rendered
from posbench.showing.table import number, short_names
from posbench.statistics.aggregates import is_pretrained

FILE = "opening.svg"
MOST = 40
"""Rows that are drawn: the first, and our own."""
CELL, LINE = 50, 18
"""Pixels of a cell."""
LEFT, TOP = 214, 108
"""Pixels of names of rows, or more where one is longer, and of tasks, which are turned."""
NAMES = 60
"""Characters of a name that are shown."""
TURN = math.radians(38)
"""By which the names of tasks are turned."""
LETTER = 7
"""Pixels of a letter, at most on average."""
GAP = 14
"""Pixels between the table and the rows below it."""


@dataclass(frozen=True)
class Square:
    """A cell of the map, in pixels."""

    x: int
    y: int
    look: str  # "" with a number, else "not" or "none"
    opacity: str
    text: str


def picture(standing: RankedRows, own: str = "", file: str = "") -> Picture | None:
    """The map of a section; None where nothing was learned. One that is a file by itself has its
    colours with it.
    """
    rows = standing.known[:MOST]
    rows += [own] * (own in standing.summary.index and own not in rows)
    if not rows:
        return None
    cells, run = standing.cells(), standing.part.runs.groupby("row")["task_name"].agg(set)
    label = caption(standing)
    y, names = TOP, []
    drawn_as = [
        name if len(name) <= NAMES else f"{name[: NAMES - 1]}…" for name in drawn_names(rows)
    ]
    left = max(LEFT, LETTER * max(map(len, drawn_as)) + 18)
    middles = [left + 40 + place * CELL + CELL // 2 for place in range(len(standing.tasks))]
    turned = [LETTER * len(task) for task in standing.tasks]
    ends = [x + long * math.cos(TURN) for x, long in zip(middles, turned, strict=True)]
    squares: list[Square] = []
    placed = set(standing.placed)
    for row, name in zip(rows, drawn_as, strict=True):
        if squares and row not in placed and rows[rows.index(row) - 1] in placed:
            y += GAP
        reaches = standing.summary.loc[row, "reaches"] if standing.is_measured(row) else np.nan
        names.append((name, y, "" if np.isnan(reaches) else number(reaches), row == own))
        for place, task in enumerate(standing.tasks):
            value = float(cells.loc[row, task])
            known = not np.isnan(value)
            look = "" if known else "not" if task in run[row] else "none"
            opacity = f"{0.06 + 0.94 * min(max(value, 0.0), 1.0):.2f}" if known else ""
            text = number(value) if known else ""
            x = left + 40 + place * CELL
            squares.append(Square(x, y, look, opacity, text))
        y += LINE
    drawn = rendered(
        "posbench.boards",
        "opening.svg.j2",
        label=label,
        style=_style() if file else "",
        width=math.ceil(max(middles[-1] + CELL, *ends)),
        height=y + 4,
        cell=CELL - 1,
        line=LINE - 1,
        left=left,
        top=TOP,
        names=names,
        tasks=list(zip(standing.tasks, middles, strict=True)),
        squares=squares,
    )
    return Picture(drawn, label, file)


def measured_on(measured: MeasuredRuns, first: RankedRows) -> list[str]:
    """What was measured on what, and how a score is read: before any number."""
    runs, known = first.part.runs, measured.lengths
    of_runs = known[known["protocol_name"] == first.part.protocol]
    of_runs = of_runs[of_runs["task_name"].isin(first.tasks)]
    low, high = (int(of_runs["train_positions"].agg(end)) for end in ("min", "max"))
    positions = f"{low:,} positions"
    if low != high:
        positions = f"{low:,} to {high:,} positions, depending on the task"
    size = round(int(of_runs["parameters"].median()), -3)
    trained = is_pretrained(first.kind)
    model = "Each model is a small transformer of"
    if trained:
        models = sorted({row.partition("@")[2] for row in first.known} - {""})
        named = f" {models[0]}," if len(models) == 1 else ","
        model = f"Others trained the model{named} which has"
    unit, solve = ("sample", "are answered") if trained else ("training", "solve their task")
    made = runs.drop_duplicates(["task", "seed", "training"])  # some rows share it
    rows, tasks = counted(len(first.summary), "row"), counted(len(first.tasks), "task")
    farthest = float(of_runs["multiple"].max())
    more = f", of which areas count those up to {first.longest:g} times" * (
        farthest > first.longest
    )
    return [
        f"{model} about {size:,} parameters. Its longest training sequence has {positions}, and "
        f"its longest test {farthest:g} times as many{more}. “{first.part.title}” has {rows}, "
        f"{tasks} and {counted(len(made), unit)}.",
        f"“Learned” is the share of a row's {unit}s that {solve} at the training length. “Reaches” "
        f"says how far those go: the area under their score from 1x to {first.longest:g}x, where 1 "
        "is no error and 0 is a blind guess.",
    ]


def host_of(rows: Sequence[str]) -> str:
    """The encoding that all rows are, with an extension or without; "" of several."""
    hosts = {re.split(r"[+ ]", row)[0] for row in rows}
    return hosts.pop() if len(hosts) == 1 and len(rows) > 1 else ""


def drawn_names(rows: Sequence[str]) -> list[str]:
    """Names that fit: without a host that all have, and settings without their group."""
    host = host_of(rows)
    names = [row.removeprefix(host) or row for row in short_names(rows)]
    return [SHARE.sub(r"\1", GROUP.sub(r"\1", name)).strip() for name in names]


GROUP = re.compile(r"(\(|, )(?:encoding|extension)\.")
SHARE = re.compile(r"\$\{positions:([\d.]+)\}")
"""What YAML calls a share of the positions of training."""


def caption(standing: RankedRows) -> str:
    """What the map shows."""
    tasks = counted(len(standing.tasks), "task")
    rows = standing.known[:MOST]
    below = " Under the gap: rows with fewer than two thirds of the tasks run and learned." * (
        0 < len(standing.placed) < len(rows)
    )
    below += f" Drawn are the first {MOST} of {len(standing.known)} rows." * (
        len(rows) < len(standing.known)
    )
    host = f" All rows are of {host_of(rows)}, whose name is left out." * bool(host_of(rows))
    shares = " Settings are shares of the positions of training." * any(map(SHARE.search, rows))
    what, none = "trainings that learned", "training learned the task"
    if is_pretrained(standing.kind):
        what, none = "samples that were answered at 1x", "sample was"
    return (
        f"{standing.part.title}, {tasks}: the area from 1x to {standing.longest:g}x of the "
        f"{what}, 0 to 1. Hatched: no {none}. Empty: not run. "
        f"Beside the name: how far the row reaches over all tasks.{below}{host}{shares}"
    )


def _style() -> str:
    """What a picture by itself needs of the page's style: light and dark as there."""
    shared = files("posbench.showing") / "page.css"
    colours, _, _ = shared.read_text(encoding="utf-8").partition("* {")
    own = files("posbench.boards") / "opening.css"
    return colours + own.read_text(encoding="utf-8").strip()
