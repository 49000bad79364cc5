"""The page: what stops each method, side by side, as one HTML file."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import pandas as pd

from posbench.explain.figures import of_heads
from posbench.explain.measures import Inside
from posbench.explain.sentences import sentences
from posbench.records.row import Row, View
from posbench.showing import depth_map
from posbench.showing.figures import Curve, score_by_length
from posbench.showing.numbers import NOTHING, number
from posbench.showing.table import Row as Line
from posbench.showing.table import Table
from posbench.showing.templates import rendered
from posbench.wording import agreeing

COLUMNS = {
    "score": "score",
    "farthest": "farthest distance",
    "unseen_phases": "pairs at unseen phases",
}


@dataclass(frozen=True)
class Explained:
    """All that the page shows of one method."""

    label: str
    task: str
    measure: str  # what the score is
    command: str  # repeats the run
    rows: Sequence[Row]
    views: Sequence[View]
    inside: Inside

    @property
    def sentences(self) -> list[str]:
        return list(sentences(self.inside))

    @property
    def table(self) -> list[list[str]]:
        """A line a length, the heading first."""
        lengths = self.inside.lengths
        untrained = {row.multiple: row.untrained for row in self.rows}
        lines = [["length", *COLUMNS.values(), "entries never trained"]]
        for multiple in lengths.index:
            values = [float(lengths.loc[multiple, name]) for name in COLUMNS]
            cells = [number(values[0]), number(values[1], 0), number(values[2])]
            share = untrained.get(multiple)
            cells.append(NOTHING if share is None else number(share))
            lines.append([f"{multiple:g}x", *cells])
        return lines

    @property
    def heads(self) -> str:
        return of_heads(self.inside, self.label)

    @property
    def depths(self) -> str | None:
        """Accuracy by length and depth of the source, where the task has sources."""
        return depth_map.svg(self.rows, self.views)


def title(explained: Sequence[Explained]) -> str:
    go = agreeing(len(explained), "goes", "go")
    labels = " and ".join(each.label for each in explained)
    return f"How far {labels} {go} on {explained[0].task}, and why"


def html(explained: Sequence[Explained]) -> str:
    curves = [
        Curve(
            each.label,
            index,
            [row.multiple for row in each.rows],
            [row.score for row in each.rows],
            [float("nan")] * len(each.rows),
        )
        for index, each in enumerate(explained)
    ]
    multiples = {row.multiple for each in explained for row in each.rows}
    ticks = sorted(multiple for multiple in multiples if math.log2(multiple).is_integer())
    picture: str = score_by_length(curves, ticks, "score", explained[0].measure)
    text = rendered(
        "posbench.explain",
        "explain.html.j2",
        title=title(explained),
        explained=explained,
        curves=picture,
    )
    return f"{text}\n"


def text(explained: Explained) -> str:
    """The page for a terminal: the sentences, and the numbers of each head at 1x and where it
    stops.
    """
    lines = [explained.label, *(f"  {sentence}" for sentence in explained.sentences)]
    return "\n".join([*lines, "", _aligned(explained.inside.heads)])


def _aligned(heads: pd.DataFrame) -> str:
    shown = heads.assign(layer=heads["layer"] + 1, head=heads["head"] + 1)
    columns = ["multiple", "layer", "head", "on_source", "keys", "margin", "sd", "without"]
    formats = {"multiple": "{:g}x", "layer": "{:.0f}", "head": "{:.0f}", "keys": "{:.1f}"}
    formats |= {"margin": "{:+.1f}", "sd": "{:.1f}"}
    rows = []
    for _, line in shown.iterrows():
        first, *cells = (
            formats[name].format(line[name]) if name in formats else number(line[name])
            for name in columns
        )
        rows.append(Line(first, cells))
    return "\n".join(Table([name.replace("_", " ") for name in columns], rows).aligned())
