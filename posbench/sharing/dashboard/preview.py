"""A W&B workspace of some records, drawn without a server.

The panels, their places and their metrics are those of the JSON that W&B would be sent, and the
numbers those that a run would be told, under the same names. Colours and fonts are W&B's own
affair.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from posbench.base.errors import PosbenchError
from posbench.records.record import Record
from posbench.running.loggers import metrics
from posbench.running.loggers import metrics as told
from posbench.showing import figures as depth_map
from posbench.showing.figures import plain_ticks

ACROSS = 24
"""Units of a page's width."""
WIDTH, UNIT, HEADING = 15.0, 0.36, 0.5
"""Inches: of the page, of a unit of height, of the name of a section."""
SHOWN = 10
"""Groups of runs: W&B draws so many unless told otherwise."""
PICTURES, CELLS, COLUMNS = 6, 8, 9

Groups = Mapping[str, Sequence[Record]]


def preview(workspace: Mapping[str, Any], found: Iterable[Record]) -> Figure:
    """The workspace as a figure, of at most ten methods; PosbenchError if there is no record.

    Args:
        workspace: the JSON that `posbench.sharing.dashboard.command` writes, read
        found: records of one task, grouped by their method as the workspace groups runs
    """
    runs: dict[str, list[Record]] = {}
    for record in found:
        runs.setdefault(record.method.label, []).append(record)
    if not runs:
        raise PosbenchError("there is no record to show: name a folder and a task that have some")
    groups = dict(sorted(runs.items())[:SHOWN])
    sections = workspace["spec"]["section"]["panelBankConfig"]["sections"]
    sections = [each for each in sections if each["panels"]]
    heights = [max(_end(panel) for panel in each["panels"]) * UNIT for each in sections]
    total = sum(heights) + HEADING * (len(sections) + 1)
    figure = Figure((WIDTH, total))
    FigureCanvasAgg(figure)
    shown = f"{len(groups)} of {len(runs)} methods" if len(runs) > len(groups) else "all methods"
    names = sorted({record.task.label for each in groups.values() for record in each})
    figure.text(0.01, 1 - 0.3 / total, f"{', '.join(names)}: {shown}", va="top", fontsize=12)
    top = total - HEADING
    for section, height in zip(sections, heights, strict=True):
        figure.text(
            0.01, (top - 0.1) / total, section["name"], va="top", fontsize=11, weight="bold"
        )
        top -= HEADING
        for panel in section["panels"]:
            place = panel["layout"]
            left, low = place["x"] / ACROSS, top - (place["y"] + place["h"]) * UNIT
            axes = figure.add_axes(
                (
                    left + 0.035,
                    (low + 0.55) / total,
                    place["w"] / ACROSS - 0.05,
                    (place["h"] * UNIT - 1.0) / total,
                )
            )
            axes.set_title(panel["config"].get("chartTitle") or "", fontsize=9, loc="left")
            axes.tick_params(labelsize=7)
            KINDS[panel["viewType"]](axes, panel["config"], groups)
        top -= height
    return figure


def _end(panel: Mapping[str, Any]) -> int:
    return int(panel["layout"]["y"] + panel["layout"]["h"])


def _lines(axes: Axes, config: Mapping[str, Any], groups: Groups) -> None:
    """A line a method: the mean over its runs, and the standard error as a band."""
    x, (y,) = config["xAxis"], config["metrics"]
    for name, records in groups.items():
        points: dict[float, list[float]] = {}
        for record in records:
            for at, value in _history(record, x, y):
                points.setdefault(at, []).append(value)
        ordered = sorted(points)
        means = np.array([np.mean(points[each]) for each in ordered])
        errors = np.array([np.std(points[each]) / len(points[each]) ** 0.5 for each in ordered])
        (line,) = axes.plot(ordered, means, label=name, linewidth=1.2)
        axes.fill_between(
            ordered, means - errors, means + errors, alpha=0.15, color=line.get_color()
        )
    if config.get("xLogScale"):
        axes.set_xscale("log", base=2)
        axes.xaxis.set_major_formatter("{x:g}")
    if config.get("yAxisMin") is not None:
        axes.set_ylim(config["yAxisMin"], config["yAxisMax"])
    axes.set_xlabel(config.get("xAxisTitle") or x, fontsize=8)
    axes.legend(fontsize=6, frameon=False)


def _history(record: Record, x: str, y: str) -> Iterator[tuple[float, float]]:
    """The points at which a run has both metrics."""
    if x == metrics.STEP:
        known: Iterable[dict[str, float]] = ({x: step} | each for step, each in told.curve(record))
    else:
        known = (values for _, values in told.tests(record))
    yield from ((each[x], each[y]) for each in known if x in each and y in each)


def _bars(axes: Axes, config: Mapping[str, Any], groups: Groups) -> None:
    """A bar a method: the mean of what its runs' summaries hold."""
    (metric,) = config["metrics"]
    means = {name: _mean(records, metric) for name, records in groups.items()}
    if np.isnan(list(means.values())).all():
        axes.text(0.5, 0.5, f"no run has {metric}", ha="center", fontsize=8)
        return
    axes.barh(list(means), list(means.values()), height=0.7, alpha=0.5)
    for place, name in enumerate(means):
        axes.text(0.01, place, name, transform=axes.get_yaxis_transform(), va="center", fontsize=7)
    axes.set_yticks([])
    axes.invert_yaxis()


def _scatter(axes: Axes, config: Mapping[str, Any], groups: Groups) -> None:
    """A dot a method."""
    x, y = (config[name].removeprefix("summary:") for name in ("xAxis", "yAxis"))
    for name, records in groups.items():
        at = _mean(records, x), _mean(records, y)
        axes.plot(*at, "o", markersize=4)
        axes.annotate(name, at, fontsize=6, xytext=(3, 3), textcoords="offset points")
    if config.get("xAxisLogScale"):
        axes.set_xscale("log")
        plain_ticks(axes.xaxis)
    axes.set_xlabel(x, fontsize=8)
    axes.set_ylabel(y, fontsize=8)


def _mean(records: Sequence[Record], name: str) -> float:
    known = [float(each[name]) for each in map(told.summary, records) if name in each]
    return float(np.mean(known)) if known else float("nan")


def _media(axes: Axes, config: Mapping[str, Any], groups: Groups) -> None:
    """The picture of the first run of each method."""
    axes.axis("off")
    firsts = {name: records[0] for name, records in groups.items()}
    pictures = [(name, depth_map.pixels(run.rows, run.views)) for name, run in firsts.items()]
    found = [(name, picture) for name, picture in pictures if picture is not None][:PICTURES]
    for place, (name, picture) in enumerate(found):
        inset = axes.inset_axes((place / PICTURES, 0, 0.9 / PICTURES, 0.9))
        inset.imshow(picture)
        inset.axis("off")
        inset.set_title(name, fontsize=7)


def _table(axes: Axes, config: Mapping[str, Any], groups: Groups) -> None:
    """The first cells of the first run."""
    axes.axis("off")
    columns, rows = told.cells(next(iter(groups.values()))[0])
    text = [[_short(value) for value in row[:COLUMNS]] for row in rows[:CELLS]]
    table = axes.table(text, colLabels=columns[:COLUMNS], loc="center", cellLoc="right")
    table.auto_set_font_size(False)
    table.set_fontsize(7)


def _short(value: Any) -> str:
    return "" if value is None else f"{value:.3g}" if isinstance(value, float) else str(value)


KINDS: dict[str, Callable[[Axes, Mapping[str, Any], Groups], None]] = {
    "Run History Line Plot": _lines,
    "Bar Chart": _bars,
    "Scatter Plot": _scatter,
    "Media Browser": _media,
    "Weave": _table,
}
"""How each kind of panel is drawn, by W&B's names for them."""
