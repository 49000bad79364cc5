"""The pictures of the page: one number of every head against the length, as SVG."""

from __future__ import annotations

from dataclasses import dataclass

import pandas as pd
from matplotlib import style
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from posbench.explain.measures import Inside
from posbench.showing.figures import COLOURS, DASHES, MARKERS, STYLE, plain_ticks, svg_text


@dataclass(frozen=True)
class Panel:
    """How a column of numbers is shown: its label, the range of its axis where that is known."""

    label: str
    limits: tuple[float, float] | None = None
    log: bool = False


PANELS = {
    "on_source": Panel("attention on the right token", (0.0, 1.0)),
    "keys": Panel("keys that it spreads over, $e^H$", log=True),
    "margin": Panel("logit of the right token above all others"),
    "without": Panel("score without the head", (0.0, 1.0)),
}


def of_heads(inside: Inside, name: str) -> str:
    """Four panels: a curve a head, layers by colour, heads by dash."""
    with style.context(["default", STYLE]):
        figure = Figure(figsize=(9, 6.4), layout="constrained")
        panels = figure.subplots(2, 2)
        for axes, (column, panel) in zip(panels.flat, PANELS.items(), strict=True):
            for (layer, head), part in inside.heads.groupby(["layer", "head"]):
                _curve(axes, part, column, int(layer), int(head), f"{name}-{column}")
            if column == "without":
                scores = inside.lengths["score"]
                axes.plot(scores.index, scores, color="0.4", linewidth=1, label="with all")
            _dress(axes, list(inside.lengths.index), panel)
        handles, labels = panels.flat[3].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside lower center", ncols=5, frameon=False)
        return svg_text(figure)


def _curve(axes: Axes, part: pd.DataFrame, column: str, layer: int, head: int, name: str) -> None:
    axes.plot(
        part["multiple"],
        part[column],
        gid=f"{name}-{layer}-{head}",
        label=f"layer {layer + 1}, head {head + 1}",
        color=COLOURS[layer % len(COLOURS)],
        linestyle=DASHES[head % len(DASHES)],
        marker=MARKERS[head % len(MARKERS)],
        markersize=4.5,
        markerfacecolor="white",
    )


def _dress(axes: Axes, ticks: list[float], panel: Panel) -> None:
    axes.set_xscale("log", base=2)
    axes.set_xticks(ticks, [f"{tick:g}x" for tick in ticks])
    axes.minorticks_off()
    axes.set_title(panel.label, fontsize=10)
    if panel.limits:
        axes.set_ylim(panel.limits[0] - 0.03, panel.limits[1] + 0.03)
    elif panel.log:
        axes.set_yscale("log")
        plain_ticks(axes.yaxis)
    else:
        axes.axhline(0, color="0.6", linewidth=1, linestyle=":")
    axes.spines[["top", "right"]].set_visible(False)
