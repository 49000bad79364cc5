"""The rule by which claims are judged, as it stands at the top of every page of claims, with the
numbers in it.
"""

from __future__ import annotations

from enum import StrEnum

from posbench.showing.numbers import number

ALPHA = 0.05
MIN_PAIRS, WAYS = 10, 5
"""What a test needs: pairs, and ways of exchanging the sides, in units of claims / alpha."""
MASTERED, FAILED = 0.95, 0.05
"""Mean scores from which a side masters a length, and up to which it fails there."""


class Verdict(StrEnum):
    """What records say of a claim."""

    HOLDS = "holds"
    CONTRADICTED = "contradicted"
    OPEN = "open"
    TOO_FEW = "open (too few seeds)"
    NO_ROOM = "no room"
    NOT_TESTABLE = "not testable"
    NOT_MEASURED = "not measured"


LEVEL, TOP, BOTTOM = number(ALPHA), number(MASTERED), number(FAILED)
MEANINGS = {
    Verdict.HOLDS: f"the corrected p is at most {LEVEL}, and the difference is above the margin.",
    Verdict.CONTRADICTED: f"the corrected p is at most {LEVEL}, and the difference is below the "
    "margin.",
    Verdict.OPEN: "the corrected p is larger.",
    Verdict.TOO_FEW: f"fewer than {MIN_PAIRS} pairs are left, or the two sides can be exchanged in "
    f"fewer than {WAYS} m / {LEVEL} ways, where the paper has m claims, so that almost no p could "
    "survive the correction. This was known before the runs.",
    Verdict.NO_ROOM: f"on every table both rows are at least {TOP}, or both at most {BOTTOM}, so "
    "that nothing could tell them apart.",
    Verdict.NOT_TESTABLE: f"on some table a side is below {TOP} at 1x, and no other table is left; "
    "what fails at its training length says nothing about reach.",
    Verdict.NOT_MEASURED: "on some table fewer than two seeds have both sides, or their score at "
    "1x is not known.",
}

RULE = f"""\
What papers say, in `claims.yaml`, was written down before the runs; remarks came afterwards, and a
claim that was written after its records were seen is marked *post hoc* and counted apart.

**How a claim is judged** (second version of the rule, 2026-11-22; the first judged each table by
itself). A claim is one hypothesis over all the tables it names, a table being one task with one
encoding. Each seed with both sides gives a pair of scores a table, each score the mean over the
lengths claimed; scores are corrected for chance, (score - chance) / (1 - chance). The difference is
the mean over all pairs, with its 95 % interval (Student's t over the pairs, not corrected for the
number of claims). p is two-sided, against the hypothesis that the difference is the margin. If both
sides come from the same training, or one is a number, it is computed by flipping the signs of
pairs, and otherwise by exchanging scores between the two sides of each table. It is corrected after
Holm over all claims of the same paper, where one without a p counts as 1 and claims *post hoc* are
corrected among themselves; where some were not testable and a larger budget was tried, the claims
about that are a family of their own, written down before its runs. A verdict speaks of these tables
and not of other tasks.

A claim about reach, which is one that names a length beyond 1x unless it says otherwise, drops
every table on which a side is below {TOP} at 1x (*not testable*), and every other table on which
two rows are both at least {TOP} or both at most {BOTTOM} (*no room*). These are means over the
seeds of the pairs. If no table is left, the verdict is their common reason, or *not testable* if
the reasons differ. A claim about 1x itself has no such gate, and one against a number or with a
negative margin needs no room. Tasks whose settings were changed are shown and do not count unless
the claim names them.

In the tables, two numbers are those of the two sides in the order of the claim; "as claimed" counts
tables by their means, and seeds. A difference of a hundredth may hold and still not matter.
"""
