"""Tests of differences, against scipy, all exchanges there are, and a published example."""

from __future__ import annotations

import itertools
import re

import numpy as np
import pandas as pd
import pytest
from runs import random_runs, runs
from scipy import stats

from posbench.errors import PosbenchError
from posbench.leaderboard import comparison_figures, significance, statistics
from posbench.leaderboard.significance import CriticalDifference


def test_signs_are_flipped_in_all_ways() -> None:
    differences = np.array([0.3, -0.05, 0.12, 0.2, 0.01, 0.08])
    signs = np.array(list(itertools.product([1, -1], repeat=6)))
    extreme = np.abs(signs @ differences) >= differences.sum() - 1e-12
    assert significance.sign_flip(differences) == pytest.approx(extreme.mean())
    assert significance.sign_flip([0.1] * 6) == pytest.approx(2 / 2**6), "the smallest there is"
    assert significance.sign_flip([0.0] * 5) == 1 and significance.sign_flip([0.4]) == 1
    assert np.isnan(significance.sign_flip([]))


def test_of_too_many_signs_some_are_drawn() -> None:
    differences = np.random.default_rng(0).normal(0.05, 0.15, 40)
    found = significance.sign_flip(differences, exchanges=20_000)
    # For so many differences the test comes near that of Student.
    assert found == pytest.approx(stats.ttest_1samp(differences, 0).pvalue, abs=0.02)
    assert found == significance.sign_flip(differences, exchanges=20_000), "the draw is seeded"


def test_runs_that_were_trained_apart_are_exchanged_within_their_task() -> None:
    one, other = [0.9, 0.7, 0.85, 0.6], [0.5, 0.65, 0.62, 0.2]
    exact = stats.permutation_test(
        (one, other), lambda x, y: np.mean(x) - np.mean(y), n_resamples=np.inf
    )
    found = significance.permutation([one], [other])
    assert found == pytest.approx(exact.pvalue, abs=5e-3)
    # The same difference twice, on tasks of unlike levels: exchanged over tasks it would drown.
    shifted = [[0.1, 0.12], [0.8, 0.83]], [[0.05, 0.06], [0.75, 0.76]]
    # 36 exchanges, of which only the one seen and its mirror image are as extreme.
    assert significance.permutation(*shifted) == pytest.approx(2 / 36, abs=5e-3)
    assert significance.permutation([[0.5, 0.4]], [[0.5, 0.4]]) == 1
    assert np.isnan(significance.permutation([], []))


def test_a_family_is_adjusted_step_by_step() -> None:
    # Worked by hand: 4 x .01; 3 x .013 = .039 is raised to .04; 2 x .04; 1 x .5.
    assert significance.holm([0.04, 0.01, 0.5, 0.013]) == pytest.approx([0.08, 0.04, 0.5, 0.04])
    assert significance.holm([0.9, 0.8]) == [1, 1]
    found = significance.holm([0.01, float("nan"), 0.02])
    assert found[0] == pytest.approx(0.02) and found[2] == pytest.approx(0.02)
    assert np.isnan(found[1]), "it is no part of the family"


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
    means = statistics.task_means(random_runs(rows=5, groups=6))
    found = CriticalDifference.of(means)
    theirs = stats.friedmanchisquare(*means.to_numpy())  # without ties there is no correction
    assert found.chi_squared == pytest.approx(theirs.statistic)
    # Two rows whose average ranks differ by just that much have p = .05.
    error = (5 * 6 / (12 * 12)) ** 0.5
    p = stats.studentized_range.sf(found.difference / error, 5, np.inf)
    assert p == pytest.approx(0.05)


def test_rows_that_are_always_in_one_order_and_rows_that_lack_a_task() -> None:
    areas = {f"r{row}": {f"t{task}": [0.1 * row] for task in range(40)} for row in range(3)}
    found = CriticalDifference.of(statistics.task_means(runs(areas | {"lacks": {"t0": [1.0]}})))
    assert found.ranks.to_dict() == {"r2": 1, "r1": 2, "r0": 3}
    assert found.f == np.inf and found.p == 0 and found.cliques == []
    with pytest.raises(PosbenchError, match="two of each"):
        CriticalDifference.of(statistics.task_means(runs({"p": {"a": [1.0], "b": [0.5]}})))


# -- pictures --------------------------------------------------------------------------------------


def test_pictures_are_the_same_text_each_time_and_name_every_row() -> None:
    table = random_runs(rows=30)
    table["row"] += " (encoding.steepness=${model.width})"
    names = sorted(table["row"].unique())
    found = CriticalDifference.of(statistics.task_means(table))
    shares = statistics.profiles(table, np.linspace(0, 1, 21))
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
