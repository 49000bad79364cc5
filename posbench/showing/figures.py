"""Curves as SVG text, for use inside a page. The same numbers give the same text."""

from __future__ import annotations

import io
import math
import re
import textwrap
from collections.abc import Iterable, Mapping, Sequence

import numpy as np
import numpy.typing as npt
from matplotlib import style
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.ticker import LogFormatter

from posbench.core.row import Row, View

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


def plain_ticks(axis: Axis) -> None:
    """Numbers as 60, and not as 6 times a power of ten, on an axis that is logarithmic."""
    axis.set_major_formatter(LogFormatter())
    axis.set_minor_formatter(LogFormatter())


def svg_text(figure: Figure) -> str:
    """The figure as an `<svg>` element; the same figure gives the same text."""
    out = io.StringIO()
    figure.savefig(out, format="svg", metadata={"Date": None, "Creator": None})
    return out.getvalue()[out.getvalue().index("<svg") :]


OF_A_PAGE = {
    "#ffffff": "var(--page)",
    "#000000": "var(--ink)",
    "#666666": "var(--soft)",
    "#999999": "var(--soft)",
    "#b0b0b0": "var(--line)",
    "#cccccc": "var(--line)",
    **{colour: f"var(--c{place})" for place, colour in enumerate(COLOURS[:8])},
}
"""The colours of a figure, and those of `page.css` for them, which are light or dark."""


def in_colours_of_page(svg: str) -> str:
    """The text of an SVG for a page, which draws it light or dark as its reader asks.

    A file by itself keeps its own colours, since programs other than browsers know no variables.
    """
    return re.sub(r"#[0-9a-f]{6}\b", lambda match: OF_A_PAGE.get(match[0], match[0]), svg)


def axis_of_lengths(axes: Axes, multiples: Iterable[float]) -> None:
    """A logarithmic axis of multiples of the trained length, with names at powers of two."""
    ticks = sorted({each for each in multiples if math.log2(each).is_integer()})
    axes.set_xscale("log", base=2)
    axes.set_xticks(ticks, [f"{tick:g}x" for tick in ticks])
    axes.minorticks_off()


def score_by_length(curves: Mapping[str, Sequence[Row]], measure: str) -> str:
    """The score of each method against length as SVG, with a legend in the order given."""
    # "default" comes first, so that the user's own matplotlibrc changes nothing.
    with style.context(["default", STYLE]):
        figure = Figure(figsize=(9, 3.9), layout="constrained")
        axes = figure.subplots()
        for look, (label, rows) in enumerate(curves.items()):
            axes.plot(
                [row.multiple for row in rows],
                [row.score for row in rows],
                label=textwrap.fill(label, 30),
                color=COLOURS[look % len(COLOURS)],
                linestyle=DASHES[look % len(DASHES)],
                linewidth=1.8,
                marker=MARKERS[look % len(MARKERS)],
                markersize=5.5,
                markerfacecolor="white",  # hollow: curves that lie on each other stay visible
                markeredgewidth=1.4,
                clip_on=False,
            )
        axes.axvline(1, color="0.6", linewidth=1, linestyle=":")
        axis_of_lengths(axes, (row.multiple for rows in curves.values() for row in rows))
        axes.set_ylim(0, 1)
        axes.set_xlabel("test length / training length")
        axes.set_ylabel(measure)
        axes.grid(alpha=0.25)
        axes.spines[["top", "right"]].set_visible(False)
        legend = figure.legend(
            loc="outside right upper", frameon=False, handlelength=3.4, labelspacing=0.7
        )
        for text in legend.get_texts():
            text.set_parse_math(False)  # a label may hold an interpolation, ${...}
        return svg_text(figure)


# -- the accuracy by test length (rows) and by where in the prompt the source is ---------------


def depth_map_svg(rows: Sequence[Row], views: Sequence[View]) -> str | None:
    """The map as an `<svg>` element; None for a task without sources."""
    with style.context(["default", STYLE]):
        figure = _figure(rows, views)
        return svg_text(figure) if figure else None


def depth_map_pixels(rows: Sequence[Row], views: Sequence[View]) -> npt.NDArray[np.uint8] | None:
    """The map as a picture, RGB; None for a task without sources."""
    with style.context(["default", STYLE]):
        figure = _figure(rows, views)
        if figure is None:
            return None
        canvas = FigureCanvasAgg(figure)
        canvas.draw()
    return np.asarray(canvas.buffer_rgba())[..., :3].copy()


def _figure(rows: Sequence[Row], views: Sequence[View]) -> Figure | None:
    by_depth = {view.test_length: view for view in views if view.by == "depth"}
    shown = [row for row in rows if row.test_length in by_depth]
    if not shown:
        return None
    binned = [by_depth[row.test_length] for row in shown]
    bounds = {edge for view in binned for edge in (*view.above, *view.up_to)}
    edges = sorted(edge for edge in bounds if edge is not None)
    figure = Figure(figsize=(6, 0.9 + 0.3 * len(shown)), dpi=120, layout="constrained")
    axes = figure.subplots()
    grid = np.array([_accuracy(view, edges) for view in binned])
    mesh = axes.pcolormesh(np.array(edges), np.arange(len(shown) + 1), grid, vmin=0, vmax=1)
    axes.set_yticks(np.arange(len(shown)) + 0.5, [f"{row.multiple:g}x" for row in shown])
    axes.invert_yaxis()
    axes.set_xlabel("depth of the source in the prompt, from start to end")
    axes.set_ylabel("test length")
    figure.colorbar(mesh, ax=axes, label="token accuracy")
    return figure


def _accuracy(view: View, edges: list[float]) -> list[float]:
    """The accuracy in each bin between two edges; NaN where the view has none."""
    found = dict(zip(view.above, view.token_accuracy_teacher_forced, strict=True))
    return [found.get(low, np.nan) for low in edges[:-1]]
