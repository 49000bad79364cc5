"""Tests of differences, against scipy, all exchanges there are, and a published example."""

from __future__ import annotations

import itertools
import re

import numpy as np
import pandas as pd
import pytest
from runs import random_runs, runs
from scipy import stats

from posbench.base.errors import PosbenchError
from posbench.showing import comparison_figures
from posbench.statistics import aggregates, randomisation
from posbench.statistics import aggregates as distributions
from posbench.statistics.rank_tests import CriticalDifference


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ([0.9, 0.7, 0.85, 0.6], [0.5, 0.65, 0.62, 0.2]),
        ([0.9, 0.7, 0.85], [0.5, 0.65, 0.62, 0.2, 0.71]),
    ],
)
def test_sides_may_have_unlike_numbers_of_runs(one: list[float], other: list[float]) -> None:
    exact = stats.permutation_test(
        (one, other), lambda x, y: np.mean(x) - np.mean(y), n_resamples=np.inf
    )
    # scipy doubles the smaller tail, which is not symmetric for unlike numbers.
    scores, size = [*one, *other], len(one)
    every = [
        np.mean([scores[i] for i in chosen])
        - np.mean([scores[i] for i in range(len(scores)) if i not in chosen])
        for chosen in itertools.combinations(range(len(scores)), size)
    ]
    brute = np.mean(np.abs(every) >= abs(np.mean(one) - np.mean(other)) - 1e-12)
    assert randomisation.exchange([[one, other]]) == pytest.approx(brute)
    if size == len(other):
        assert brute == pytest.approx(exact.pvalue)


def test_runs_are_exchanged_within_their_task() -> None:
    # The same difference twice, on tasks of unlike levels: exchanged over tasks it would drown.
    strata = [[[0.1, 0.12], [0.05, 0.06]], [[0.8, 0.83], [0.75, 0.76]]]
    # 36 exchanges, of which only the one seen and its mirror image are as extreme.
    assert randomisation.exchange(strata) == pytest.approx(2 / 36)
    assert randomisation.exchange([[[0.5, 0.4], [0.5, 0.4]]]) == 1
    assert np.isnan(randomisation.exchange([]))


DEMSAR = pd.DataFrame(
    {
        "C4.5": [
            *(0.763, 0.599, 0.954, 0.628, 0.882, 0.936, 0.661),
            *(0.583, 0.775, 1.000, 0.940, 0.619, 0.972, 0.957),
        ],
        "C4.5+m": [
            *(0.768, 0.591, 0.971, 0.661, 0.888, 0.931, 0.668),
            *(0.583, 0.838, 1.000, 0.962, 0.666, 0.981, 0.978),
        ],
        "C4.5+cf": [
            *(0.771, 0.590, 0.968, 0.654, 0.886, 0.916, 0.609),
            *(0.563, 0.866, 1.000, 0.965, 0.614, 0.9751, 0.946),
        ],
        "C4.5+m+cf": [
            *(0.798, 0.569, 0.967, 0.657, 0.898, 0.931, 0.685),
            *(0.625, 0.875, 1.000, 0.962, 0.669, 0.975, 0.970),
        ],
    }
).T
"""AUC of four decision trees on 14 data sets: Table 6 of Demsar 2006. Its rank of C4.5+cf on the
last but one says that the printed .975 was the larger of the two."""


def test_the_published_example_of_ranks_is_found_again() -> None:
    found = CriticalDifference.of(DEMSAR)
    published = {"C4.5": 3.143, "C4.5+m": 2.000, "C4.5+cf": 2.893, "C4.5+m+cf": 1.964}
    assert found.ranks.to_dict() == pytest.approx(published, abs=5e-4)
    assert found.chi_squared == pytest.approx(9.28, abs=5e-3)
    assert found.f == pytest.approx(3.69, abs=5e-3)
    assert found.p < 0.05
    assert found.difference == pytest.approx(1.25, abs=5e-3)
    assert found.cliques == [["C4.5+m+cf", "C4.5+m", "C4.5+cf", "C4.5"]]
    # At .10 C4.5 is told from the two best, and C4.5+cf from none.
    looser = CriticalDifference.of(DEMSAR, alpha=0.1)
    assert looser.difference == pytest.approx(1.12, abs=5e-3)
    assert looser.cliques == [["C4.5+m+cf", "C4.5+m", "C4.5+cf"], ["C4.5+cf", "C4.5"]]


def test_friedman_and_nemenyi_are_those_of_scipy() -> None:
    means = aggregates.task_means(random_runs(rows=5, groups=6))
    found = CriticalDifference.of(means)
    theirs = stats.friedmanchisquare(*means.to_numpy())  # without ties there is no correction
    assert found.chi_squared == pytest.approx(theirs.statistic)
    # Two rows whose average ranks differ by just that much have p = .05.
    error = (5 * 6 / (12 * 12)) ** 0.5
    p = stats.studentized_range.sf(found.difference / error, 5, np.inf)
    assert p == pytest.approx(0.05)


def test_rows_that_are_always_in_one_order_and_rows_that_lack_a_task() -> None:
    areas = {f"r{row}": {f"t{task}": [0.1 * row] for task in range(40)} for row in range(3)}
    found = CriticalDifference.of(aggregates.task_means(runs(areas | {"lacks": {"t0": [1.0]}})))
    assert found.ranks.to_dict() == {"r2": 1, "r1": 2, "r0": 3}
    assert found.f == np.inf and found.p == 0 and found.cliques == []
    with pytest.raises(PosbenchError, match="two of each"):
        CriticalDifference.of(aggregates.task_means(runs({"p": {"a": [1.0], "b": [0.5]}})))


# -- pictures --------------------------------------------------------------------------------------


def test_pictures_are_the_same_text_each_time_and_name_every_row() -> None:
    table = random_runs(rows=30)
    table["row"] += " (encoding.steepness=${model.width})"
    names = sorted(table["row"].unique())
    found = CriticalDifference.of(aggregates.task_means(table))
    shares = distributions.profiles(table, np.linspace(0, 1, 21))
    for draw, kind in (
        (lambda: comparison_figures.critical_difference(found, "all"), "rank"),
        (lambda: comparison_figures.performance_profiles(shares, "all"), "profile"),
    ):
        svg = draw()
        assert svg == draw() and svg.startswith("<svg")
        assert set(re.findall(rf'id="{kind}-all-(\d+)"', svg)) == {str(n) for n in range(30)}
        for name in names:
            assert name[:10] in svg


def test_bars_of_a_diagram_do_not_lie_on_each_other() -> None:
    spans = [(1, 4), (2, 5), (3, 6), (4.5, 7), (6.5, 8)]
    levels = comparison_figures._levels([(float(a), float(b)) for a, b in spans])
    assert levels == [0, 1, 2, 0, 1]
