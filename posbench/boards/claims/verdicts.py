"""Whether records bear claims out: a test by sign flips or exchanges, with Holm's correction."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

import pandas as pd

from posbench.boards.claims.claim import Claim, Side
from posbench.records.tables import refuse_mixed
from posbench.showing.table import number
from posbench.statistics.aggregates import Estimate
from posbench.statistics.measures import corrected_lines
from posbench.statistics.randomisation import exchange, holm, sign_flip

# -- the rule by which claims are judged, as every page of claims has it at its top ----------------

ALPHA = 0.05
MIN_PAIRS, WAYS = 10, 5
"""What a test needs: pairs, and ways of exchanging the sides, in units of claims / alpha."""
MASTERED, FAILED = 0.95, 0.05
"""Mean scores from which a side masters a length, and up to which it fails there."""


class Outcome(StrEnum):
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
    Outcome.HOLDS: f"the corrected p is at most {LEVEL}, and the difference is above the margin.",
    Outcome.CONTRADICTED: f"the corrected p is at most {LEVEL}, and the difference is below the "
    "margin.",
    Outcome.OPEN: "the corrected p is larger.",
    Outcome.TOO_FEW: f"fewer than {MIN_PAIRS} pairs are left, or the two sides can be exchanged in "
    f"fewer than {WAYS} m / {LEVEL} ways, where the paper has m claims, so that almost no p could "
    "survive the correction. This was known before the runs, unless the gate at 1x took pairs "
    "away.",
    Outcome.NO_ROOM: f"on every table both rows are at least {TOP}, or both at most {BOTTOM}, so "
    "that nothing could separate them.",
    Outcome.NOT_TESTABLE: f"on some table a side is below {TOP} at 1x, and no other table is left; "
    "what fails at its training length says nothing about reach.",
    Outcome.NOT_MEASURED: "on some table fewer than two seeds have both sides, or their score at "
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

**By seed** (third rule, written 2026-11-26 after these records and before it was applied to them).
One seed that fails at 1x can drop a table whose other seeds master it. So the same claims are
judged again with a gate for each seed: a claim about reach keeps the pairs in which no side is
below {TOP} at 1x, and a table without such a pair is *not testable*. Room is judged on the means
of the pairs that are kept. All else is as above. The pairs that are kept are no random sample:
this rule asks how far a training reaches once it has learned.

In the tables, two numbers are those of the two sides in the order of the claim; "as claimed" counts
tables by their means, and seeds. A difference of a hundredth may hold and still not matter.
"""


# -- evidence and verdicts -------------------------------------------------------------------------

ROUNDING = 1e-9
"""What a mean of scores of .95 may differ from .95."""


@dataclass(frozen=True)
class Evidence:
    """A claim on one task with one encoding: both sides, by seed, over the seeds that have both."""

    claim: Claim
    task: str
    encoding: str
    of: pd.Series  # chance-corrected, the mean over the multiples claimed
    over: pd.Series
    at_1x_by_seed: pd.DataFrame  # a column for each side that is a row; may be NaN
    shared: bool  # whether the two scores of every pair come from one training
    counts: bool  # whether the claim is about this task
    num_run: int  # seeds that have both sides, whether they are kept or not

    @property
    def at_1x(self) -> tuple[float, ...]:
        """The mean of each side that is a row."""
        return tuple(self.at_1x_by_seed.mean(skipna=False))

    @property
    def mastered(self) -> Evidence:
        """The same on the seeds in which no side fails at 1x, for a claim about reach."""
        if not self.claim.about_reach:
            return self
        # A score that is not known is kept: it makes the table "not measured", and not smaller.
        kept = ~(self.at_1x_by_seed < MASTERED - ROUNDING).any(axis=1)
        of, over, at_1x = (each[kept] for each in (self.of, self.over, self.at_1x_by_seed))
        return replace(self, of=of, over=over, at_1x_by_seed=at_1x)

    @property
    def gate(self) -> Outcome | None:
        """Why the table is left out."""
        if self.num_run < 2:
            return Outcome.NOT_MEASURED
        if not self.claim.about_reach:
            return None
        if self.at_1x_by_seed.isna().any(axis=None):
            return Outcome.NOT_MEASURED
        if not len(self.of) or min(self.at_1x) < MASTERED - ROUNDING:
            return Outcome.NOT_TESTABLE
        low, high = sorted((self.of.mean(), self.over.mean()))
        full = low >= MASTERED - ROUNDING or high <= FAILED + ROUNDING
        roomy = not isinstance(self.claim.over, Side) or self.claim.by < 0
        return Outcome.NO_ROOM if full and not roomy else None

    @property
    def left(self) -> bool:
        return self.counts and self.gate is None

    @property
    def differences(self) -> pd.Series:
        return self.of - self.over


@dataclass(frozen=True)
class Finding:
    """What records say of one claim."""

    claim: Claim
    tables: list[Evidence]
    num_pairs: int  # of the tables that are left
    difference: Estimate  # over these pairs
    p: float  # NaN if the claim was not tested
    adjusted: float  # corrected within the paper
    verdict: Outcome

    @property
    def left(self) -> list[Evidence]:
        """The tables that the claim is judged on."""
        return [table for table in self.tables if table.left]


def findings(claims: Sequence[Claim], runs: pd.DataFrame, by_seed: bool = False) -> list[Finding]:
    """What the runs of one protocol say of each claim; `by_seed` is the third rule.

    `runs` has one row a run and multiple, with the columns task, task_changed, encoding, extension,
    changed, seed, multiple, score, chance and training_hash. Raises `PosbenchError` if a side of a
    claim has runs of several versions, or of several settings under one name: see
    `posbench.records.tables.refuse_mixed`.
    """
    runs = runs.assign(corrected=corrected_lines(runs))
    runs = runs.sort_values(["task", "encoding", "extension", "changed", "seed"])
    families = [(claim.family, claim.post_hoc) for claim in claims]
    tested = []
    for claim, family in zip(claims, families, strict=True):
        found = tables(claim, runs)
        kept = [each.mastered for each in found] if by_seed else found
        tested.append(_tested(claim, kept, families.count(family)))
    adjusted = [math.nan] * len(claims)
    for family in set(families):
        members = [index for index, each in enumerate(families) if each == family]
        corrected = holm([tested[index].p for index in members])
        for index, p in zip(members, corrected, strict=True):
            adjusted[index] = p
    return [_corrected(*each) for each in zip(tested, adjusted, strict=True)]


def tables(claim: Claim, runs: pd.DataFrame) -> list[Evidence]:
    """The tables of a claim, and those of other tasks on which both sides were run.

    Of experiments, the column `task` holds the names.
    """
    found = []
    for task in sorted(claim.experiments or {*runs["task"], *(claim.tasks or [])}):
        part = runs[runs["task"] == task]
        counts = task in claim.places if claim.places else not part["task_changed"].any()
        others = runs[runs["task"] == claim.place_of_over(task)] if counts else part
        for encoding in claim.encodings:
            table = _table(claim, part, others, str(task), encoding, counts)
            if counts or len(table.of):
                found.append(table)
    return found


def _table(
    claim: Claim, runs: pd.DataFrame, others: pd.DataFrame, task: str, encoding: str, counts: bool
) -> Evidence:
    """One table of the claim, from the runs of one task, and those of the other side."""
    left = _rows(runs, encoding, claim.of)
    of, at_1x = _mean(left, claim.at), {"of": _mean(left, [1])}
    if isinstance(claim.over, Side):
        right = _rows(others, encoding, claim.over)
        over = _mean(right, claim.over_at or claim.at)
        paired = of.index.intersection(over.index)
        at_1x["over"] = _mean(right, [1])
        one, other = (each.groupby("seed")["training_hash"].first() for each in (left, right))
        shared = bool((one.loc[paired] == other.loc[paired]).all())
    else:
        over, paired, shared = pd.Series(claim.over, of.index, float), of.index, True
    by_seed = pd.DataFrame({side: scores.reindex(paired) for side, scores in at_1x.items()})
    of, over = of.loc[paired], over.loc[paired]
    return Evidence(claim, task, encoding, of, over, by_seed, shared, counts, len(paired))


def _rows(runs: pd.DataFrame, encoding: str, side: Side) -> pd.DataFrame:
    """The runs of a side; PosbenchError if they are of several contents under one name."""
    row = side._replace(encoding=side.encoding or encoding)
    rows = runs[(runs[[*row._fields]] == row).all(axis=1)]
    refuse_mixed(rows.assign(side=side.label), ["task", "encoding", "side"])
    return rows


def _mean(rows: pd.DataFrame, multiples: list[float]) -> pd.Series:
    """The mean over the multiples, by seed, of the seeds that have them all."""
    by_seed = rows.pivot(index="seed", columns="multiple", values="corrected")
    return by_seed.reindex(columns=multiples).mean(axis=1, skipna=False).dropna().sort_index()


def _tested(claim: Claim, found: list[Evidence], family_size: int) -> Finding:
    """The finding before the correction: still open if there is a p."""
    left = [table for table in found if table.left]
    num_pairs = sum(len(table.of) for table in left)
    sides = [(table.of - claim.by, table.over) for table in left]
    shared = all(table.shared for table in left)
    each = [math.comb(2 * len(of), len(of)) for of, _ in sides]
    ways = 2**num_pairs if shared else math.prod(each)
    untested = _untested([table.gate for table in found if table.counts])
    if untested is None and (num_pairs < MIN_PAIRS or ways < WAYS * family_size / ALPHA):
        untested = Outcome.TOO_FEW
    p = math.nan
    if untested is None and shared:
        p = sign_flip([value for of, over in sides for value in of - over])
    elif untested is None:
        p = exchange(sides)
    difference = Estimate.over(value for table in left for value in table.differences)
    verdict = untested or Outcome.OPEN
    return Finding(claim, found, num_pairs, difference, p, math.nan, verdict)


def _untested(gates: list[Outcome | None]) -> Outcome | None:
    """The verdict of a claim with these gates; None if a table is left to test it on."""
    if not gates or Outcome.NOT_MEASURED in gates:
        return Outcome.NOT_MEASURED
    if None in gates:
        return None
    return Outcome.NO_ROOM if set(gates) == {Outcome.NO_ROOM} else Outcome.NOT_TESTABLE


def _corrected(finding: Finding, adjusted: float) -> Finding:
    """The finding with its corrected p, and with the verdict that follows from it."""
    if not adjusted <= ALPHA:  # also if it is NaN
        return replace(finding, adjusted=adjusted)
    above = finding.difference.mean > finding.claim.by
    verdict = Outcome.HOLDS if above else Outcome.CONTRADICTED
    return replace(finding, adjusted=adjusted, verdict=verdict)
