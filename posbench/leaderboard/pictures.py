"""Pictures of a board for papers and slides, as SVG and PNG, and its tables as LaTeX.

    python -m posbench.leaderboard results/main --pictures FOLDER    four pictures a section
    python -m posbench.leaderboard results/main --latex FILE         a table a section

The same records and the same matplotlib give the same bytes.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

import numpy as np
import pandas as pd

from posbench.leaderboard.ranking import Standing, span
from posbench.leaderboard.summaries import Measured
from posbench.showing import figures
from posbench.showing.comparison_figures import (
    critical_difference,
    performance_profiles,
    score_and_cost,
)
from posbench.showing.figures import Curve, in_both
from posbench.showing.numbers import NOTHING, number
from posbench.statistics import aggregates, distributions, rank_tests
from posbench.statistics.estimates import Estimate

LEADERS = 12
"""Curves of a picture: the first rows of the section."""
DRAWN = 40
"""The most rows of which profiles and ranks are drawn."""
SIGNS = {
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    **{sign: f"\\{sign}" for sign in "&%$#_{}"},
    NOTHING: "--",
}


def pictures(measured: Measured, standings: Sequence[Standing]) -> dict[str, bytes]:
    """Every picture by the name of its file."""
    found: dict[str, bytes] = {}
    for standing in standings:
        name = re.sub(r"[^a-z0-9]+", "-", standing.part.title.lower()).strip("-")
        for kind, formats in _of(measured, standing, name):
            found |= {f"{name}-{kind}.{suffix}": data for suffix, data in formats.items()}
    return found


def _of(
    measured: Measured, standing: Standing, name: str
) -> Iterator[tuple[str, dict[str, bytes]]]:
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
    if not 1 < len(rows) <= DRAWN:
        return
    runs = standing.part.runs[standing.part.runs["row"].isin(rows)]
    shares = distributions.profiles(runs, np.linspace(0, 1, 101))[rows]
    yield "profiles", performance_profiles(shares, name, in_both)
    means = aggregates.task_means(runs)
    if means.shape[1] > 1:
        ranks = rank_tests.CriticalDifference.of(means)
        yield "ranks", critical_difference(ranks, name, in_both)


def _curves(measured: Measured, standing: Standing, rows: Sequence[str]) -> Iterator[Curve]:
    """The mean over tasks of the corrected score; the interval is over seeds."""
    for look, row in enumerate(rows):
        by_seed = standing.curve(row, measured)
        if by_seed.empty:
            continue
        estimates = [Estimate.over(by_seed[multiple]) for multiple in by_seed]
        yield Curve(
            row,
            look,
            [float(multiple) for multiple in by_seed],
            [each.mean for each in estimates],
            [each.half_width for each in estimates],
        )


# -- LaTeX -----------------------------------------------------------------------------------------


def latex(standings: Sequence[Standing]) -> str:
    """A table a section, for `booktabs`."""
    parts = ["% Written by python -m posbench.leaderboard; needs \\usepackage{booktabs}.\n"]
    return "\n".join([*parts, *map(_table, standings)])


def _table(standing: Standing) -> str:
    summary = standing.summary
    headings = ["method", "overall", r"95\,\%", "tier", *standing.groups, "reach", "solved"]
    lines = []
    for row in map(str, summary.index):
        tier, solved = summary.get("tasks_tier"), summary.get("learned")
        cells = [
            row,
            number(summary.loc[row, "overall"]),
            span(summary, row, "tasks", between=NOTHING),
            NOTHING if tier is None or pd.isna(tier[row]) else str(int(tier[row])),
            *(number(summary.loc[row, group]) for group in standing.groups),
            str(standing.reach(row)[0]),
            NOTHING if solved is None or pd.isna(solved[row]) else f"{100 * solved[row]:.0f} %",
        ]
        lines.append(list(map(escaped, cells)))
    named = [*headings[:3], *map(escaped, headings[3:])]
    caption = f"\\caption{{{escaped(standing.part.title)}}}"
    return "\n".join(["\\begin{table}", caption, *tabular(named, lines), "\\end{table}", ""])


def tabular(headings: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterator[str]:
    """The lines of a table whose cells are LaTeX already; the first column is set to the left."""
    yield f"\\begin{{tabular}}{{l{'r' * (len(headings) - 1)}}}"
    yield "\\toprule"
    yield " & ".join(headings) + r" \\"
    yield "\\midrule"
    for cells in rows:
        yield " & ".join(cells) + r" \\"
    yield "\\bottomrule"
    yield "\\end{tabular}"


def escaped(text: str) -> str:
    """A text as LaTeX shows it; a name may break behind an underscore."""
    return "".join(SIGNS.get(sign, sign) for sign in text).replace("\\_", "\\_\\allowbreak{}")
