"""Tests of a difference between rows: of two by exchanging runs, of many by their ranks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pandas as pd

from posbench.errors import PosbenchError
from posbench.streams import stream_seed

EXCHANGES = 100_000
"""Random exchanges of a test that has too many to try them all."""
CHUNK = 10_000
"""Exchanges that are held in memory at once."""
ALPHA = 0.05


def sign_flip(differences: npt.ArrayLike, exchanges: int = EXCHANGES, seed: int = 0) -> float:
    """The two-sided p of paired differences whose mean would be 0: for rows that share weights.

    If a row and its host differ by nothing, each difference is as likely with the other sign. Of
    n differences all 2^n signs are tried, or `exchanges` random ones if there are more; with n
    the smallest p is 2 / 2^n. NaN without a difference. `differences` are [pair], in areas.

    Source: Fisher 1935, "The design of experiments", section 21; `scipy.stats.permutation_test`.
    """
    from scipy import stats  # a second to import, and `posbench.results` should answer at once

    values = np.asarray(differences, float)
    if not len(values):
        return np.nan
    if len(values) == 1:
        return 1.0  # either sign is as extreme, and scipy wants two differences
    generator = np.random.default_rng(stream_seed(seed, "sign flip"))
    tested = stats.permutation_test(
        (values,),
        lambda x, axis: np.mean(x, axis=axis),
        permutation_type="samples",
        vectorized=True,
        n_resamples=exchanges,
        batch=CHUNK,
        rng=generator,
    )
    return float(tested.pvalue)


def permutation(
    ones: Sequence[npt.ArrayLike],
    others: Sequence[npt.ArrayLike],
    exchanges: int = EXCHANGES,
    seed: int = 0,
) -> float:
    """The two-sided p of two rows that were trained apart, over one or more tasks.

    The statistic is the mean over tasks of the difference of means over seeds. If the rows differ
    by nothing, the runs of a task may be exchanged between them: they are, at random, within each
    task. p = (1 + number at least as extreme) / (1 + exchanges), which is never 0 and valid
    whatever their number (Phipson and Smyth 2010, arXiv 1603.05766). NaN without a task.

    Args:
        ones: areas of the first row, [seed] for each task
        others: areas of the second row, [seed] for each task, in the order of `ones`
        exchanges: how many are drawn
        seed: of the draw
    """
    if not len(ones):
        return np.nan
    generator = np.random.default_rng(stream_seed(seed, "permutation"))
    observed, drawn = 0.0, np.zeros(exchanges)
    for one, other in zip(ones, others, strict=True):
        a, b = np.asarray(one, float), np.asarray(other, float)
        pooled = np.concatenate([a, b])
        observed += a.mean() - b.mean()
        for start in range(0, exchanges, CHUNK):
            size = min(CHUNK, exchanges - start)
            mixed = generator.permuted(np.tile(pooled, (size, 1)), axis=1)
            difference = mixed[:, : len(a)].mean(1) - mixed[:, len(a) :].mean(1)
            drawn[start : start + size] += difference
    # Sums in another order differ in the last bits, and must count as equal.
    extreme = np.abs(drawn) >= abs(observed) - 1e-9
    return float((1 + extreme.sum()) / (1 + exchanges))


def holm(values: Sequence[float]) -> list[float]:
    """Adjust the p values of a family so that the chance of any false rejection is controlled.

        adjusted (i) = max over j <= i of min(1, (n + 1 - j) p (j)),  p (1) the smallest

    NaN stay NaN and are no part of the family. Source: Holm 1979, "A simple sequentially
    rejective multiple test procedure".
    """
    adjusted = np.array(values, float)
    family = np.flatnonzero(~np.isnan(adjusted))
    order = family[np.argsort(adjusted[family], kind="stable")]
    scaled = adjusted[order] * np.arange(len(order), 0, -1)
    adjusted[order] = np.minimum(np.maximum.accumulate(scaled), 1)
    return adjusted.tolist()


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
            means: [row, task], see `posbench.leaderboard.statistics.task_means`
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
