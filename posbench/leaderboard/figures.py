"""Curves as SVG text, for use inside a page. The same numbers give the same text."""

from __future__ import annotations

import io
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from matplotlib import style
from matplotlib.axes import Axes
from matplotlib.figure import Figure

STYLE = {
    "svg.hashsalt": "posbench",  # ids inside the SVG are random otherwise
    "svg.fonttype": "none",
    "font.family": "DejaVu Sans",  # comes with matplotlib, so every machine gives the same layout
    "font.size": 10,
}
# Three cycles whose lengths share no factor, so the first 210 curves all look different.
COLOURS = (
    "#1f77b4",
    "#d95f02",
    "#2a9d3a",
    "#c2263e",
    "#7a52b3",
    "#8c564b",
    "#e06db8",
    "#5f6b73",
    "#a6a11b",
    "#17aebf",
)
DASHES = ("solid", (0, (5, 1.8)), (0, (1.2, 1.4)))
MARKERS = "osD^vPX"
MANY = 24
"""So many curves can still be told apart by their looks, with their intervals drawn."""


@dataclass(frozen=True)
class Curve:
    """The score of one method against length. `look` selects colour, dash and marker."""

    label: str
    look: int
    multiples: Sequence[float]
    means: Sequence[float]
    half_widths: Sequence[float]  # NaN where there is no interval


def score_by_length(
    curves: Sequence[Curve], ticks: Sequence[float], name: str, measure: str
) -> str:
    """SVG with a legend in the order given. Curve number i has the id `curve-{name}-{i}`.

    More than `MANY` curves are drawn as plain lines; a reader points at a row to see its curve.
    """
    crowded = len(curves) > MANY
    # "default" comes first, so that the user's own matplotlibrc changes nothing.
    with style.context(["default", STYLE]):
        height = 5.2 if crowded else max(3.9, 0.6 + 0.27 * len(curves))
        figure = Figure(figsize=(9, height), layout="constrained")
        axes = figure.subplots()
        for index, curve in enumerate(curves):
            _draw(axes, curve, f"curve-{name}-{index}", crowded)
        _dress(axes, ticks, measure)
        if crowded:
            return svg_text(figure)
        legend = figure.legend(
            loc="outside right upper", frameon=False, handlelength=3.4, labelspacing=0.7
        )
        for text in legend.get_texts():
            text.set_parse_math(False)  # a label may hold an interpolation, ${...}
        return svg_text(figure)


@dataclass(frozen=True)
class Grid:
    """The accuracy of one method by length (rows) and depth (columns); NaN without data."""

    label: str
    values: np.ndarray


def depth_grids(grids: Sequence[Grid], lengths: Sequence[str], edges: Sequence[float]) -> str:
    """SVG with one picture per method.

    It shows at which depth of the prompt, and in how long a prompt, the model still finds a source.
    """
    across = min(len(grids), 4)
    down = -(-len(grids) // across)
    with style.context(["default", STYLE]):
        figure = Figure(figsize=(9, 0.5 + 1.75 * down), layout="constrained")
        all_axes = figure.subplots(down, across, squeeze=False, sharex=True, sharey=True).ravel()
        for axes, grid in zip(all_axes, grids, strict=False):
            mesh = axes.pcolormesh(
                np.array(edges), np.arange(len(lengths) + 1), grid.values, vmin=0, vmax=1
            )
            axes.set_title(textwrap.shorten(grid.label, 28), fontsize=9, parse_math=False)
            axes.set_yticks(np.arange(len(lengths)) + 0.5, lengths)
            axes.set_xticks([0, 0.5, 1], ["start", "", "end"])
        all_axes[0].invert_yaxis()  # and with it the y axis of all others, which is shared
        for axes in all_axes[len(grids) :]:
            axes.set_axis_off()
        figure.supxlabel("where in the prompt the source stands", fontsize=9)
        figure.colorbar(mesh, ax=list(all_axes), label="token accuracy", fraction=0.03)
        return svg_text(figure)


def svg_text(figure: Figure) -> str:
    """The figure as an `<svg>` element; the same figure gives the same text."""
    out = io.StringIO()
    figure.savefig(out, format="svg", metadata={"Date": None, "Creator": None})
    return out.getvalue()[out.getvalue().index("<svg") :]


def _draw(axes: Axes, curve: Curve, gid: str, crowded: bool) -> None:
    colour = COLOURS[curve.look % len(COLOURS)]
    if crowded:
        axes.plot(curve.multiples, curve.means, gid=gid, color=colour, linewidth=1.1, clip_on=False)
        return
    means, half_widths = np.array(curve.means), np.array(curve.half_widths)
    low, high = np.clip([means - half_widths, means + half_widths], 0, 1)
    axes.fill_between(
        curve.multiples, low, high, color=colour, alpha=0.08, linewidth=0, gid=f"{gid}-band"
    )
    axes.plot(
        curve.multiples,
        curve.means,
        label=textwrap.fill(curve.label, 30),
        gid=gid,
        color=colour,
        linestyle=DASHES[curve.look % len(DASHES)],
        linewidth=1.8,
        marker=MARKERS[curve.look % len(MARKERS)],
        markersize=5.5,
        markerfacecolor="white",  # hollow: curves that lie on each other stay visible
        markeredgewidth=1.4,
        clip_on=False,
    )


def _dress(axes: Axes, ticks: Sequence[float], measure: str) -> None:
    axes.axvline(1, color="0.6", linewidth=1, linestyle=":")
    axes.set_xscale("log", base=2)
    axes.set_xticks(ticks, [f"{tick:g}x" for tick in ticks])
    axes.minorticks_off()
    axes.set_ylim(0, 1)
    axes.set_xlabel("test length / training length")
    axes.set_ylabel(measure)
    axes.grid(alpha=0.25)
    axes.spines[["top", "right"]].set_visible(False)
