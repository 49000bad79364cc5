"""Area and reach of a run, against cases worked out by hand and against other ways to compute."""

from __future__ import annotations

import itertools

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from making import changed, record
from scipy import integrate

from posbench.records import tables
from posbench.statistics import measures
from posbench.statistics.measures import area, corrected, reach

LENGTHS = [1, 1.25, 1.5, 2, 3, 4, 6, 8]
NAN = float("nan")


def test_a_score_is_corrected_for_chance_and_keeps_its_sign() -> None:
    assert corrected([1.0, 0.5, 0.55, 0.25], 0.5) == pytest.approx([1, 0, 0.1, -0.5])
    assert corrected([0.5, 0.5], [0.0, 0.25]) == pytest.approx([0.5, 1 / 3])
    with pytest.raises(ValueError, match="chance of 1"):
        corrected(0.5, 1.0)


def test_the_area_is_the_integral_over_the_logarithm_of_the_length() -> None:
    assert area(LENGTHS, [1.0] * 8) == pytest.approx(1)
    assert area([1, 2, 4, 8], [1, 1, 0, 0]) == pytest.approx(0.5)
    assert area([8, 1, 4, 2], [0, 1, 0, 1]) == pytest.approx(0.5), "in any order"
    scores = np.array([0.99, 0.97, 0.8, 0.62, 0.7, 0.4, 0.1, 0.05])
    # An adaptive integral in the multiple itself: dm / m is d ln m.
    found, _ = integrate.quad(
        lambda m: np.interp(np.log(m), np.log(LENGTHS), scores) / m, 1, 8, points=LENGTHS, limit=200
    )
    assert area(LENGTHS, scores) == pytest.approx(found / np.log(8))


def test_scores_below_guessing_are_worth_nothing_in_an_area() -> None:
    # Corrected: 1, 0 and -1 (clamped to 0), at one octave each, then 0.
    assert area([1, 2, 4, 8], [1, 0.5, 0, 0.5], 0.5) == pytest.approx(0.5 / 3)
    assert area([1, 2, 4, 8], [0.1] * 4, [0.5] * 4) == 0


def test_a_last_length_a_little_below_8_is_held_and_one_above_is_interpolated() -> None:
    e = np.log(8)
    short = (0.5 * (1 + 0.4) * np.log(7.8) + 0.4 * (e - np.log(7.8))) / e
    assert area([1, 7.8], [1.0, 0.4]) == pytest.approx(short)
    at_8 = 1 - 0.6 * e / np.log(8.2)
    assert area([1, 8.2], [1.0, 0.4]) == pytest.approx((1 + at_8) / 2)
    assert area([1, 8], [1.0, 0.4]) == pytest.approx(0.7)


def test_rungs_beyond_8_change_no_area() -> None:
    for last in (7.8, 8, 8.2):
        base = area([1, 2, last], [1.0, 0.9, 0.6])
        assert area([1, 2, last, 16, 32], [1.0, 0.9, 0.6, 0.5, 0.1]) == base
        assert not np.isnan(base)


def test_lengths_below_that_of_training_count_for_nothing() -> None:
    multiples, scores = [0.5, 1, 2, 4, 8], [0.0, 1.0, 0.8, 0.4, 0.2]
    assert area(multiples, scores) == area(multiples[1:], scores[1:]) > 0
    assert reach(multiples, scores) == reach(multiples[1:], scores[1:])


def test_an_area_may_end_elsewhere() -> None:
    """Of what was measured beyond there nothing counts, and the rules of 8x hold."""
    assert area([1, 2, 4, 8], [1, 0.5, 0, 0], longest=4) == pytest.approx((0.75 + 0.25) / 2)
    assert area([1, 1.5], [1.0, 0.5], longest=1.5) == pytest.approx(0.75)
    held = (0.75 * np.log(3.9) + 0.5 * np.log(4 / 3.9)) / np.log(4)
    assert area([1, 3.9], [1.0, 0.5], longest=4) == pytest.approx(held)
    assert np.isnan(area([1, 2, 8], [1.0, 1.0, 1.0], longest=4))


@pytest.mark.parametrize(
    ("multiples", "scores"),
    [
        ([1.25, 8], [1.0, 1.0]),  # without 1x
        ([1, 2, 4], [1.0, 1.0, 1.0]),  # without 8x
        ([1, 16], [1.0, 1.0]),
        ([1, 2, 8], [1.0, NAN, 0.5]),
        ([1, 2, 8], [NAN, 1.0, 0.5]),
        ([1, 2, 8.1], [1.0, 1.0, NAN]),
        ([], []),
    ],
)
def test_a_run_that_lacks_a_length_has_no_area(multiples: list[float], scores: list[float]) -> None:
    assert np.isnan(area(multiples, scores))


@pytest.mark.slow
@given(st.lists(st.floats(0, 1), min_size=8, max_size=8), st.floats(1.01, 7.9))
def test_a_point_on_the_line_between_two_lengths_changes_no_area(
    scores: list[float], between: float
) -> None:
    on_line = float(np.interp(np.log(between), np.log(LENGTHS), scores))
    assert 0 <= area(LENGTHS, scores) <= 1
    more = area([*LENGTHS, between], [*scores, on_line])
    assert more == pytest.approx(area(LENGTHS, scores), abs=1e-9)


def test_the_reach_is_the_first_crossing_on_the_logarithmic_axis() -> None:
    found = reach([1, 2, 4, 8], [1.0, 0.75, 0.25, 0.9])
    assert found.value == pytest.approx(2 * 2**0.5) and found.censored == ""
    assert str(found) == "2.83"
    # Corrected for guessing half, .75 is the half that must be held.
    assert reach([1, 2, 4], [1.0, 0.75, 0.5], 0.5).value == pytest.approx(2)
    assert reach([1, 8, 16, 32], [1.0, 0.9, 0.7, 0.3]).value == pytest.approx(16 * 2**0.5)
    assert reach([32, 16, 8, 1], [0.3, 0.7, 0.9, 1.0]).value == pytest.approx(16 * 2**0.5)


def test_a_reach_that_was_not_seen_is_censored() -> None:
    below, above = reach([1, 2], [0.4, 0.9]), reach([1, 8, 16, 32, 63.9], [1, 1, 1, 1, 0.5])
    assert (str(below), below.censored) == ("< 1", "below")
    assert (str(above), above.censored) == ("> 63.9", "above")
    assert str(reach([1, 8], [1.0, 0.9])) == "> 8", "a method that is not defined beyond"
    assert np.isnan(reach([1, 2, 4], [1.0, NAN, 0.1]).value)
    assert np.isnan(reach([2, 4], [1.0, 0.1]).value)
    assert str(reach([2, 4], [1.0, 0.1])) == "\N{EN DASH}"


# -- of the long table -----------------------------------------------------------------------------

FULL = {1: 1.0, 2: 1.0, 4: 0.5, 8: 0.0}
GUESSED = 1e-3
"""What such records score by guessing changes no number by more than this."""


def test_a_long_table_becomes_one_line_a_run() -> None:
    table = measures.of_runs(tables.table([record(seed=1), record("nope", FULL, seed=0)]))
    assert table[["row", "seed"]].to_numpy().tolist() == [["nope", 0], ["rope", 1]]
    nope, rope = table.iloc[0], table.iloc[1]
    assert nope["area"] == pytest.approx((1 + 0.75 + 0.25) / 3, rel=GUESSED)
    assert np.isnan(rope["area"]), "it lacks lengths that others have"
    assert (str(nope["reach"]), str(rope["reach"])) == ("4", "2")
    assert nope["learned"] and nope["in_distribution"] == 1 and nope["class"] == "zero-shot"


def test_a_run_without_a_length_in_the_middle_gets_no_area_over_the_others() -> None:
    part = record("rope", {1: 1.0, 4: 0.6, 8: 0.0})
    table = measures.of_runs(tables.table([record("nope", FULL), part])).set_index("row")
    assert table["area"].isna().to_dict() == {"nope": False, "rope": True}


def test_a_run_that_was_trained_on_longer_sequences_has_an_area_over_its_own_lengths() -> None:
    """A board may change the training length of some rows, whose protocol is then its own."""
    table = tables.table([record("nope", FULL), record("rope", {1: 1.0, 4: 0.5, 8: 0.0})])
    assert measures.of_runs(table).set_index("row")["area"].isna().to_dict()["rope"]
    longer = table.assign(train_length=table["train_length"].where(table["method"] == "nope", 40))
    assert measures.of_runs(longer)["area"].notna().all()


def test_a_length_below_that_of_training_is_not_missed_by_an_area() -> None:
    table = tables.table([record("nope", {0.5: 1.0} | FULL), record("rope", FULL)])
    found = measures.of_runs(table).set_index("row")["area"]
    assert found["nope"] == found["rope"] == pytest.approx((1 + 0.75 + 0.25) / 3, rel=GUESSED)


@pytest.mark.slow
def test_of_a_run_that_is_there_twice_the_last_counts() -> None:
    """As where the tables of two folders are put one below the other."""
    old, new = (tables.table([record("rope", FULL | {2: score})]) for score in (0.2, 0.6))
    for one, other in ((old, new), (new, old)):
        found = measures.of_runs(pd.concat([one, other]))
        assert found["area"].tolist() == measures.of_runs(other)["area"].tolist()
    assert measures.of_runs(old)["area"].item() != measures.of_runs(new)["area"].item()


def test_rungs_that_others_climbed_are_not_missed_by_an_area() -> None:
    climbed = record("nope", {1: 1, 2: 1, 4: 0.9, 8: 0.9, 16: 0.4}, further=[16])
    table = measures.of_runs(tables.table([climbed, record("rope", FULL)])).set_index("row")
    assert table["area"].notna().all()
    assert table.loc["nope", "reach"].value == pytest.approx(8 * 2**0.8, rel=GUESSED)


def test_the_steps_to_the_gate_are_those_of_the_first_validation_there() -> None:
    steps_to_gate = measures.steps_to_gate
    assert steps_to_gate([50, 100, 150, 200], [0.2, 0.95, 0.9, 1.0], 0.95) == 100
    assert steps_to_gate([50, 100], [0.2, 0.949], 0.95) is None
    assert steps_to_gate([], [], 0.95) is None


def test_runs_have_the_steps_to_the_gate_and_their_multiplications() -> None:
    told = {"solved_step": 150, "training.multiplications": 10**7}
    counted, never = (
        changed(record(name, FULL), values)
        for name, values in (("rope", told), ("nope", told | {"solved_step": None}))
    )
    table = measures.of_runs(tables.table([counted, never])).set_index("row")
    assert table.loc["rope", ["steps_to_gate", "multiplications"]].tolist() == [150, 1.5e9]
    assert table.loc["nope", ["steps_to_gate", "multiplications"]].isna().all()
    without = tables.table([counted]).drop(columns=["solved_step", "multiplications"])
    found = measures.of_runs(without)
    assert found[["steps_to_gate", "multiplications"]].isna().to_numpy().all()


def test_areas_of_runs_may_end_elsewhere() -> None:
    """A run that lacks a length up to there has none; lengths beyond are not missed."""
    short, part = record("rope", {1: 1.0, 2: 1.0, 4: 0.5}), record("alibi", {1: 1.0, 4: 0.5})
    found = tables.table([record("nope", FULL), short, part])
    areas = measures.of_runs(found, longest=4).set_index("row")["area"]
    assert areas["nope"] == areas["rope"] == pytest.approx((1 + 0.75) / 2, rel=GUESSED)
    assert np.isnan(areas["alibi"])


def test_the_true_multiple_is_the_axis_where_a_table_has_it() -> None:
    table = tables.table([record("rope", FULL)])
    told = table.assign(true_multiple=table["multiple"].replace({2: 2.5}))
    expected = area([1, 2.5, 4, 8], [1.0, 1.0, 0.5, 0.0])
    assert measures.of_runs(told)["area"].item() == pytest.approx(expected, rel=GUESSED)
    assert abs(expected - area([1, 2, 4, 8], [1.0, 1.0, 0.5, 0.0])) > 10 * GUESSED


def test_the_chance_of_each_length_is_taken_off() -> None:
    chances = {f"rows.{index}.chance": 0.5 for index in range(4)}
    halved = changed(record("rope", FULL), chances)
    table = measures.of_runs(tables.table([halved]))
    assert table["area"].item() == pytest.approx((1 + 0.5 + 0) / 3)
    assert str(table["reach"].item()) == "2.83"


def test_an_empty_table_has_the_same_columns() -> None:
    empty = measures.of_runs(tables.table([]))
    some = measures.of_runs(tables.table([record("rope", FULL)]))
    assert isinstance(empty, pd.DataFrame) and list(empty) == list(some)


@pytest.mark.slow
def test_the_order_of_lengths_and_runs_changes_nothing() -> None:
    table = tables.table([record("rope", FULL), record("nope", FULL | {2: 0.3})])
    said = {
        measures.of_runs(table.sample(frac=1, random_state=number)).to_csv()
        for number in itertools.islice(range(9), 3)
    }
    assert len(said) == 1
