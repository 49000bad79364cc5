"""The tables of a board for papers, one a section.

python -m posbench.leaderboard results/main --latex FILE
"""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd

from posbench.leaderboard.ranking import Standing, span
from posbench.showing.latex import escaped, tabular
from posbench.showing.numbers import NOTHING, number


def latex(standings: Sequence[Standing]) -> str:
    """A table a section, for `booktabs`."""
    needs = "% Written by python -m posbench.leaderboard; needs \\usepackage{booktabs}.\n"
    return "\n".join([needs, *map(_table, standings)])


def _table(standing: Standing) -> str:
    summary, over = standing.summary, standing.over
    headings = ["method", "overall", r"95\,\%", "tier", *standing.groups, "reach", "solved"]
    lines = []
    for row in map(str, summary.index):
        tier, solved = summary.get(f"{over}_tier"), summary.get("learned")
        cells = [
            row,
            number(summary.loc[row, "overall"]),
            span(summary, row, over, between=NOTHING),
            NOTHING if tier is None or pd.isna(tier[row]) else str(int(tier[row])),
            *(number(summary.loc[row, group]) for group in standing.groups),
            str(standing.reach(row)[0]),
            NOTHING if solved is None or pd.isna(solved[row]) else f"{100 * solved[row]:.0f} %",
        ]
        lines.append(list(map(escaped, cells)))
    named = [*headings[:3], *map(escaped, headings[3:])]
    return tabular(named, lines, caption=escaped(standing.part.title))
