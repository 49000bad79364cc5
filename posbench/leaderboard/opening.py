"""Score against length as a small SVG by hand: the picture that a page opens with, and that of a
README.

In a page it takes its colours from there, and needs neither a script nor matplotlib, whose versions
draw the same curve with other bytes.
"""

from __future__ import annotations

import html
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import pandas as pd

from posbench.leaderboard.ranking import Standing
from posbench.leaderboard.summaries import Measured

WIDTH, HEIGHT = 580, 300
LEFT, RIGHT, TOP, BOTTOM = 34, 192, 14, 34
LEADERS = 8
"""Curves: the first of each section, then the second of each, until there are so many."""
APART = 15
"""Pixels between two labels."""
NAMES = 28
"""Characters of a label, as many as fit into RIGHT."""
LOOKS = 8
"""Colours with their dashes; a curve after these has a colour again, and is thinner."""
RULES = ("svg text", "text", ".grid", ".curve", ".lead", ".band", ".c0", ".c4")
"""How lines of the page's style begin that a picture needs besides the colours at its top."""


def picture(measured: Measured, standings: Sequence[Standing], own: str = "") -> str:
    """The SVG, with the row `own` before the leaders; "" where no row has been run on all tasks."""
    same = alike(standings)
    if not same:
        return ""
    ranked = [
        row for place in range(LEADERS) for each in same for row in each.complete[place : place + 1]
    ]
    rows = list(dict.fromkeys([own, *ranked] if own else ranked))[:LEADERS]
    means = {row: same[0].curve(row, measured).mean() for row in rows}  # their tasks are the same
    curves = {row: curve for row, curve in means.items() if len(curve) > 1}
    return drawn(curves, "Mean score of the leaders against test length") if curves else ""


def alike(standings: Sequence[Standing]) -> list[Standing]:
    """The sections that are ranked on the same tasks as the first of those with most tasks.

    A section that is under way is not drawn beside one that has all tasks: a mean over other tasks
    is another number. All of them are of the protocol of the first section.
    """
    if not standings:
        return []

    def on(standing: Standing) -> tuple[str, frozenset[str]]:
        runs = standing.part.runs
        return str(runs["protocol"].iloc[0]), frozenset(runs["shown"])

    protocol, _ = on(standings[0])
    found = [on(each) for each in standings if each.complete]
    of_protocol = [tasks for name, tasks in found if name == protocol]
    if not of_protocol:
        return []
    most = (protocol, max(of_protocol, key=len))
    return [each for each in standings if on(each) == most]


def drawn(
    curves: Mapping[str, pd.Series],
    label: str,
    bands: Mapping[str, pd.Series] = {},
    *,
    alone: bool = False,
) -> str:
    """The SVG of scores by multiple of the training length, best at the end first.

    Args:
        curves: of each name, the score by multiple
        label: what is seen, for those who do not see it
        bands: of some names, half the width of an interval by multiple
        alone: with colours of its own, as a file
    """
    multiples = sorted({float(each) for curve in curves.values() for each in curve.index})
    low, high = np.log2(multiples[0]), np.log2(multiples[-1])

    def x(multiple: float) -> str:
        return f"{LEFT + (np.log2(multiple) - low) / (high - low) * (WIDTH - LEFT - RIGHT):.1f}"

    def height(score: float) -> float:
        return TOP + (1 - min(max(score, 0.0), 1.0)) * (HEIGHT - TOP - BOTTOM)

    def line(points: pd.Series) -> str:
        return "L".join(f"{x(float(m))} {height(float(score)):.1f}" for m, score in points.items())

    shape = f'viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{html.escape(label)}"'
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" {shape}>{_style()}'
        if alone
        else f'<svg class="opening" {shape}>'
    ]
    for score in (0, 0.5, 1):
        parts.append(
            f'<path class="grid" d="M{LEFT} {height(score):.1f}H{WIDTH - RIGHT}"/>'
            f'<text x="{LEFT - 6}" y="{height(score) + 4:.1f}" text-anchor="end">{score:g}</text>'
        )
    for multiple in multiples:
        if np.log2(multiple) % 1 == 0:
            parts.append(
                f'<text x="{x(multiple)}" y="{HEIGHT - 16}" text-anchor="middle">'
                f"{multiple:g}x</text>"
            )
    parts.append(
        f'<text x="{(LEFT + WIDTH - RIGHT) / 2:.0f}" y="{HEIGHT - 2}" text-anchor="middle">'
        "positions of the test / of training</text>"
    )
    parts.append(f'<text x="{LEFT + 4}" y="{TOP - 3}">score, corrected for chance</text>')
    ends = sorted(curves, key=lambda row: -curves[row].iloc[-1])
    places = _apart([height(float(curves[row].iloc[-1])) for row in ends])
    looks = {row: f"c{place % LOOKS}" for place, row in enumerate(curves)}
    for row, half in bands.items():
        above, below = curves[row] + half, (curves[row] - half)[::-1]
        parts.append(f'<path class="band {looks[row]}" d="M{line(above)}L{line(below)}Z"/>')
    for row, place in zip(ends, places, strict=True):
        curve, look = curves[row], looks[row]
        thin = " thin" if list(curves).index(row) >= LOOKS else ""
        end = float(x(float(curve.index[-1])))
        name = row if len(row) <= NAMES else f"{row[: NAMES - 1]}…"
        parts.append(
            f'<path class="curve {look}{thin}" d="M{line(curve)}"/>'
            f'<path class="lead {look}" d="M{end + 3:.1f} {height(float(curve.iloc[-1])):.1f}'
            f'L{end + 12:.1f} {place:.1f}"/>'
            f'<text class="{look}" x="{end + 15:.1f}" y="{place + 4:.1f}">'
            f"{html.escape(name)}</text>"
        )
    return "".join(parts) + "</svg>"


def _style() -> str:
    """What a picture by itself needs of the page's style: light and dark as there."""
    style = Path(__file__).with_name("leaderboard.css").read_text(encoding="utf-8")
    colours, _, _ = style.partition("* {")
    rules = [line for line in style.splitlines() if line.startswith(RULES)]
    own = ['svg { font: 12px system-ui, -apple-system, "Segoe UI", sans-serif; }']
    own += [".curve.thin { stroke-width: 1; }"]
    return "<style>\n" + colours + "\n".join([*rules, *own]) + "\n</style>"


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
