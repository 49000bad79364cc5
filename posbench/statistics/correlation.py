"""Whether two boards put the same rows into the same order."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd

from posbench.statistics.effects import AdditiveFit


def rank_correlation(one: pd.Series, other: pd.Series) -> float:
    """Spearman's correlation, with average ranks for ties; NaN if one side is all ties."""
    if one.nunique() < 2 or other.nunique() < 2:
        return np.nan
    # Not by pandas' own, which imports all of scipy.stats: that takes longer than to fit a board.
    ranks = pd.DataFrame({"one": one, "other": other}).dropna().rank()
    return float(ranks["one"].corr(ranks["other"]))


def over_rows(value: float, rows: int) -> tuple[float, float]:
    """The 95 % interval of a rank correlation, as other rows might have given it.

        tanh(atanh(rho) +- 1.96 sqrt((1 + rho^2 / 2) / (n - 3)))

    NaN of fewer than five rows. Source: Bonett and Wright 2000, "Sample size requirements for
    estimating Pearson, Kendall and Spearman correlations".
    """
    if rows < 5 or np.isnan(value):
        return np.nan, np.nan
    half = 1.959964 * np.sqrt((1 + value**2 / 2) / (rows - 3))
    middle = np.arctanh(np.clip(value, -1 + 1e-9, 1 - 1e-9))
    return float(np.tanh(middle - half)), float(np.tanh(middle + half))


@dataclass(frozen=True)
class Agreement:
    """How two panels order the same rows, by the trainings that learned their task in both.

    A training is a row, a task and a seed. Where rows lack tasks, the additive model of rows and
    tasks says how far a row reaches, fitted to the same trainings in both panels.
    """

    pairs: pd.DataFrame  # row, task and seed, with the areas `one` and `other`

    @classmethod
    def of(cls, one: pd.DataFrame, other: pd.DataFrame) -> Agreement:
        """Of two tables of runs, with columns `row`, `task`, `seed`, `training`, `learned`, `area`.

        `training` and the rest of the columns are those of the first.
        """
        keys = ["row", "task", "seed"]
        sides = [runs[runs["learned"].astype(bool) & runs["area"].notna()] for runs in (one, other)]
        there = sides[1][[*keys, "area"]].rename(columns={"area": "other"})
        return cls(sides[0].rename(columns={"area": "one"}).merge(there, on=keys))

    @property
    def reaches(self) -> pd.DataFrame:
        """How far each row reaches in both, in columns `one` and `other`."""
        fitted = AdditiveFit.of(self.pairs, ["one", "other"], draws=1)
        return pd.DataFrame(fitted.numbers, fitted.rows, ["one", "other"])

    @property
    def correlation(self) -> float:
        """Spearman's, over rows."""
        return rank_correlation(self.reaches["one"], self.reaches["other"])

    @property
    def interval(self) -> tuple[float, float]:
        """Its 95 % interval, as other rows might have given it."""
        return over_rows(self.correlation, len(self.reaches))

    @property
    def tasks(self) -> list[str]:
        """The tasks that some row learned in both."""
        return sorted(self.pairs["task"].unique())

    def differences(self, row: str) -> pd.DataFrame:
        """The row minus each other row in both panels, in the mean over their common tasks."""
        cells = self.pairs.groupby(["row", "task"])[["one", "other"]].mean().unstack("task")
        less = (cells.loc[row] - cells).stack("task", future_stack=True).dropna()
        return less.groupby("row").mean().drop(index=row)
