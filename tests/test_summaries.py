"""What is said of a method: means and intervals over seeds, how far it goes, and over all tasks."""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from boards import boards, overall, remarks, seeds, summarised
from making import changed, record
from scipy import stats

from posbench.boards import csv_files, summaries
from posbench.boards import sections as sectioning
from posbench.boards.measured import Measured
from posbench.boards.task_sections import task_section
from posbench.records import tables
from posbench.records.record import Record
from posbench.showing import table as numbers
from posbench.statistics import measures
from posbench.statistics.aggregates import Estimate

# -- means and intervals ---------------------------------------------------------------------------


def test_mean_and_interval_are_those_computed_by_hand() -> None:
    three = [{1: 1.0, 2: 0.6, 4: 0.2}, {1: 1.0, 2: 0.8, 4: 0.4}, {1: 1.0, 2: 0.7, 4: 0.3}]
    rope = summarised(*seeds("rope", three))["rope"]
    assert rope.scores.tolist() == pytest.approx([0.4, 0.6, 0.5])  # 1x is no extrapolation
    assert rope.mean.mean == pytest.approx(0.5)
    assert rope.mean.half_width == pytest.approx(
        4.30265 * 0.1 / 3**0.5, abs=1e-4
    )  # t(.975, 2) * s / sqrt(3)
    assert numbers.with_interval(rope.mean) == ".50 ±.25"
    assert numbers.with_interval(rope.cells[2].accuracy) == ".70 ±.25"
    assert (rope.cells[4].lowest, rope.cells[4].highest) == (0.2, 0.4)


def test_two_seeds_have_no_interval() -> None:
    rope = summarised(*seeds("rope", [{1: 1.0, 2: 0.6}, {1: 1.0, 2: 0.6}]))["rope"]
    assert numbers.with_interval(rope.mean) == ".60", "that they agree is luck"
    assert (rope.cells[2].lowest, rope.cells[2].highest) == (0.6, 0.6)


@pytest.mark.parametrize("count", [3, 5, 30])
def test_the_interval_is_that_of_students_t(count: int) -> None:
    values = np.random.default_rng(count).random(count)
    estimate = Estimate.over(values)
    low, high = stats.t.interval(0.95, count - 1, values.mean(), stats.sem(values))
    assert (
        estimate.mean - estimate.half_width,
        estimate.mean + estimate.half_width,
    ) == pytest.approx((low, high))


def test_one_seed_has_a_mean_but_no_interval() -> None:
    assert numbers.with_interval(summarised(record())["rope"].mean) == ".50"
    assert "No method has three seeds on a task" in remarks(record())
    three = [record(seed=seed) for seed in range(3)]
    assert "interval" not in remarks(*three)
    assert "1 of 2 pairs of method and task has one seed or two" in remarks(*three, record("alibi"))


def test_further_lengths_are_shown_in_brackets_and_not_averaged() -> None:
    [[board]] = boards(record("rope", {1: 1.0, 2: 0.8, 4: 0.4, 8: 0.0}, further=[8]))
    [rope] = board.summaries
    assert rope.mean.mean == pytest.approx(0.6)
    table = task_section(board).table
    shown = dict(zip(table.headings[1:], table.rows[0].cells, strict=True))
    assert (shown["4x"], shown["(8x)"], shown["mean"]) == (".40", ".00", ".60")


def test_a_length_beyond_the_mean_is_shown_where_every_seed_got_there() -> None:
    """Seeds that climbed a ladder higher are no fair sample of all."""
    one = {1: 1.0, 2: 0.8, 16: 1.0, 32: 0.9}
    other = {1: 1.0, 2: 0.4, 16: 0.6}
    made = [record("rope", each, seed, further=[16, 32]) for seed, each in enumerate((one, other))]
    [[board]] = boards(*made)
    [rope] = board.summaries
    table = task_section(board).table
    shown = dict(zip(table.headings[1:], table.rows[0].cells, strict=True))
    assert shown["(16x)"].startswith(".80") and shown["(32x)"] == numbers.NOTHING
    assert np.isnan([rope.cells[32].lowest, rope.cells[32].highest]).all()
    assert (rope.cells[16].lowest, rope.cells[16].highest) == (0.6, 1.0)
    assert rope.mean.mean == pytest.approx(0.6)
    assert rope.effective_50 == 16, "not 32, where one seed alone is"


def test_unsolved_seeds_stay_in_the_mean_and_the_solved_ones_stand_beside_it() -> None:
    rope = summarised(*seeds("rope", [{1: 1.0, 2: 0.8}, {1: 0.94, 2: 0.2}]))["rope"]
    assert rope.mean.mean == pytest.approx(0.5)
    assert rope.mean_of_solved == pytest.approx(0.8)
    assert (rope.num_solved, rope.solved_step) == (1, 100)


@pytest.mark.parametrize(
    ("accuracies", "effective"),
    [
        ({1: 1.0, 1.5: 0.95, 2: 0.96, 4: 0.94}, 2),  # from .95
        ({1: 1.0, 1.5: 0.96, 2: 0.90, 4: 0.99}, 1.5),  # all shorter ones included
        ({1: 0.94, 1.5: 1.0, 2: 1.0, 4: 1.0}, np.nan),
        ({1: 1.0, 1.5: 1.0, 2: 1.0, 4: 1.0}, 4),
    ],
)
def test_the_effective_length_is_the_largest_that_is_solved_with_all_shorter_ones(
    accuracies: dict[float, float], effective: float
) -> None:
    assert summarised(record("rope", accuracies))["rope"].effective_95 == pytest.approx(
        effective, nan_ok=True
    )


def test_the_effective_length_is_that_of_the_mean_over_seeds() -> None:
    rope = summarised(*seeds("rope", [{1: 1.0, 2: 0.92}, {1: 1.0, 2: 1.0}]))["rope"]
    assert rope.effective_95 == 2


def test_numbers_are_found_by_their_length_and_seed_and_never_by_their_place() -> None:
    found = [
        *seeds("rope", [{1: 1.0, 2: 0.5, 4: 0.1}, {1: 0.9, 2: 0.3, 4: 0.0}]),
        *seeds("alibi", [{1: 1.0, 2: 0.9, 4: 0.8}]),
    ]
    written = [csv_files.of_lengths(boards(*found))]
    for number in range(3):
        random.Random(number).shuffle(found)
        mixed = []
        for each in found:
            rows = list(each.rows)
            random.Random(number).shuffle(rows)
            mixed.append(changed(each, {"rows": rows}))
        written.append(csv_files.of_lengths(boards(*mixed)))
    assert len(set(written)) == 1


def test_a_record_without_one_of_the_lengths_gives_no_mean_over_other_lengths() -> None:
    short = summarised(record("rope", {1: 1.0, 2: 0.9}), record("nope", {1: 1.0, 2: 0.2, 4: 0.1}))[
        "rope"
    ]
    assert (
        numbers.with_interval(short.mean),
        numbers.with_interval(short.cells[4].accuracy),
        short.effective_95,
    ) == (
        "\N{EN DASH}",
        "\N{EN DASH}",
        1,
    )


def test_rows_are_sorted_by_mean_and_ties_by_name() -> None:
    found = [
        record(name, {1: 1.0, 2: mean})
        for name, mean in [("b", 0.5), ("a", 0.5), ("z", 0.9), ("c", 0.1)]
    ]
    assert list(summarised(*found)) == ["z", "a", "b", "c"]


# -- all tasks -------------------------------------------------------------------------------------


def test_the_mean_over_tasks_is_over_the_seeds_that_have_them_all() -> None:
    shown = overall(
        *seeds("rope", [{1: 1.0, 2: 0.6}, {1: 1.0, 2: 0.4}]),
        *seeds("rope", [{1: 1.0, 2: 0.2}, {1: 1.0, 2: 0.2}, {1: 1.0, 2: 1.0}], task="passkey"),
    )
    # Seeds 0 and 1: .4 and .3. Seed 2 lacks copy.
    assert shown["rope"][:5] == ["", ".35", ".35", "1.00", ".35"]
    assert shown["rope"][6:8] == ["2", "4/4"], "and so are the trainings that are counted"


def test_a_row_that_lacks_a_task_stands_last_without_a_mean() -> None:
    shown = overall(
        *seeds("alibi", [{1: 1.0, 2: 1.0}]),
        *(
            each
            for task in ("copy", "passkey")
            for each in seeds("rope", [{1: 1.0, 2: 0.1}], task=task)
        ),
    )
    assert list(shown) == ["rope", "alibi"]
    assert shown["alibi"][1:5] == ["– (1 of 2 tasks)", "\N{EN DASH}", "\N{EN DASH}", "\N{EN DASH}"]  # noqa: RUF001


def test_a_method_without_a_seed_on_all_tasks_has_no_mean() -> None:
    shown = overall(record("rope", seed=0, task="copy"), record("rope", seed=1, task="passkey"))
    assert shown["rope"][1] == "– (no seed on all tasks)"  # noqa: RUF001


def test_one_task_needs_no_table_over_all_of_them() -> None:
    assert len(sectioning.sections(boards(record()))) == 1


# -- measures of a run -----------------------------------------------------------------------------


def per_run(*found: Record) -> pd.DataFrame:
    return csv_files.per_run(Measured.of(tables.table(found)))


@pytest.mark.parametrize(("threshold", "found"), [(0.95, 1.5), (0.5, 2.0), (1.0, np.nan)])
def test_how_far_a_run_reaches_is_asked_of_two_thresholds(threshold: float, found: float) -> None:
    scores = {1: 0.99, 1.5: 0.96, 2: 0.6, 4: 0.3, 8: 0.9}
    assert summaries.effective(scores, threshold) == pytest.approx(found, nan_ok=True)


def test_the_board_shows_area_and_both_effective_lengths_and_gpu_seconds_where_there_are_some(
    tmp_path: Path,
) -> None:
    found = seeds("rope", [{1: 1.0, 2: 0.6, 4: 0.2, 8: 0.0}, {1: 1.0, 2: 0.6, 4: 0.0, 8: 0.0}])

    def shown() -> dict[str, str]:
        table = sectioning.sections(boards(*found))[0].table
        return dict(zip(table.headings[1:], table.rows[0].cells, strict=True))

    assert (shown()["area"], shown()["effective"], shown()["effective .5"]) == (".40", "1x", "2x")
    assert "GPU s" not in shown()
    on_gpu = {"training.device": "NVIDIA H200", "training.wall_seconds": 30.0}
    found[0] = changed(found[0], on_gpu)
    assert shown()["GPU s"] == "15"


def test_the_table_of_runs_has_one_row_a_run_with_its_measures(tmp_path: Path) -> None:
    falling = {1: 1.0, 2: 0.6, 4: 0.4, 8: 0.2}
    one, other = seeds("rope", [falling, {1: 0.9, 2: 0.96, 4: 0.0, 8: 0.0}])
    table = per_run(one, other).set_index("seed")
    assert table.index.tolist() == [0, 1]
    first = table.loc[
        0, ["in_distribution", "learned", "solved", "mean", "area", "effective_95", "effective_50"]
    ]
    area = pytest.approx(measures.area(list(falling), list(falling.values()), 0.001), abs=1e-3)
    assert first.tolist() == [1.0, True, True, pytest.approx(0.4), area, 1.0, 2.0]
    second = table.loc[1]
    assert (second["in_distribution"], second["learned"], np.isnan(second["effective_95"])) == (
        0.9,
        False,
        True,
    )
    assert second["effective_50"] == 2.0 and second["train_cpu_seconds"] == 60.0


def test_scores_of_unlike_measures_have_no_mean_in_common() -> None:
    found = [record("rope", task=task) for task in ("copy", "passkey", "language")]
    found[2] = changed(found[2], {"measure": "share explained"})
    titles = {section.title: section for section in sectioning.sections(boards(*found))}
    assert "Mean over 2 tasks, protocol cpu" in titles and len(titles) == 4
    notes = titles["language, protocol cpu"].notes
    assert "The score is the share explained." in notes and not any(
        "Guessing" in note for note in notes
    )


def test_a_measure_of_its_own_is_named_and_is_what_is_averaged() -> None:
    none_right = {f"rows.{index}.sequence_accuracy": 0.0 for index in range(2)}
    measured = {"measure": "share explained"} | none_right
    found = changed(record("rope", {1: 0.9, 2: 0.5}), measured)
    [section] = sectioning.sections(boards(found))
    assert "The score is the share explained." in section.notes
    assert summarised(found)["rope"].mean.mean == 0.5


def test_a_run_that_lacks_a_length_has_no_mean_anywhere() -> None:
    whole, part = record("rope", {1: 1.0, 2: 0.5, 4: 0.1}), record("rope", {1: 1.0, 4: 0.3}, seed=1)
    table = per_run(whole, part).set_index("seed")
    assert (
        table.loc[0, "mean"] == pytest.approx(0.3) and table.loc[1, ["mean", "area"]].isna().all()
    )
    [row] = boards(whole, part)[0][0].summaries
    assert np.isnan(row.mean.mean) and np.isnan(row.mean_of_solved)


def test_effective_50_is_not_said_where_guessing_comes_as_far() -> None:
    guessed = {f"rows.{index}.chance": 0.5 for index in range(2)}
    found = changed(record("rope", {1: 0.6, 2: 0.5}), guessed)
    assert np.isnan(boards(found)[0][0].summaries[0].effective_50)
    assert per_run(found)["effective_50"].isna().all()
