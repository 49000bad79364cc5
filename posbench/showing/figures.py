"""Curves as SVG text, for use inside a page. The same numbers give the same text."""

from __future__ import annotations

import io
import textwrap
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
from matplotlib import style
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.figure import Figure
from matplotlib.ticker import LogFormatter

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


def plain_ticks(axis: Axis) -> None:
    """Numbers as 60, and not as 6 times a power of ten, on an axis that is logarithmic."""
    axis.set_major_formatter(LogFormatter())
    axis.set_minor_formatter(LogFormatter())


def svg_text(figure: Figure) -> str:
    """The figure as an `<svg>` element; the same figure gives the same text."""
    out = io.StringIO()
    figure.savefig(out, format="svg", metadata={"Date": None, "Creator": None})
    return out.getvalue()[out.getvalue().index("<svg") :]


def in_both(figure: Figure) -> dict[str, bytes]:
    """The figure as a file of SVG and as one of PNG."""
    out = io.BytesIO()
    figure.savefig(out, format="png", dpi=200, metadata={"Software": None})
    declaration = '<?xml version="1.0" encoding="utf-8"?>\n'
    return {"svg": (declaration + svg_text(figure)).encode(), "png": out.getvalue()}


Written = TypeVar("Written")
"""What becomes of a figure: the text of `svg_text`, or the files of `in_both`."""


def score_by_length(
    curves: Sequence[Curve],
    ticks: Sequence[float],
    name: str,
    measure: str,
    written: Callable[[Figure], Written] = svg_text,  # type: ignore[assignment]
) -> Written:
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
            return written(figure)
        legend = figure.legend(
            loc="outside right upper", frameon=False, handlelength=3.4, labelspacing=0.7
        )
        for text in legend.get_texts():
            text.set_parse_math(False)  # a label may hold an interpolation, ${...}
        return written(figure)


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
