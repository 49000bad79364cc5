"""Runs as they are: how often one is above a threshold, or above another."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pandas as pd

from posbench.statistics.aggregates import checked


def profiles(runs: pd.DataFrame, thresholds: npt.ArrayLike) -> pd.DataFrame:
    """The share of runs with an area above each threshold: a performance profile, by row.

        F(tau) = mean over tasks of (share of seeds with area > tau)

    Tasks weigh the same whatever their number of seeds. A profile that lies above another
    everywhere is of a better row by any mean, median or quantile. Returns [threshold, row].

    Source: Agarwal et al. 2021, arXiv 2108.13264, section 4.2.
    """
    taus = np.asarray(thresholds, float)
    found = {}
    for row, part in checked(runs).dropna(subset="area").groupby("row", sort=True):
        shares = [
            (seeds.to_numpy()[:, None] > taus).mean(0) for _, seeds in part.groupby("task")["area"]
        ]
        found[row] = np.mean(shares, axis=0)
    return pd.DataFrame(found, index=pd.Index(taus, name="threshold"))


def p_improvement(runs: pd.DataFrame, a: str, b: str) -> float:
    """The chance that a run of `a` is above a run of `b` on the same task, a tie counting half.

        P(a > b) = mean over tasks of U / (n m),  U of Mann and Whitney

    The mean is over the tasks that both have; NaN if there are none. It says how often, not by
    how much. Source: Agarwal et al. 2021, arXiv 2108.13264, section 4.3.
    """
    each = []
    for _, part in checked(runs).dropna(subset="area").groupby("task"):
        one, other = (part.loc[part["row"] == row, "area"].to_numpy(float) for row in (a, b))
        if len(one) and len(other):
            difference = one[:, None] - other
            each.append(((difference > 0) + 0.5 * (difference == 0)).mean())
    return float(np.mean(each)) if each else np.nan
