"""The curve of a row: the mean over tasks of its corrected score, by seed and length."""

from __future__ import annotations

import pandas as pd
import pytest

from posbench.statistics.measures import mean_curve

TASKS = ("copy", "passkey")


def lines(*found: tuple[str, int, float, float], chance: float = 0.0) -> pd.DataFrame:
    """Each of them: a task, a seed, a multiple and a score."""
    return pd.DataFrame(found, columns=["task", "seed", "multiple", "score"]).assign(chance=chance)


WHOLE = [
    (task, seed, multiple, (1.0 if multiple == 1 else 0.2 + 0.1 * seed) - (task == "passkey") * 0.1)
    for task in TASKS
    for seed in (0, 1)
    for multiple in (1.0, 2.0)
]


def test_a_point_is_the_mean_over_tasks_for_each_seed() -> None:
    found = mean_curve(lines(*WHOLE), TASKS)
    assert found.loc[0].to_dict() == pytest.approx({1.0: 0.95, 2.0: 0.15})
    assert found.loc[1].to_dict() == pytest.approx({1.0: 0.95, 2.0: 0.25})


def test_scores_are_corrected_for_chance_and_count_as_0_below_it() -> None:
    """Corrected they are .5 and -.5: nothing below chance makes up for what is above it."""
    known = lines(("copy", 0, 2.0, 0.75), ("passkey", 0, 2.0, 0.25), chance=0.5)
    assert mean_curve(known, TASKS).loc[0, 2.0] == pytest.approx(0.25)


def test_a_seed_that_lacks_a_task_does_not_count() -> None:
    more = [("copy", 2, 1.0, 0.0), ("copy", 2, 2.0, 0.0), ("other", 2, 1.0, 0.0)]
    pd.testing.assert_frame_equal(
        mean_curve(lines(*WHOLE, *more), TASKS), mean_curve(lines(*WHOLE), TASKS)
    )


def test_a_length_that_one_of_the_seeds_lacks_on_a_task_is_left_out() -> None:
    climbed = [(task, seed, 16.0, 0.5) for task in TASKS for seed in (0, 1)][:-1]
    assert list(mean_curve(lines(*WHOLE, *climbed), TASKS)) == [1.0, 2.0]


def test_a_row_that_has_no_seed_on_all_tasks_has_no_curve() -> None:
    for known in (lines(), lines(*WHOLE[:4])):
        assert mean_curve(known, TASKS).empty
        assert mean_curve(known, TASKS).mean().empty
