"""The rank correlation of two boards, against scipy's."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from posbench.base.errors import PosbenchError
from posbench.statistics import bootstrap
from posbench.statistics.correlation import RankCorrelation, over_rows


def draws(areas: dict[str, list[float]]) -> bootstrap.Draws:
    return bootstrap.resampled(pd.DataFrame(areas), draws=500)


@pytest.mark.filterwarnings("ignore:An input array is constant")
def test_a_rank_correlation_is_that_of_scipy_draw_by_draw() -> None:
    one = draws({"a": [0.1, 0.5], "b": [0.2, 0.4], "c": [0.3, 0.9], "d": [0.3, 0.3]})
    two = draws({"a": [0.6, 0.5], "b": [0.2, 0.2], "c": [0.7, 0.1], "d": [0.3, 0.4]})
    found = RankCorrelation.of(one, two)
    estimates = (np.round(each.estimates, 9) for each in (one, two))  # a, b and d tie
    value = stats.spearmanr(*estimates).statistic
    assert found.value == pytest.approx(value)
    each = [stats.spearmanr(a, b).statistic for a, b in zip(one.overall, two.overall, strict=True)]
    bounds = np.nanquantile(each, [0.025, 0.975])
    assert [found.low, found.high] == pytest.approx(list(bounds))
    assert found.low < found.high


def test_a_side_of_ties_has_no_rank_correlation() -> None:
    one, two = draws({"a": [0.1], "b": [0.2]}), draws({"a": [0.5], "b": [0.5]})
    assert np.isnan(RankCorrelation.of(one, two).value)
    with pytest.raises(PosbenchError, match="same rows"):
        RankCorrelation.of(one, draws({"a": [0.1], "c": [0.2]}))


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
