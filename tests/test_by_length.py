"""Rows by test length: means over seeds, and what they are worth."""

from __future__ import annotations

import io

import numpy as np
import pandas as pd
import pytest
from boards import lines, scores, seeds
from making import changed, record
from scipy import stats

from posbench.boards.measured_runs import MeasuredRuns, lengths_frame, runs_frame
from posbench.boards.tables import task_parts
from posbench.config import board as definition
from posbench.showing.table import csv


@pytest.mark.slow
def test_a_score_is_the_mean_over_seeds_with_the_interval_of_students_t() -> None:
    values = [0.2, 0.5, 0.6]
    [far] = (
        lines(*seeds("rope", [{1: 1.0, 2: value} for value in values]))
        .query("multiple == 2")
        .to_dict("records")
    )
    assert far["score"] == pytest.approx(np.mean(values))
    low, high = stats.t.interval(0.95, 2, np.mean(values), stats.sem(values))
    assert far["half_width_95"] == pytest.approx((high - low) / 2)
    assert (far["lowest"], far["highest"], far["seeds"]) == (0.2, 0.6, 3)
    two = lines(*seeds("rope", [{1: 1.0, 2: value} for value in values[:2]]))
    assert two["half_width_95"].isna().all()


@pytest.mark.slow
def test_a_length_that_does_not_count_has_a_score_only_if_every_seed_climbed_there() -> None:
    """Those that got there are no fair sample of all."""
    climbed, other = seeds("rope", [{1: 1.0, 2: 0.8, 16: 0.7}, {1: 1.0, 2: 0.2}])
    climbed = changed(climbed, {"rows.2.aggregated": False})
    found = scores(climbed, other)["rope"]
    assert found[2] == 0.5 and np.isnan(found[16])
    both = [
        changed(each, {"rows.2.aggregated": False})
        for each in seeds("rope", [{1: 1.0, 2: 0.8, 16: 0.7}] * 2)
    ]
    assert scores(*both)["rope"][16] == pytest.approx(0.7)


@pytest.mark.slow
def test_a_row_reaches_as_far_as_the_trainings_that_learned() -> None:
    far, near = {1: 1.0, 2: 1.0, 8: 1.0}, {1: 1.0, 2: 0.0, 8: 0.0}
    learned, other = seeds("rope", [far, near])
    failed = changed(other, {"rows.0.proficiency": 0.5})
    assert lines(learned, failed)["reaches"].tolist() == pytest.approx([1.0] * 3)
    assert lines(learned, other)["reaches"].max() < 0.7
    assert lines(failed)["reaches"].isna().all() and (lines(failed)["learned"] == 0).all()


@pytest.mark.slow
def test_rows_go_by_class_and_area() -> None:
    far = {"good": 0.9, "bad": 0.1, "middle": 0.5}
    made = [record(name, {1: 1.0, 2: value, 8: value}) for name, value in far.items()]
    tuned = changed(record("tuned", {1: 1.0, 2: 1.0, 8: 1.0}), {"method_class": "tuned"})
    assert list(scores(tuned, *made)) == ["good", "middle", "bad", "tuned"]


@pytest.mark.slow
def test_learned_counts_the_runs_that_were_tested_at_1x() -> None:
    """A run that was not tested there has neither learned its task nor failed to."""
    found = [*seeds("rope", [{1: 1.0, 2: 0.5}, {1: 0.2, 2: 0.1}]), record("rope", {2: 0.5}, seed=2)]
    measured = MeasuredRuns.of(found)
    [part] = task_parts(measured, definition.load("main"), "cpu")
    [shown] = part.tables
    assert [column.name for column in shown.columns] == ["method", "reaches", "1x", "2x", "learned"]
    assert shown.rows[0].cells[-1] == "1/2"
    runs = pd.read_csv(io.StringIO(csv(runs_frame(measured))))
    assert runs["learned"].tolist()[:2] == [True, False] and pd.isna(runs["learned"][2])


@pytest.mark.slow
def test_a_length_that_one_seed_lacks_has_no_mean() -> None:
    """As where a ceiling diverged: the others are no sample of all."""
    found = MeasuredRuns.of(seeds("rope", [{1: 1.0, 2: 0.4, 8: 0.4}, {1: 1.0, 2: 0.6}])).by_length
    assert found["score"].tolist()[:2] == pytest.approx([1.0, 0.5])
    assert found.loc[2, ["score", "lowest", "highest"]].isna().all() and found.loc[2, "seeds"] == 2


@pytest.mark.slow
def test_the_csv_files_hold_what_rows_are_ranked_by() -> None:
    found = seeds("rope", [{1: 1.0, 2: 0.4, 8: 0.4}, {1: 1.0, 2: 0.6, 8: 0.6}])
    measured = MeasuredRuns.of(found)
    runs = pd.read_csv(io.StringIO(csv(runs_frame(measured))))
    assert runs["area"].tolist() == pytest.approx(measured.runs["area"].tolist(), rel=1e-5)
    assert (runs["reach_low"] > 1).all() and not {"mean", "effective_95"} & {*runs}
    by_length = pd.read_csv(io.StringIO(csv(lengths_frame(measured))))
    assert by_length["reaches"].unique() == pytest.approx([measured.runs["area"].mean()], rel=1e-5)
    assert by_length["score"].tolist() == pytest.approx([1.0, 0.5, 0.5])
