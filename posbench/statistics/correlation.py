"""Whether two boards put the same rows into the same order."""

from __future__ import annotations

import numpy as np
import pandas as pd


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
