"""The tables of a board for papers, one a section.

python -m posbench.leaderboard results/main --latex FILE
"""

from __future__ import annotations

from collections.abc import Sequence

from posbench.boards.ranking import Standing, score
from posbench.showing.table import escaped, tabular


def latex(standings: Sequence[Standing]) -> str:
    """A table a section, for `booktabs`."""
    needs = "% Written by python -m posbench.leaderboard; needs \\usepackage{booktabs}.\n"
    return "\n".join([needs, *map(_table, standings)])


def _table(standing: Standing) -> str:
    summary = standing.summary
    headings = ["method", "area", r"95\,\%", *standing.groups, "reach", "learned"]
    lines = []
    for row in map(str, summary.index):
        cells = [
            row,
            score(summary, "overall", row),
            standing.shown_interval(row),
            *(score(summary, group, row) for group in standing.groups),
            str(standing.reach(row)),
            standing.shown_learned(row),
        ]
        lines.append(list(map(escaped, cells)))
    named = [*headings[:3], *map(escaped, headings[3:])]
    return tabular(named, lines, caption=escaped(standing.part.title))
