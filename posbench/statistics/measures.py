"""What one run is worth: its score above guessing, its area and its reach.

Lengths are multiples of positions: the positions of a test over those of the longest sequence of
training. All axes of lengths are logarithmic, because lengths are compared by their ratio.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from posbench.base.errors import PosbenchError
from posbench.base.wording import agreeing, counted

if TYPE_CHECKING:
    import pandas as pd  # a run that is complete shows its area, and does not wait for pandas

LONGEST = 8.0
"""The multiple that areas end at, where no other is given; what is measured beyond it counts for
the reach alone."""
HALF = 0.5
"""The corrected score that a run must hold to reach a length."""
NEAR = 0.05
"""By how much, as a share, a length may miss its multiple: lengths come in whole
units of a task, so that the nearest to 8x may be 7.93x or 8.06x."""

Numbers = Sequence[float] | npt.NDArray[np.float64]


def corrected(scores: Numbers | float, chances: Numbers | float) -> npt.NDArray[np.float64]:
    """Correct scores for chance: (s - c) / (1 - c), which is 0 for guessing and 1 for no error.

    The value is signed: a run that does worse than guessing is below 0. `chances`, the scores of
    guessing, have the shape of `scores` or are one number. Raises `ValueError` if guessing is
    always right, for nothing can be learnt from such a score. Source: Cohen 1960, "A coefficient
    of agreement for nominal scales" (the form of kappa).
    """
    score, chance = np.asarray(scores, float), np.asarray(chances, float)
    if np.any(chance >= 1):
        raise ValueError("a chance of 1 leaves no score above guessing: give chances below 1")
    return (score - chance) / (1 - chance)


def corrected_lines(table: pd.DataFrame) -> npt.NDArray[np.float64]:
    """`corrected` for each line of the long table."""
    return corrected(table["score"].to_numpy(float), table["chance"].to_numpy(float))


def area(
    multiples: Numbers,
    scores: Numbers,
    chances: Numbers | float = 0.0,
    longest: float = LONGEST,
) -> float:
    """Average the corrected score over the logarithm of the length, from 1x to 8x.

        area = (1 / ln 8) * integral from 0 to ln 8 of max(0, corrected score) d ln m

    The integral is a trapezoid over the lengths that were measured, so the area is between 0 and
    1 and does not depend on how densely lengths were chosen. If the length nearest to 8x is
    a little shorter, its score is held constant up to exactly 8; if it is a little longer, the
    score at 8 is interpolated. Rungs beyond it are left out, so that a run that climbed further
    has the same area. NaN if 1x or 8x was not measured, or if a score between them is NaN.

    Args:
        multiples: true multiples of the positions of training, in any order, [length]
        scores: between 0 and 1, [length]
        chances: the scores of guessing, [length] or one number
        longest: the multiple at which the area ends in place of 8, larger than 1
    """
    multiple, score = _measured(multiples, scores, chances)
    if not _from_training(multiple):
        return np.nan
    misses = np.abs(np.log(multiple / longest))
    last = int(np.argmin(misses))
    if misses[last] > np.log1p(NEAR):
        return np.nan
    axis, height = np.log(multiple[: last + 1]), np.maximum(score[: last + 1], 0.0)  # keeps NaN
    end = np.log(longest)
    held = np.interp(end, axis, height)  # beyond its last point, `interp` holds the value
    inside = axis < end
    return float(np.trapezoid(np.append(height[inside], held), np.append(axis[inside], end)) / end)


@dataclass(frozen=True)
class Reach:
    """The longest multiple with a corrected score of at least .5, which may be censored.

    `low` and `high` enclose the multiple. They are equal where the crossing was seen; `low` is 0
    if the run did not hold even 1x, and `high` is infinite if it held all that was measured.
    """

    low: float
    high: float

    @property
    def value(self) -> float:
        """The multiple; of a censored reach the bound that is known."""
        return self.low if self.low > 0 else self.high

    @property
    def censored(self) -> str:
        """Say where the multiple lies if it is not known: "below" the value or "above" it."""
        if self.low == self.high or np.isnan(self.low):
            return ""
        return "above" if self.low > 0 else "below"

    def __str__(self) -> str:
        if np.isnan(self.value):
            return "\N{EN DASH}"
        sign = {"": "", "below": "< ", "above": "> "}[self.censored]
        return f"{sign}{self.value:.3g}"


def reach(
    multiples: Numbers,
    scores: Numbers,
    chances: Numbers | float = 0.0,
) -> Reach:
    """Find the first crossing of 1/2 by the corrected score, in multiples of training.

        ln m* = ln m_i + (s_i - 1/2) / (s_i - s_(i+1)) * (ln m_(i+1) - ln m_i)

    Here i is the last length before the first one below 1/2. All lengths from 1x on
    count, the ladder's rungs of 16x, 32x and 64x included. A run below it at 1x is
    censored below ("< 1"); one that never falls below is censored above its last length ("> 64",
    or "> 8" where the ladder ended because the method is not defined beyond). NaN if 1x is
    missing, or if a score is NaN before the crossing.

    Args:
        multiples: true multiples of the positions of training, in any order, [length]
        scores: between 0 and 1, [length]
        chances: the scores of guessing, [length] or one number
    """
    multiple, score = _measured(multiples, scores, chances)
    if not _from_training(multiple):
        return Reach(np.nan, np.nan)
    below = np.flatnonzero(~(score >= HALF))  # a NaN stops the search as well
    if not len(below):
        return Reach(float(multiple[-1]), np.inf)
    first = int(below[0])
    if np.isnan(score[first]):
        return Reach(np.nan, np.nan)
    if first == 0:
        return Reach(0.0, 1.0)
    # From the later length to the earlier, because `interp` wants an ascending axis.
    ends = slice(first, first - 2 if first > 1 else None, -1)
    found = float(np.exp(np.interp(HALF, score[ends], np.log(multiple[ends]))))
    return Reach(found, found)


def steps_to_gate(steps: Sequence[int], scores: Numbers, gate: float) -> int | None:
    """The step of the first validation whose score is at the gate; None if there is none.

    Args:
        steps: of the validations, ascending, [validation]
        scores: the proficiency at each, [validation]
        gate: the score that counts as learned
    """
    passed = np.flatnonzero(np.asarray(scores, float) >= gate)
    return steps[int(passed[0])] if len(passed) else None


NEEDED = {
    **dict.fromkeys(("protocol", "protocol_hash", "task", "task_hash", "task_version"), False),
    **dict.fromkeys(("method", "method_hash", "method_class", "training_hash"), False),
    **dict.fromkeys(("seed", "test_length", "multiple", "score", "chance", "solved"), True),
}
"""Columns of the long table that `of_runs` needs, and whether they hold numbers."""
OF_TRAINING = {
    "cpu_seconds": "train_cpu_seconds",
    "steps_to_gate": "solved_step",
    "multiplications": "multiplications",
    "step_multiplications": "step_multiplications",
}
"""Columns of `of_runs` that tell of the training, and those of the long table, if it has them."""
MEASURED = ("score", "chance")
"""Those of them that may be unknown, which is NaN; what depends on it is NaN as well."""


def refuse_lacking(table: pd.DataFrame, needed: Mapping[str, bool]) -> None:
    """PosbenchError names what a table lacks of these columns, or which should hold numbers."""
    import pandas as pd

    if lacking := [name for name in needed if name not in table]:
        raise PosbenchError(
            f"the table lacks {agreeing(len(lacking), 'the column', 'the columns')} "
            f"{', '.join(lacking)}, which posbench.results.load gives: keep "
            f"{agreeing(len(lacking), 'it', 'them')}"
        )
    for name, is_number in needed.items():
        column = table[name]
        if is_number and not pd.api.types.is_numeric_dtype(column):
            raise PosbenchError(
                f"the column {name} must hold numbers, and holds {column.dtype}: convert it with "
                "pandas.to_numeric"
            )
        lines = column.isna() if name not in MEASURED else pd.Series(False, table.index)
        if is_number:
            lines = lines | np.isinf(column.astype(float))
        if lines.any():
            where = counted(int(lines.sum()), "line")
            raise PosbenchError(
                f"the column {name} has {column[lines].iloc[0]} in {where}: leave such lines out"
            )


def of_runs(table: pd.DataFrame, longest: float = LONGEST) -> pd.DataFrame:
    """Reduce the long table of `posbench.results.load` to one line a run, with its measures.

    The lengths are `true_multiple` if the table has it, and the nominal `multiple` otherwise.
    Areas end at `longest`. A run that lacks one of the lengths up to there that others of its task
    and training length have gets no area, for an area over other lengths would not be comparable.
    Lengths below that of training count for nothing. Of a run that is there twice, the last counts.

    Returns columns `protocol`, `task`, the names under which they are shown, `protocol_name`,
    `task_name` and `row` (that of the method; each the label where the table has no such column),
    `class`, `seed`, `training` (hash: runs that share it share weights), `cpu_seconds` of training
    (NaN if the table lacks them), `in_distribution` (corrected score at 1x), `learned` (the test at
    1x reached the gate of its task), `trained` (that of the same training did without an extension;
    where it is not in the table, `learned`), `steps_to_gate` (of the first validation at the gate;
    NaN if none was), the `multiplications` until then and the `step_multiplications` (both NaN in
    records that lack them), `area` (share of 1), and `reach` (a `Reach`, in multiples).
    """
    lengths = "true_multiple" if "true_multiple" in table else "multiple"
    task = ["protocol", "protocol_hash", "task", "task_hash", "task_version"]
    run = ["method", "method_hash", "seed"]
    counted = table[table["multiple"] >= 1]
    once = counted.drop_duplicates([*task, *run, "test_length"], keep="last")
    # Plain arrays, cut at the ends of runs: a data frame for each of 10,000 takes half a minute.
    kinds = once.groupby([*task, *run], sort=True).ngroup().to_numpy()
    order = np.argsort(kinds, kind="stable")
    ends = np.flatnonzero(np.diff(kinds[order], append=-1)) + 1
    starts = [0, *ends[:-1]]
    once = once.iloc[order]
    known = once[[lengths, "score", "chance"]].to_numpy(float).T
    nominal, tested = once["multiple"].to_numpy(float), once["test_length"].to_numpy()
    # What a board trains on longer sequences, under its own protocol, has other test lengths.
    alike = [*task, *({"train_length"} & {*once})]
    of_task = once.groupby(alike, sort=True).ngroup().to_numpy()
    inside = known[0] <= longest * (1 + NEAR)
    usual = once.loc[inside, "test_length"].groupby(of_task[inside])
    expected = {number: set(found) for number, found in usual}
    firsts = once.iloc[starts] if len(once) else once
    shown = {"protocol_name": "protocol", "task_name": "task", "row": "method"}
    told = {name: name if name in firsts else label for name, label in shown.items()}
    told |= {"class": "method_class", "training": "training_hash", "learned": "solved"}
    told |= {name: column for name, column in OF_TRAINING.items() if column in firsts}
    areas, reaches, bases = [], [], []
    for start, end in zip(starts, ends, strict=False):
        multiples, scores, chances = known[:, start:end]
        base = np.flatnonzero(nominal[start:end] == 1)
        whole = expected.get(of_task[start], set()) <= set(tested[start:end])
        bases.append(float(corrected(scores[base[0]], chances[base[0]])) if len(base) else np.nan)
        areas.append(area(multiples, scores, chances, longest) if whole else np.nan)
        reaches.append(reach(multiples, scores, chances))
    found = firsts.assign(**{name: firsts[column] for name, column in told.items()})
    found = found.assign(trained=_trained(firsts), in_distribution=bases, area=areas, reach=reaches)
    columns = ["protocol", "task", *shown, "class", "seed", "training", *OF_TRAINING]
    columns += ["in_distribution", "learned", "trained", "area", "reach"]
    numbers = dict.fromkeys(OF_TRAINING, float)
    return found.reindex(columns=columns).astype({"learned": bool} | numbers).reset_index(drop=True)


def _trained(runs: pd.DataFrame) -> npt.NDArray[np.bool_]:
    """Whether the training of each run had learned its task before it was extended."""
    learned, hashes = runs["solved"].astype(bool), runs["training_hash"]
    if "plain" not in runs:
        return learned.to_numpy(bool)
    plain = runs["plain"].astype(bool)
    alone = dict(zip(hashes[plain], learned[plain], strict=True))
    pairs = zip(hashes, learned, strict=True)
    return np.array([alone.get(name, own) for name, own in pairs], dtype=bool)


def _measured(
    multiples: Numbers, scores: Numbers, chances: Numbers | float
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """The lengths from 1x on, in ascending order, and their corrected scores."""
    multiple = np.asarray(multiples, float)
    score = np.broadcast_to(corrected(scores, chances), multiple.shape)
    order = np.argsort(multiple, kind="stable")
    order = order[multiple[order] >= 1 - 1e-6]
    return multiple[order], score[order]


def _from_training(multiples: npt.NDArray[np.float64]) -> bool:
    """Whether the first length is that of training; not by `np.isclose`, which is slow."""
    return len(multiples) > 0 and abs(float(multiples[0]) - 1) < 1e-5
