"""Pictures of a board for papers and slides, as SVG and PNG, three a section.

    posbench board results/main --pictures FOLDER

The same records and the same matplotlib give the same bytes.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

import numpy as np

from posbench.boards.measured import Measured
from posbench.boards.ranking import Ranked
from posbench.showing import figures
from posbench.showing.comparison_figures import (
    performance_profiles,
    score_and_cost,
)
from posbench.showing.figures import PlottedCurve, in_both
from posbench.statistics import aggregates
from posbench.statistics.aggregates import Estimate

LEADERS = 12
"""Curves of a picture: the first rows of the section."""


def pictures(measured: Measured, standings: Sequence[Ranked]) -> dict[str, bytes]:
    """Every picture by the name of its file."""
    found: dict[str, bytes] = {}
    for standing in standings:
        name = re.sub(r"[^a-z0-9]+", "-", standing.part.title.lower()).strip("-")
        for kind, formats in _of(measured, standing, name):
            found |= {f"{name}-{kind}.{suffix}": data for suffix, data in formats.items()}
    return found


def _of(measured: Measured, standing: Ranked, name: str) -> Iterator[tuple[str, dict[str, bytes]]]:
    rows = standing.complete
    if not rows:
        return
    curves = list(_curves(measured, standing, rows[:LEADERS]))
    ticks = sorted({float(each) for curve in curves for each in curve.multiples})
    if len(ticks) > 1:
        measure = "corrected score, mean over tasks"
        yield "curves", figures.score_by_length(curves, ticks, name, measure, in_both)
    points = {
        row: (
            float(standing.part.cost.get(row, np.nan)),
            float(standing.summary.loc[row, "overall"]),
        )
        for row in rows
    }
    known = {row: each for row, each in points.items() if each[0] > 0}
    if known:
        yield "cost", score_and_cost(known, in_both)
    if len(rows) < 2:
        return
    runs = standing.part.runs[standing.part.runs["row"].isin(rows)]
    shares = aggregates.profiles(runs, np.linspace(0, 1, 101))[rows[:LEADERS]]
    yield "profiles", performance_profiles(shares, name, in_both)


def _curves(measured: Measured, standing: Ranked, rows: Sequence[str]) -> Iterator[PlottedCurve]:
    """The mean over tasks of the corrected score; the interval is over seeds."""
    for look, row in enumerate(rows):
        by_seed = standing.curve(row, measured)
        if by_seed.empty:
            continue
        estimates = [Estimate.over(by_seed[multiple]) for multiple in by_seed]
        yield PlottedCurve(
            row,
            look,
            [float(multiple) for multiple in by_seed],
            [each.mean for each in estimates],
            [each.half_width for each in estimates],
        )
