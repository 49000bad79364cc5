"""Tests of many rows at once, by their ranks over tasks."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd

from posbench.base.errors import PosbenchError

ALPHA = 0.05


@dataclass(frozen=True)
class CriticalDifference:
    """Average ranks over tasks, and by how much two must differ to be told apart."""

    ranks: pd.Series  # by row, best (lowest) first
    num_tasks: int
    chi_squared: float  # of Friedman
    f: float  # of Iman and Davenport
    p: float  # of f
    difference: float  # of Nemenyi
    cliques: list[list[str]]  # rows that are not told apart, as many together as can be

    @classmethod
    def of(cls, means: pd.DataFrame, alpha: float = ALPHA) -> CriticalDifference:
        """Compare k rows over N tasks by their ranks on each, 1 for the best.

            chi^2 = 12 N / (k (k + 1)) * (sum of R_j^2 - k (k + 1)^2 / 4)
            F = (N - 1) chi^2 / (N (k - 1) - chi^2),  with k - 1 and (k - 1) (N - 1) degrees
            CD = q_alpha sqrt(k (k + 1) / (6 N)),  q_alpha of the studentised range / sqrt 2

        R_j is the average rank of row j; rows that tie on a task share the average of their
        ranks. Neither statistic is corrected for ties, as in the source; both are smaller for it,
        and so conservative (`scipy.stats.friedmanchisquare` corrects). Rows that lack a task are
        left out. Raises `PosbenchError` with fewer than two rows or tasks.

        Source: Demsar 2006, "Statistical comparisons of classifiers over multiple data sets",
        Journal of Machine Learning Research 7.

        Args:
            means: [row, task], see `posbench.statistics.aggregates.task_means`
            alpha: the error rate over all pairs of rows
        """
        from scipy import stats

        complete = means.dropna()
        rows, tasks = complete.shape
        if rows < 2 or tasks < 2:
            raise PosbenchError(f"{rows} rows on {tasks} tasks: ranks need two of each at least")
        # Rounded, so that what ties in exact arithmetic ties here.
        ranked = complete.round(9).rank(ascending=False).mean(axis=1)
        spread = (ranked**2).sum() - rows * (rows + 1) ** 2 / 4
        chi_squared = float(12 * tasks / (rows * (rows + 1)) * spread)
        rest = tasks * (rows - 1) - chi_squared
        f = (tasks - 1) * chi_squared / rest if rest > 1e-9 else np.inf
        quantile = stats.studentized_range.ppf(1 - alpha, rows, np.inf) / 2**0.5
        difference = float(quantile * (rows * (rows + 1) / (6 * tasks)) ** 0.5)
        ranks = ranked.sort_index().sort_values(kind="stable")
        return cls(
            ranks=ranks,
            num_tasks=tasks,
            chi_squared=chi_squared,
            f=float(f),
            p=float(stats.f.sf(f, rows - 1, (rows - 1) * (tasks - 1))),
            difference=difference,
            cliques=_cliques(ranks, difference),
        )


def _cliques(ranks: pd.Series, difference: float) -> list[list[str]]:
    """The longest stretches of neighbours whose ends differ by less than the difference."""
    values, found, covered = ranks.to_numpy(), [], 0
    for first, value in enumerate(values):
        end = int(np.searchsorted(values, value + difference))
        if end > covered and end - first > 1:
            found.append(list(ranks.index[first:end]))
            covered = end
    return found
