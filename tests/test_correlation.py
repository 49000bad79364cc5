"""The interval of a rank correlation over rows, on simulated ones."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from posbench.statistics.correlation import Agreement, over_rows


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


def runs(areas: dict[tuple[str, str, int], float]) -> pd.DataFrame:
    """Trainings by row, task and seed; one below 0 has not learned its task."""
    frame = pd.DataFrame([*areas], columns=["row", "task", "seed"])
    area = np.array([*areas.values()])
    return frame.assign(training=frame.index.map(str), learned=area >= 0, area=area)


def test_two_panels_are_compared_by_the_trainings_that_learned_in_both() -> None:
    """`c` has the easy task alone in common: its mean is the highest there, its effect is not."""
    one = {
        ("a", "easy", 1): 0.9,
        ("a", "hard", 1): 0.5,
        ("b", "easy", 1): 0.8,
        ("b", "hard", 1): 0.4,
    }
    one |= {("c", "easy", 1): 0.7, ("c", "hard", 1): 0.9, ("a", "easy", 2): 0.0}
    other = {key: value / 2 for key, value in one.items()} | {("c", "hard", 1): -1.0}
    del other["a", "easy", 2]
    found = Agreement.of(runs(one), runs(other))
    assert len(found.pairs) == 5 and found.tasks == ["easy", "hard"]
    assert found.reaches.round(6).to_dict() == {
        "one": {"a": 0.7, "b": 0.6, "c": 0.5},
        "other": {"a": 0.35, "b": 0.3, "c": 0.25},
    }
    assert found.correlation == 1 and all(np.isnan(found.interval))
    less = found.differences("b").round(6)
    assert less.to_dict() == {"one": {"a": -0.1, "c": 0.1}, "other": {"a": -0.05, "c": 0.05}}
