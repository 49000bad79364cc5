"""The interval of a rank correlation over rows, on simulated ones."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from posbench.statistics.correlation import over_rows


@pytest.mark.slow
def test_the_interval_over_rows_holds_the_true_correlation() -> None:
    """Of rows that are drawn anew; Bonett and Wright measured about as much."""
    random, true = np.random.default_rng(0), 6 / np.pi * np.arcsin(0.8 / 2)
    held = []
    for _ in range(500):
        pairs = random.multivariate_normal([0, 0], [[1, 0.8], [0.8, 1]], 20)
        low, high = over_rows(float(stats.spearmanr(pairs).statistic), 20)
        held.append(low <= true <= high)
    assert 0.93 <= np.mean(held) <= 0.98
    assert all(np.isnan(over_rows(0.5, 4))) and over_rows(1.0, 8)[1] <= 1
