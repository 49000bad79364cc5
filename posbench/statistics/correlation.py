"""Whether two boards put the same rows into the same order."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd
from scipy import stats

from posbench.base.errors import PosbenchError
from posbench.statistics.aggregates import CONFIDENCE, Array
from posbench.statistics.bootstrap import Draws


def rank_correlation(one: pd.Series, other: pd.Series) -> float:
    """Spearman's correlation, with average ranks for ties; NaN if one side is all ties."""
    if one.nunique() < 2 or other.nunique() < 2:
        return np.nan
    return float(one.corr(other, method="spearman"))


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
class RankCorrelation:
    """Spearman's, of the overall numbers of the same rows on two sides, with its interval."""

    value: float
    low: float
    high: float

    @classmethod
    def of(cls, one: Draws, other: Draws, confidence: float = CONFIDENCE) -> RankCorrelation:
        """Rows that tie share their mean rank; draws in which all of one side tie say nothing.

        NaN where the estimates of one side tie. Raises `PosbenchError` if rows differ.
        """
        if one.rows != other.rows:
            raise PosbenchError("a rank correlation is of the same rows on both sides")
        value = _correlated(one.estimates[None], other.estimates[None])
        drawn = _correlated(one.overall, other.overall)
        drawn = drawn[~np.isnan(drawn)]
        if np.isnan(value[0]) or not len(drawn):
            return cls(np.nan, np.nan, np.nan)
        low, high = np.quantile(drawn, [(1 - confidence) / 2, (1 + confidence) / 2])
        return cls(float(value[0]), float(low), float(high))


def _correlated(one: Array, other: Array) -> Array:
    """Rank correlation of each draw; both are [draw, row]."""
    sides = [stats.rankdata(np.round(values, 9), axis=1) for values in (one, other)]
    centred = [ranks - ranks.mean(1, keepdims=True) for ranks in sides]
    norms = np.sqrt((centred[0] ** 2).sum(1) * (centred[1] ** 2).sum(1))
    products = (centred[0] * centred[1]).sum(1)
    return np.divide(products, norms, out=np.full(len(norms), np.nan), where=norms > 0)
