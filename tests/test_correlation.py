"""The rank correlation of two boards, against scipy's."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from posbench.base.errors import PosbenchError
from posbench.statistics import bootstrap
from posbench.statistics.correlation import RankCorrelation


def draws(areas: dict[str, list[float]]) -> bootstrap.Draws:
    runs = [
        {"row": row, "task": "t", "group": "g", "seed": seed, "area": area}
        for row, of_row in areas.items()
        for seed, area in enumerate(of_row)
    ]
    return bootstrap.given_tasks(pd.DataFrame(runs), draws=500)


@pytest.mark.filterwarnings("ignore:An input array is constant")
def test_a_rank_correlation_is_that_of_scipy_draw_by_draw() -> None:
    one = draws({"a": [0.1, 0.5], "b": [0.2, 0.4], "c": [0.3, 0.9], "d": [0.3, 0.3]})
    two = draws({"a": [0.6, 0.5], "b": [0.2, 0.2], "c": [0.7, 0.1], "d": [0.3, 0.4]})
    found = RankCorrelation.of(one, two)
    estimates = (np.round(each.estimates.mean(0), 9) for each in (one, two))  # a, b and d tie
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
