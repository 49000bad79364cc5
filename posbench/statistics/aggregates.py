"""What every table of numbers starts from: runs in their order, means over seeds, classes of rows.

A table of runs has one line a training and test of what was trained, with columns

    row       label of the method
    task      name of the task
    seed      of the training
    area      share of 1, see `posbench.statistics.measures.area`
    learned   (may be left out: then all have) whether the training has learned its task
    training  (may be left out) hash of all that the weights depend on: runs that share it share
              weights, and so the luck of a seed
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
from scipy import special

from posbench.base.errors import PosbenchError
from posbench.base.wording import counted

CONFIDENCE = 0.95
FEWEST = 3
"""Seeds, or tasks, that an interval needs: two that agree by luck would give none, and Student's t
of two is wider than the scale.
"""
COLUMNS = ("row", "task", "seed", "area")

Array = npt.NDArray[np.float64]
DRAWS = 10_000
"""Draws of a bootstrap."""


def checked(runs: pd.DataFrame) -> pd.DataFrame:
    """The table in a fixed order, once it is known to be one of runs.

    Sums in another order would differ in their last bits. Raises `PosbenchError` if a column is
    missing or holds what it cannot, if there is no run, or if one is there twice.
    """
    if missing := [name for name in COLUMNS if name not in runs]:
        alone = missing == ["area"]
        hint = "; or `score` and `multiple`, as in the table of posbench.results.load" * alone
        raise PosbenchError(
            f"a table of runs needs columns {', '.join(missing)}: it has one line a run, with "
            f"columns {', '.join(COLUMNS)}{hint}"
        )
    if runs.empty:
        raise PosbenchError("there is no run in the table: run something first")
    if not runs.columns.is_unique:
        twice = runs.columns[runs.columns.duplicated()][0]
        raise PosbenchError(f"the table has the column {twice} twice: keep one of the two")
    if not pd.api.types.is_numeric_dtype(runs["area"]):
        raise PosbenchError(
            f"area must hold numbers, shares of 1, and holds {runs['area'].dtype}: convert it with "
            "pandas.to_numeric"
        )
    if not (within := runs["area"].isna() | runs["area"].between(-1, 1)).all():
        raise PosbenchError(
            f"area must be a share of 1, got {runs['area'][~within].iloc[0]:g} in "
            f"{counted(int((~within).sum()), 'line')}: divide a percentage by 100, and leave out "
            "what is infinite"
        )
    for name in ("row", "task", *({"class"} & {*runs})):
        kind = pd.api.types.infer_dtype(runs[name], skipna=True)
        if runs[name].isna().any() or kind not in ("string", "categorical"):
            other = next(each for each in runs[name] if not isinstance(each, str))
            raise PosbenchError(
                f"{name} must hold names, got {other!r}: convert the column with .map(str), and "
                "leave out lines without a name"
            )
    if "learned" in runs and not runs["learned"].isin([True, False]).all():
        other = runs["learned"][~runs["learned"].isin([True, False])].iloc[0]
        raise PosbenchError(
            f"learned must say of each run whether its training has learned, True or False, got "
            f"{other!r}: convert the column, or leave it out if all have"
        )
    if not pd.api.types.is_numeric_dtype(runs["seed"]) or runs["seed"].isna().any():
        raise PosbenchError(
            f"seed must hold whole numbers, and holds {runs['seed'].dtype} or nothing: convert it "
            "with pandas.to_numeric, and leave out lines without a seed"
        )
    if "steps_to_gate" in runs and not pd.api.types.is_numeric_dtype(runs["steps_to_gate"]):
        raise PosbenchError(
            f"steps_to_gate must hold numbers, and holds {runs['steps_to_gate'].dtype}: convert it "
            "with pandas.to_numeric, or leave it out"
        )
    twice = runs.duplicated(["row", "task", "seed"])
    if twice.any():
        row, task, seed = runs.loc[twice, ["row", "task", "seed"]].iloc[0]
        raise PosbenchError(f"{row} has seed {seed} of {task} twice: keep one of the two runs")
    return runs.sort_values(["row", "task", "seed"], kind="stable")


# -- A mean over seeds, with its interval by Student's t -------------------------------------------


def quantile(count: Any) -> Any:
    """Half the width of the 95 % interval of a mean of `count` values, in its standard errors;
    that of two where there is one.
    """
    return special.stdtrit(np.maximum(count - 1, 1), (1 + CONFIDENCE) / 2)


def wilson(right: int, of: int) -> tuple[float, float]:
    """The 95 % interval of a share. Source: Wilson 1927, "Probable inference"."""
    from scipy.stats import binomtest  # which takes longer to import than a board to fit

    found = binomtest(right, of).proportion_ci(method="wilson")
    return float(found.low), float(found.high)


@dataclass(frozen=True)
class Estimate:
    """A mean over seeds and half the width of its interval, which is NaN for one seed or two."""

    mean: float
    half_width: float

    @classmethod
    def over(cls, seeds: Iterable[float]) -> Estimate:
        [found] = cls.each(np.array(list(seeds), float)[None])
        return found

    @classmethod
    def each(cls, values: Array) -> list[Estimate]:
        """One estimate for each thing, all measured on the same seeds, [thing, seed]."""
        count = values.shape[1]
        means = values.mean(1) if count else np.full(len(values), np.nan)
        if count < FEWEST:
            return [cls(mean, np.nan) for mean in means.tolist()]
        widths = quantile(count) * values.std(1, ddof=1) / count**0.5
        return list(map(cls, means.tolist(), widths.tolist()))


# -- the classes of rows, by what each row was given -----------------------------------------------

ZERO_SHOT = "zero-shot"
PRETRAINED = "pretrained"
"""What the classes of rows of pretrained models begin with."""


def zero_shot_first(kind: str) -> tuple[bool, str]:
    """The order of classes on every board, to sort by."""
    return kind != ZERO_SHOT, kind


def is_pretrained(kind: str) -> bool:
    return kind.startswith(PRETRAINED)
