"""Means over seeds, or over samples of a large model, as others would have given them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd
from scipy import special

from posbench.base.errors import PosbenchError
from posbench.core.streams import stream_seed
from posbench.statistics.aggregates import CONFIDENCE, Array

DRAWS = 10_000


@dataclass(frozen=True)
class Draws:
    """Means of rows as they might have come out, with the estimates they vary around.

    A percentile of what is drawn from three values is that of a normal distribution whose spread is
    known. It is estimated, and so deviations from the estimate are widened by t / z, the quantiles
    of Student's t and of the normal distribution that bound 95 %: 2.2 times for three values.
    """

    rows: list[str]  # in the order of their names
    estimates: Array  # [row]
    overall: Array  # [draw, row]; rounded, so that rows that are the same tie

    def difference(self, a: str, b: str, confidence: float = CONFIDENCE) -> tuple[float, float]:
        """The percentile interval of the mean of `a` less that of `b`."""
        for row in (a, b):
            if row not in self.rows:
                raise PosbenchError(f"there is no row {row!r} with a mean")
        drawn = self.overall[:, self.rows.index(a)] - self.overall[:, self.rows.index(b)]
        low, high = np.quantile(drawn, [(1 - confidence) / 2, (1 + confidence) / 2])
        return float(low), float(high)


def resampled(values: pd.DataFrame, task: str = "", draws: int = DRAWS, seed: int = 0) -> Draws:
    """Resample seeds or samples with replacement, the same for all rows; `values` is [seed, row].

    Of k seeds k - 1 are drawn: the mean of k would have (k - 1) / k of the variance that an
    unbiased estimate has, two thirds with three seeds. A single seed does not vary. Rows without a
    mean are left out. `task` names the stream of random numbers.

    Source: McCarthy and Snowden 1985, "The bootstrap and finite population sampling" (k - 1 of k).
    """
    values = values.sort_index().sort_index(axis=1).dropna(axis=1)
    if values.empty:
        raise PosbenchError("no row has a value of every seed: give the runs of fewer rows")
    count, rows = len(values), [str(row) for row in values]
    key = repr([f"{each} {each}" for each in values.index])
    random = np.random.default_rng(stream_seed(seed, "seeds", 0, task, key))
    chosen = random.integers(count, size=(draws, max(count - 1, 1)), dtype=np.uint16)
    times = (chosen[:, :, None] == np.arange(count)).sum(1)
    areas = values.to_numpy(float)
    estimates, means = areas.mean(0), times @ areas / chosen.shape[1]
    tail = (1 + CONFIDENCE) / 2
    factor = special.stdtrit(count - 1, tail) / special.ndtri(tail) if count > 1 else 1.0
    return Draws(rows, estimates, np.round(estimates + factor * (means - estimates), 9))
