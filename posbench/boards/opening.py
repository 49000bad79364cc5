"""Score against length as a small SVG: the picture that a page opens with, and that of a
README.

In a page it takes its colours from there, and needs neither a script nor matplotlib, whose versions
draw the same curve with other bytes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files

import numpy as np
import pandas as pd

from posbench.base.wording import counted
from posbench.boards.measured import Measured, short_names
from posbench.boards.ranking import Ranked
from posbench.showing.pages import rendered

WIDTH, HEIGHT = 580, 300
LEFT, RIGHT, TOP, BOTTOM = 34, 192, 14, 34
LEADERS = 8
"""Curves: the first of each section, then the second of each, until there are so many; the last is
the encoding without an extension where all rows extend one.
"""
APART = 15
"""Pixels between two labels."""
NAMES = 28
"""Characters of a label, as many as fit into RIGHT."""
LOOKS = 10
"""Colours, each with its dashes: eight of the page, and two more of a picture by itself."""
RULES = ("svg text", "text", ".grid", ".curve", ".lead", ".band", ".c0", ".c4")
"""How lines of the page's style begin that a picture needs besides the colours at its top."""


def picture(
    measured: Measured, standings: Sequence[Ranked], own: str = "", *, alone: bool = False
) -> str:
    """The SVG, with the row `own` before the leaders; "" where no row has been run on all tasks.
    One that is `alone` has its colours with it.
    """
    same = alike(standings)
    if not same:
        return ""
    ranked = [
        row for place in range(LEADERS) for each in same for row in each.complete[place : place + 1]
    ]
    as_trained = plain(same[0])
    rows = list(dict.fromkeys([own, *ranked] if own else ranked))[: LEADERS - bool(as_trained)]
    if as_trained and as_trained not in rows:
        rows.append(as_trained)
    # A row is drawn from the runs of the section that ranks it; their tasks are the same.
    ranking = {row: each for each in reversed(same) for row in each.complete}
    means = {row: ranking[row].curve(row, measured).mean() for row in rows}
    curves = {row: curve for row, curve in means.items() if len(curve) > 1}
    label = "Mean score of the leaders against test length"
    return drawn(curves, label, alone=alone) if curves else ""


def plain(standing: Ranked) -> str:
    """The row without an extension that is drawn with the extensions of one encoding, or ""."""
    row = standing.part.as_trained if standing.part.is_of_a_host else ""
    return row if row in standing.complete else ""


def alike(standings: Sequence[Ranked]) -> list[Ranked]:
    """The sections that are ranked on the same tasks as the first of those with most tasks.

    A section that is under way is not drawn beside one that has all tasks: a mean over other tasks
    is another number. Nor are the extensions of one encoding drawn beside those of another, whose
    training is another. All of them are of the protocol of the first section.
    """
    if not standings:
        return []

    def on(standing: Ranked) -> tuple[str, frozenset[str]]:
        runs = standing.part.runs
        return str(runs["protocol_name"].iloc[0]), frozenset(runs["task_name"])

    protocol, _ = on(standings[0])
    found = [on(each) for each in standings if each.complete]
    of_protocol = [tasks for name, tasks in found if name == protocol]
    if not of_protocol:
        return []
    most = (protocol, max(of_protocol, key=len))
    same = [each for each in standings if on(each) == most]
    first = same[0].part
    return [
        each
        for each in same
        if not (first.is_of_a_host and each.part.is_of_a_host)
        or each.part.rows.encodings == first.rows.encodings
    ]


@dataclass(frozen=True)
class NamedCurve:
    """A curve with its name at its end, in pixels."""

    name: str  # as much of it as there is room for
    look: str
    points: str
    x: float
    y: float
    name_y: float


@dataclass(frozen=True)
class Frame:
    """Where multiples and scores stand, in pixels."""

    shortest: float
    longest: float

    def x(self, multiple: float) -> float:
        share = np.log2(multiple / self.shortest) / np.log2(self.longest / self.shortest)
        return float(LEFT + share * (WIDTH - LEFT - RIGHT))

    def y(self, score: float) -> float:
        return TOP + (1 - min(max(score, 0.0), 1.0)) * (HEIGHT - TOP - BOTTOM)

    def points(self, curve: pd.Series) -> str:
        """The line through scores by multiple, as a path has it after its first letter."""
        return "L".join(
            f"{self.x(float(multiple)):.1f} {self.y(float(score)):.1f}"
            for multiple, score in curve.items()
        )

    def band(self, curve: pd.Series, half: pd.Series) -> str:
        """The outline of half an interval above and below a curve."""
        return self.points(pd.concat([curve + half, (curve - half)[::-1]]))


def drawn(
    curves: Mapping[str, pd.Series],
    label: str,
    bands: Mapping[str, pd.Series] = {},
    *,
    alone: bool = False,
) -> str:
    """The SVG of scores by multiple of the training length, best at the end first.

    Args:
        curves: of each name, the score by multiple; at most LOOKS of them
        label: what is seen, for those who do not see it
        bands: of some names, half the width of its 95 % interval over seeds
        alone: with colours of its own, as a file
    """
    multiples = sorted({float(each) for curve in curves.values() for each in curve.index})
    frame = Frame(multiples[0], multiples[-1])
    looks = {row: f"c{place}" for place, row in enumerate(curves)}
    ends = sorted(curves, key=lambda row: -curves[row].iloc[-1])
    heights = [frame.y(float(curves[row].iloc[-1])) for row in ends]
    return rendered(
        "posbench.boards",
        "opening.svg.j2",
        label=label,
        style=_style() if alone else "",
        width=WIDTH,
        height=HEIGHT,
        left=LEFT,
        right=WIDTH - RIGHT,
        top=TOP,
        x=frame.x,
        y=frame.y,
        ticks=_ticks(multiples),
        banded=f"; {counted(len(bands), 'band')}: 95 % over seeds" if bands else "",
        bands=[(looks[row], frame.band(curves[row], half)) for row, half in bands.items()],
        curves=[
            NamedCurve(
                name=name if len(name) <= NAMES else f"{name[: NAMES - 1]}…",
                look=looks[row],
                points=frame.points(curves[row]),
                x=frame.x(float(curves[row].index[-1])),
                y=height,
                name_y=place,
            )
            for row, name, height, place in zip(
                ends, short_names(ends), heights, _apart(heights), strict=True
            )
        ],
    )


def _ticks(multiples: Sequence[float]) -> list[float]:
    """Powers of two, and the longest test unless it would stand too near to one."""
    *others, longest = multiples
    ticks = [multiple for multiple in others if np.log2(multiple) % 1 == 0]
    if ticks and np.log2(longest / ticks[-1]) < 0.5:
        return ticks
    return [*ticks, longest]


def _style() -> str:
    """What a picture by itself needs of the page's style: light and dark as there."""
    here, shared = files("posbench.boards"), files("posbench.showing") / "page.css"
    style, own = (
        (here / name).read_text(encoding="utf-8") for name in ("leaderboard.css", "opening.css")
    )
    colours, _, _ = shared.read_text(encoding="utf-8").partition("* {")
    rules = [line for line in style.splitlines() if line.startswith(RULES)]
    return colours + "\n".join([*rules, own.strip()])


def _apart(wanted: Sequence[float]) -> list[float]:
    """The places of labels, in order from above, none nearer to the next than they can be read."""
    found: list[float] = []
    for place in wanted:
        found.append(max(place, found[-1] + APART) if found else place)
    over = found[-1] - (HEIGHT - BOTTOM + 8) if found else 0.0
    for index in range(len(found) - 1, -1, -1):  # push the last ones up again
        limit = found[index + 1] - APART if index + 1 < len(found) else found[index] - max(over, 0)
        found[index] = min(found[index], limit)
    return found
