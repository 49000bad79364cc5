"""The accuracy by test length (rows) and by where in the prompt the source stands (columns)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
from matplotlib import style
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from posbench.records.row import Row, View
from posbench.showing.figures import STYLE, svg_text


def svg(rows: Sequence[Row], views: Sequence[View]) -> str | None:
    """The map as an `<svg>` element; None for a task without sources."""
    with style.context(["default", STYLE]):
        figure = _figure(rows, views)
        return svg_text(figure) if figure else None


def pixels(rows: Sequence[Row], views: Sequence[View]) -> npt.NDArray[np.uint8] | None:
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
