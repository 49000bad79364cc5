"""Pictures of an encoding: its score over distance, and maps of its scores and its attention."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from matplotlib import style
from matplotlib.axes import Axes
from matplotlib.colors import Normalize
from matplotlib.figure import Figure

from posbench.showing.figures import COLOURS, STYLE, svg_text


@dataclass(frozen=True)
class Portrait:
    """The answers of one layer to tokens that are all alike, so that only position matters."""

    quantity: str  # what the curves and the first map show
    curves: np.ndarray  # [heads, n], entry d is the value at distance d
    variants: Mapping[str, np.ndarray]  # the first head's curve at other settings, [n] each
    map: np.ndarray  # [n, n], the first head; NaN where nothing is seen
    weights: np.ndarray  # [n, n], in units of uniform attention, 1 / (number of visible keys)
    train_positions: int


def draw(portrait: Portrait) -> str:
    """The three pictures side by side, as SVG text."""
    with style.context(["default", STYLE | {"font.size": 8}]):
        figure = Figure(figsize=(10.5, 2.75), layout="constrained")
        left, middle, right = figure.subplots(1, 3, width_ratios=(1.9, 1, 1))
        _curves(left, portrait)
        _map(figure, middle, portrait.map, f"{portrait.quantity}, head 1", "RdBu_r")
        _map(figure, right, portrait.weights, "attention / uniform attention, head 1", "viridis")
        return svg_text(figure)


def _curves(axes: Axes, portrait: Portrait) -> None:
    for label, values in portrait.variants.items():
        axes.plot(values, linewidth=0.9, linestyle=(0, (4, 2)), color="0.6", label=label)
        axes.annotate(label, (len(values) - 1, values[-1]), fontsize=6.5, color="0.4", va="center")
    same = np.allclose(portrait.curves, portrait.curves[:1], equal_nan=True)
    for head, values in enumerate(portrait.curves[: 1 if same else None]):
        label = "all heads" if same else f"head {head + 1}"
        axes.plot(values, linewidth=1.6, color=COLOURS[head % len(COLOURS)], label=label)
    axes.axvline(portrait.train_positions - 1, color="0.6", linewidth=0.8, linestyle=":")
    axes.text(
        portrait.train_positions - 1,
        1.01,
        "training ends",
        fontsize=6.5,
        color="0.4",
        transform=_above(axes),
    )
    axes.set_xlabel("distance, tokens")
    axes.set_ylabel(portrait.quantity)
    axes.grid(alpha=0.25)
    axes.spines[["top", "right"]].set_visible(False)
    handles, labels = axes.get_legend_handles_labels()
    shown = [
        (h, text) for h, text in zip(handles, labels, strict=True) if text not in portrait.variants
    ]
    axes.legend(*zip(*shown, strict=True), frameon=False, fontsize=6.5, ncols=2)


def _above(axes: Axes) -> object:
    return axes.get_xaxis_transform()


def _map(figure: Figure, axes: Axes, values: np.ndarray, title: str, colours: str) -> None:
    low, high = np.nanquantile(values, (0.005, 0.995))
    if high - low < 1e-9:  # constant: show the middle of the scale, not rounding noise
        low, high = low - 1, high + 1
    picture = axes.imshow(values, cmap=colours, norm=Normalize(low, high), interpolation="none")
    axes.set_title(title, fontsize=8)
    axes.set_xlabel("key")
    axes.set_ylabel("query")
    figure.colorbar(picture, ax=axes, shrink=0.85)
