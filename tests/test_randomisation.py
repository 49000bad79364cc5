"""Tests of differences, against scipy and all exchanges there are."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from scipy import stats

from posbench.statistics import randomisation


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
