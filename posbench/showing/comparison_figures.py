"""Pictures that compare all rows over all tasks at once, as SVG text like that of `figures`."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import pandas as pd
from matplotlib import style
from matplotlib.figure import Figure

from posbench.showing.figures import COLOURS, DASHES, STYLE, Written, plain_ticks, svg_text

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
