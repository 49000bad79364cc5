"""Pictures that compare all rows over all tasks at once, as SVG text like that of `figures`."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
import pandas as pd
from matplotlib import style
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from posbench.showing.figures import COLOURS, DASHES, STYLE, Written, plain_ticks, svg_text
from posbench.statistics.rank_tests import CriticalDifference

NAMES = 30
"""Letters of a label that there is room for."""


def performance_profiles(
    profiles: pd.DataFrame,
    name: str,
    written: Callable[[Figure], Written] = svg_text,  # type: ignore[assignment]
) -> Written:
    """SVG of the share of runs above each area, a curve a row: see
    `posbench.statistics.aggregates.profiles`.

    The legend is in the order of the columns. Curve number i has the id `profile-{name}-{i}`.

    Args:
        profiles: [threshold, row], shares
        name: of the picture, for its ids
        written: what becomes of the figure
    """
    rows = list(profiles.columns)
    columns = -(-len(rows) // 20)  # of the legend
    with style.context(["default", STYLE]):
        height = max(3.9, 1.0 + 0.27 * -(-len(rows) // columns))
        figure = Figure(figsize=(6.2 + 2.9 * columns, height), layout="constrained")
        axes = figure.subplots()
        for index, row in enumerate(rows):
            axes.plot(
                profiles.index,
                profiles[row],
                label=_shortened(str(row)),
                gid=f"profile-{name}-{index}",
                color=COLOURS[index % len(COLOURS)],
                # The dash changes with every round of colours, so the first 30 look different.
                linestyle=DASHES[index // len(COLOURS) % len(DASHES)],
                linewidth=1.6,
                drawstyle="steps-post",  # a share of runs is a step function of the threshold
                clip_on=False,
            )
        axes.set_xlim(0, 1)
        axes.set_ylim(0, 1)
        axes.set_xlabel("area")
        axes.set_ylabel("share of runs above it")
        axes.grid(alpha=0.25)
        axes.spines[["top", "right"]].set_visible(False)
        legend = figure.legend(
            loc="outside right upper",
            frameon=False,
            handlelength=2.8,
            fontsize=9,
            ncols=columns,
            labelspacing=0.6,
        )
        for text in legend.get_texts():
            text.set_parse_math(False)  # a label may hold an interpolation, ${...}
        return written(figure)


def critical_difference(
    found: CriticalDifference,
    name: str,
    written: Callable[[Figure], Written] = svg_text,  # type: ignore[assignment]
) -> Written:
    """SVG of average ranks on an axis, best on the left: a diagram as in Demsar 2006.

    A bar joins rows that are not told apart, and the critical difference stands above the axis.
    Names stand on the left for the better half and on the right for the other, in the order of
    their ranks, so that their lines never cross. Row number i has the id `rank-{name}-{i}`.

    Args:
        found: see `posbench.statistics.rank_tests`
        name: of the picture, for its ids
        written: what becomes of the figure
    """
    ranks, count = found.ranks, len(found.ranks)
    # Cliques are in order of their start, and so each goes on the first level where it fits.
    levels = _levels([(ranks[rows[0]], ranks[rows[-1]]) for rows in found.cliques])
    top = 0.5 + 0.42 * (1 + max(levels, default=-1))
    half = -(-count // 2)
    with style.context(["default", STYLE]):
        figure = Figure(figsize=(9, 1.1 + 0.22 * (top + half + 1)), layout="constrained")
        axes = figure.subplots()
        for level, rows in zip(levels, found.cliques, strict=True):
            depth = 0.5 + 0.42 * level
            ends = [ranks[rows[0]] - 0.004 * count, ranks[rows[-1]] + 0.004 * count]
            axes.plot(ends, [depth, depth], color="0.15", linewidth=3, solid_capstyle="butt")
        for index, (row, rank) in enumerate(ranks.items()):
            left = index < half
            place = index if left else count - 1 - index
            _leader(axes, str(row), float(rank), top + 0.5 + place, left, count, f"{name}-{index}")
        _scale(axes, found.difference, count)
        axes.set_ylim(top + half + 0.3, -2.6)
        axes.set_xlim(1 - 0.52 * (count - 1), count + 0.52 * (count - 1))
        axes.set_axis_off()
        return written(figure)


def score_and_cost(
    points: Mapping[str, tuple[float, float]],
    written: Callable[[Figure], Written] = svg_text,  # type: ignore[assignment]
) -> Written:
    """SVG of scores against costs, with the frontier: no row is both cheaper and better than one
    on it, and only those are named.

    Args:
        points: seconds and overall score, by row
        written: what becomes of the figure
    """
    ordered = sorted(points.items(), key=lambda each: (each[1][0], -each[1][1], each[0]))
    best, front = -1.0, []
    for row, (cost, score) in ordered:
        if score > best:
            best = score
            front.append((row, cost, score))
    with style.context(["default", STYLE]):
        figure = Figure(figsize=(7.5, 4.4), layout="constrained")
        axes = figure.subplots()
        costs, scores = zip(*points.values(), strict=True)
        axes.scatter(costs, scores, s=18, color="0.6", linewidths=0)
        # The line goes on to the dearest row: what is dearer and worse lies below it.
        line = [*((cost, score) for _, cost, score in front), (max(costs), best)]
        axes.plot(*zip(*line, strict=True), drawstyle="steps-post", color=COLOURS[0])
        axes.scatter(
            [cost for _, cost, _ in front], [score for *_, score in front], color=COLOURS[0]
        )
        for row, cost, score in front:
            axes.annotate(
                _shortened(row),
                (cost, score),
                xytext=(6, -11),
                textcoords="offset points",
                fontsize=8,
                parse_math=False,
            )
        axes.set_xscale("log")
        plain_ticks(axes.xaxis)
        axes.set_ylim(0, 1)
        axes.set_xlabel("CPU seconds of a training, mean over tasks")
        axes.set_ylabel("overall score")
        axes.grid(alpha=0.25)
        axes.spines[["top", "right"]].set_visible(False)
        return written(figure)


def _shortened(label: str) -> str:
    """The label, without its middle if it is long: settings at its end tell labels apart."""
    if len(label) <= NAMES:
        return label
    return f"{label[: NAMES // 2 - 2]}...{label[-(NAMES // 2 - 1) :]}"


def _levels(spans: list[tuple[float, float]]) -> list[int]:
    """The level of each bar: the first on which no other bar is in its way."""
    ends: list[float] = []
    found = []
    for low, high in spans:
        level = next((n for n, end in enumerate(ends) if end < low), len(ends))
        ends[level : level + 1] = [high]
        found.append(level)
    return found


def _leader(
    axes: Axes, row: str, rank: float, depth: float, left: bool, count: int, gid: str
) -> None:
    """A line from the rank on the axis to the name at the side."""
    edge = 1 - 0.03 * (count - 1) if left else count + 0.03 * (count - 1)
    axes.plot([rank, rank, edge], [0, depth, depth], color="0.45", linewidth=0.8, gid=f"rank-{gid}")
    label = _shortened(row)
    axes.text(
        edge,
        depth,
        f"{label}  {rank:.1f} " if left else f" {rank:.1f}  {label}",
        ha="right" if left else "left",
        va="center",
        fontsize=8,
        parse_math=False,
    )


def _scale(axes: Axes, difference: float, count: int) -> None:
    """The axis of ranks, and the critical difference above it."""
    axes.plot([1, count], [0, 0], color="0.15", linewidth=1)
    step = max(1, round(count / 10))
    for tick in np.unique([1, *range(step, count + 1, step), count]):
        # A tick next to the last one would write over its number.
        if tick == count or count - tick >= step / 2:
            axes.plot([tick, tick], [0, -0.25], color="0.15", linewidth=1)
            axes.text(tick, -0.4, str(tick), ha="center", va="bottom", fontsize=9)
    end = min(1 + difference, count)  # a difference beyond the axis tells nothing apart
    more = "" if end == 1 + difference else " (longer than the axis)"
    axes.plot([1, end], [-1.75, -1.75], color="0.15", linewidth=1.4)
    for edge in (1, end):
        axes.plot([edge, edge], [-1.95, -1.55], color="0.15", linewidth=1.4)
    axes.text(
        (1 + end) / 2,
        -2.0,
        f"critical difference {difference:.2f}{more}",
        ha="center",
        va="bottom",
        fontsize=9,
    )
