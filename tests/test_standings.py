"""What users ask of a data frame: the standings, and one row against another."""

from __future__ import annotations

import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from making import record, save
from runs import random_runs, runs

from posbench import results
from posbench.base.errors import PosbenchError
from posbench.statistics import aggregates

TASKS = ("copy", "passkey")
AREAS = {"rope": 0.9, "nope": 0.2}


def saved(folder: Path, **more: str) -> Path:
    """Records of two methods on two tasks with three seeds."""
    for method, level in AREAS.items():
        for task in TASKS:
            for seed in range(3):
                scores = {1: 1.0, 2: level, 4: level, 8: level - 0.05 * seed}
                save(folder, record(method, scores, seed=seed, task=task, **more))
    return folder


def test_records_are_ranked_from_the_long_table(tmp_path: Path) -> None:
    table = results.summarise(results.load(saved(tmp_path)), board={"copy": "x", "passkey": "x"})
    assert table.index.tolist() == [("zero-shot", "rope"), ("zero-shot", "nope")]
    rope = table.loc[("zero-shot", "rope")]
    expected = np.mean([(1.9 / 2 + 0.9 + (1.8 - 0.05 * seed) / 2) / 3 for seed in range(3)])
    assert rope["overall"] == pytest.approx(expected, abs=1e-3) == rope["x"]
    assert (rope["rank"], rope["num_seeds"]) == (1, 3)
    assert rope["seeds_low"] < rope["overall"] < rope["seeds_high"]
    assert rope["learned"] == 1 and rope["overall_learned"] == rope["overall"]
    only = results.summarise(results.load(tmp_path), board={"copy": "x"})
    assert (only["num_tasks"] == 1).all()


def test_rows_are_ranked_within_their_class_and_best_first() -> None:
    table = random_runs()
    table["class"] = table["row"].map(lambda row: "tuned" if row == "r3" else "zero-shot")
    found = results.summarise(table, draws=200)
    assert found.index.get_level_values("row").tolist() == ["r2", "r1", "r0", "r3"]
    assert found["rank"].tolist() == [1, 2, 3, 1]
    assert found["overall"].to_numpy() == pytest.approx(
        aggregates.overall(table)[["r2", "r1", "r0", "r3"]].to_numpy()
    )
    low, high = found["seeds_low"], found["seeds_high"]
    assert (found["tasks_low"] <= low).all() and (found["tasks_high"] >= high).all()


def test_what_is_not_known_is_nan() -> None:
    single = {"p": {"a": [0.5], "b": [0.4], "c": [0.6]}, "q": {"a": [0.9]}}
    found = results.summarise(runs(single), draws=50).droplevel("class")
    assert found.loc["p", ["seeds_low", "seeds_high"]].isna().all(), "one seed says nothing of it"
    assert found.loc["p", ["tasks_low", "tasks_high", "p_best"]].notna().all()
    apart = {"a": "x", "b": "y", "c": "y"}
    found = results.summarise(runs(single), apart, draws=50).droplevel("class")
    of_draws = ["tasks_low", "tasks_high", "tasks_rank_low", "p_best"]
    assert found.loc["p", of_draws].isna().all(), "nor does one task of a group"
    assert found.index.tolist() == ["p", "q"] and np.isnan(found.loc["q", "overall"])
    unlearned = runs(single).assign(learned=[True, False, False, True])
    found = results.summarise(unlearned, draws=50).droplevel("class")
    assert np.isnan(found.loc["p", "overall_learned"]) and found.loc["p", "learned"] == 1 / 3


def test_the_seeds_of_a_row_are_those_of_its_task_with_the_fewest() -> None:
    """Three seeds of one task and one of another are too few to draw from: such a row has no
    interval, and among such rows none has a rank interval.
    """
    three = [0.4, 0.5, 0.6]
    mixed = runs({"p": {"a": three, "b": [0.5]}, "q": {"a": three, "b": three}})
    found = results.summarise(mixed, draws=50).droplevel("class")
    assert found["num_seeds"].to_dict() == {"p": 1, "q": 3}
    bounds = found[["seeds_low", "seeds_high", "all_low", "all_high"]]
    assert bounds.loc["p"].isna().all() and bounds.loc["q"].notna().all()
    assert found[["seeds_rank_low", "seeds_rank_high"]].isna().all(axis=None)


def test_a_run_that_was_not_tested_at_1x_has_not_failed_to_learn() -> None:
    table = runs({"p": {"a": [0.9, 0.9], "b": [0.8, 0.1]}})
    table["in_distribution"] = [1.0, np.nan, 1.0, 0.2]
    table["learned"] = [True, False, True, False]
    found = results.summarise(table, draws=50).loc[("all", "p")]
    assert found["learned"] == pytest.approx((1 + 0.5) / 2)
    assert found["in_distribution"] == pytest.approx((1 + 0.6) / 2)


def test_two_tasks_are_too_few_to_draw_from() -> None:
    """Student's t of two is so wide that a row without any error would be beaten."""
    two = {"top": {"a": [1.0] * 3, "b": [1.0] * 3}, "p": {"a": [0.9] * 3, "b": [0.3] * 3}}
    over_tasks = ["tasks_low", "tasks_high", "tasks_rank_low", "p_best"]
    found = results.summarise(runs(two), draws=50)
    assert found[over_tasks].isna().all(axis=None) and found["seeds_low"].notna().all()
    four = {row: areas | {"c": [0.5] * 3, "d": [0.6] * 3} for row, areas in two.items()}
    halves = dict(zip("abcd", "xxyy", strict=True))
    assert results.summarise(runs(four), halves, draws=50)[over_tasks].notna().all(axis=None)


def test_tasks_in_no_group_are_drawn_among_all_of_them() -> None:
    table = random_runs().drop(columns="group")
    one, none = (results.summarise(each, draws=2000) for each in (table.assign(group="x"), table))
    of_draws = ["overall", "seeds_low", "seeds_high", "tasks_low", "tasks_high", "p_best"]
    drawn = none["tasks_high"] - none["tasks_low"], none["seeds_high"] - none["seeds_low"]
    assert (drawn[0] > drawn[1]).all(), "tasks differ as well"
    # Streams of random numbers go by the name of the group.
    assert none[of_draws].to_numpy() == pytest.approx(one[of_draws].to_numpy(), abs=0.02)
    assert {"t0", "t0_low"} <= set(none), "each task is shown"
    alone = table[table["task"] == "t0"]
    found = results.summarise(alone, draws=50)
    assert found["seeds_low"].notna().all()
    assert found[["tasks_low", "tasks_rank_low", "p_best"]].isna().all(axis=None)


def test_a_group_of_a_single_task_gives_no_interval_over_tasks() -> None:
    table = random_runs()
    table["group"] = np.where(table["task"] == "t0", "x", "y")
    found = results.summarise(table, draws=50)
    assert found["seeds_low"].notna().all() and found["tasks_low"].isna().all()
    lines = results.compare(table, "r0", "r1", draws=50)
    assert lines["low"].isna()["over tasks"] and not lines["low"].isna()["overall"]


def test_protocols_are_not_mixed_and_columns_are_asked_for() -> None:
    table = random_runs()
    with pytest.raises(PosbenchError, match=r"cpu, gpu .* table\[table\['protocol'\] == 'cpu'"):
        results.summarise(table.assign(protocol=["cpu", "gpu"] * (len(table) // 2)))
    with pytest.raises(PosbenchError, match="columns seed: it has one line a run"):
        results.summarise(table.drop(columns="seed"))


@pytest.mark.parametrize(
    "column", ["score", "chance", "seed", "multiple", "task", "method", "solved", "protocol"]
)
def test_the_column_that_was_dropped_is_the_one_that_is_named(tmp_path: Path, column: str) -> None:
    """`area` was named before, which the long table has never had."""
    table = results.load(saved(tmp_path)).drop(columns=column)
    said = f"^the table lacks the column {column}, which posbench.results.load gives: keep it$"
    with pytest.raises(PosbenchError, match=said):
        results.summarise(table)
    with pytest.raises(PosbenchError, match=said):
        results.compare(table, "rope", "nope")


def test_a_table_in_which_a_name_or_a_number_is_missing_is_refused(tmp_path: Path) -> None:
    table = results.load(saved(tmp_path))
    for column, wrong in (("task", None), ("seed", np.nan), ("score", np.inf), ("chance", -np.inf)):
        with pytest.raises(PosbenchError, match=f"column {column} has {wrong} in 48 lines"):
            results.summarise(table.assign(**{column: wrong}))
    unknown = results.summarise(table.assign(score=np.nan), draws=50)
    assert unknown["overall"].isna().all() and len(unknown) == 2


def changed_areas(**columns: object) -> pd.DataFrame:
    return random_runs().assign(**columns)


BAD = {
    "a folder": (lambda: results.summarise("results/main"), "must be a data frame, .* got a str"),
    "a folder, compared": (lambda: results.compare("results/main", "a", "b"), "got a str"),
    "areas in words": (
        lambda: results.summarise(changed_areas(area="high")),
        "area must hold numbers, shares of 1",
    ),
    "scores in words": (
        lambda: results.summarise(changed_areas(area=0.5).drop(columns="area").assign(score="1")),
        "the table lacks the columns protocol, protocol_hash",
    ),
    "no run": (lambda: results.summarise(random_runs()[:0]), "no run in the table"),
    "a board by its name": (lambda: results.summarise(random_runs(), "main"), "got 'main'"),
    "a board of other tasks": (
        lambda: results.summarise(random_runs(), {"copy": "x"}),
        r"none of the tasks of the table \(t0, t1, t2",
    ),
    "no draw": (lambda: results.summarise(random_runs(), draws=0), "draws must .* got 0"),
    "half a draw": (lambda: results.compare(random_runs(), "r0", "r1", draws=0.5), "got 0.5"),
    "a seed below 0": (lambda: results.summarise(random_runs(), seed=-1), "seed must .* got -1"),
    "one row that is not there": (
        lambda: results.compare(random_runs(), "r0", "r1n"),
        r"^there is no row 'r1n' in the table: did you mean r1\? Choose one of r0, r1, r2, r3$",
    ),
    "two rows that are not there": (
        lambda: results.compare(random_runs(), "r00", "r11"),
        r"^there are no rows 'r00' and 'r11' in the table: did you mean r0 and r1\? Choose",
    ),
    "a row and itself": (lambda: results.compare(random_runs(), "r0", "r0"), "name another row"),
    "a list of rows": (
        lambda: results.compare(random_runs(), ["r0"], "r1"),
        r"a must be the name of one row, got \['r0'\]",
    ),
}


@pytest.mark.parametrize("kind", BAD)
def test_a_table_or_a_name_that_cannot_be_right_is_refused_in_a_sentence(kind: str) -> None:
    call, said = BAD[kind]
    with pytest.raises(PosbenchError, match=said):
        call()


@pytest.mark.parametrize(
    ("seeds", "shared", "least"),
    [(1, True, 1.0), (1, False, 1.0), (3, True, 2 / 8), (3, False, 2 / 20), (6, True, 2 / 64)],
)
def test_the_least_p_value_that_so_many_runs_can_give_stands_beside_it(
    seeds: int, shared: bool, least: float
) -> None:
    """One above the other in every run by as much as can be is the least that there is."""
    table = runs({"p": {"a": [1.0] * seeds}, "q": {"a": [0.0] * seeds}})
    if shared:
        table["training"] = table["task"] + table["seed"].astype(str)
    told = least > 0.05
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        found = results.compare(table, "p", "q", draws=50)
    assert found.loc["a", "p_value"] == pytest.approx(least) == found.loc["a", "p_least"]
    assert [str(each.message)[:60] for each in said] == [
        "p and q have too few runs for a test (1 task in common): no "
    ] * told
    if told:
        assert f"can be below {least:.2g}, whatever the difference" in str(said[0].message)


def test_the_least_p_value_of_unequal_sides_is_reached_too() -> None:
    unequal = runs({"p": {"a": [1.0, 1.0]}, "q": {"a": [0.0]}})
    with pytest.warns(UserWarning, match="can be below 0.33"):
        found = results.compare(unequal, "p", "q", draws=50).loc["a"]
    assert found["p_value"] == pytest.approx(1 / 3) == found["p_least"]
    levels = {"p": 1.0, "q": 0.0}
    several = runs({row: {task: [level] for task in "abcdef"} for row, level in levels.items()})
    found = results.compare(several, "p", "q", draws=50).loc["overall"]
    assert found["p_value"] == pytest.approx(2 / 64) == found["p_least"]


def test_two_rows_are_compared_on_each_task_and_overall() -> None:
    table = random_runs()
    found = results.compare(table, "r3", "r0", draws=500)
    tasks = [f"t{task}" for task in range(6)]
    assert found.index.tolist() == [*tasks, "overall", "over tasks"]
    means = aggregates.overall(table)
    assert found.loc["overall", "difference"] == pytest.approx(means["r3"] - means["r0"])
    assert (found[["p_above", "p_equivalent", "p_below"]].sum(axis=1) - 1).abs().max() < 1e-9
    assert found.loc["overall", "p_value"] < 0.01 < found.loc["t0", "p_holm"]
    assert set(found["test"].dropna()) == {"permutation"}
    turned = results.compare(table, "r0", "r3", draws=500)
    assert turned.loc["overall", "p_below"] == found.loc["overall", "p_above"]


@pytest.mark.parametrize("shared", [False, True])
def test_the_test_is_of_the_difference_that_stands_beside_it(shared: bool) -> None:
    """A is above on the one task of its group, and below by less on the five of the other: the mean
    of groups is for A, whereas a sum over all runs would be against it.
    """
    rng = np.random.default_rng(0)
    tasks = {"one": 0.5, **{f"t{place}": 0.3 for place in range(5)}}
    areas = {
        "a": {task: level + rng.uniform(-0.2, 0.2, 5) for task, level in tasks.items()},
        "b": {task: 0.4 + rng.uniform(-0.2, 0.2, 5) for task in tasks},
    }
    groups = {task: "x" if task == "one" else "y" for task in tasks}
    table = runs(areas, groups)
    if shared:
        table["training"] = table["task"] + table["seed"].astype(str)
    found = results.compare(table, "a", "b", draws=50).loc["overall"]
    a, b = (np.array([areas[row][task] for task in tasks]) for row in "ab")
    weights = np.array([0.5, *[0.1] * 5])
    assert found["difference"] == pytest.approx(weights @ (a - b).mean(1)) and (a - b).sum() < 0
    if shared:
        signs = rng.choice((-1, 1), size=(20_000, *a.shape))
        drawn = ((signs * (a - b)).mean(2) * weights).sum(1)
    else:
        mixed = rng.permuted(np.tile(np.hstack([a, b]), (20_000, 1, 1)), axis=2)
        drawn = ((mixed[..., :5].mean(2) - mixed[..., 5:].mean(2)) * weights).sum(1)
    expected = np.mean(np.abs(drawn) >= abs(found["difference"]))
    assert found["p_value"] == pytest.approx(expected, abs=0.015)


def test_signs_are_flipped_only_where_all_weights_are_shared() -> None:
    table = random_runs(rows=2)
    trained = table["task"] + table["seed"].astype(str)
    assert results.compare(table.assign(training=trained), "r0", "r1", draws=50)["test"][
        "overall"
    ] == ("sign flip")
    apart = trained.where(trained.index > 0, "another")
    said = results.compare(table.assign(training=apart), "r0", "r1", draws=50)["test"]
    assert said["overall"] == "permutation" == said["t0"] and said["t1"] == "sign flip"


def test_a_row_is_compared_where_both_have_runs() -> None:
    both = {"p": {"a": [0.5, 0.6, 0.5], "b": [0.4]}, "q": {"a": [0.9, 0.8, 0.9]}}
    table = runs(both | {"r": {"c": [1.0]}})
    found = results.compare(table, "p", "q", draws=50)
    assert found.index.tolist() == ["a"] and found["p_above"].tolist() == [0.0]
    levels = {"p": {"a": [0.5], "b": [0.4], "c": [0.4]}, "q": {"a": [0.9], "b": [0.6], "c": [0.7]}}
    once = runs(levels)
    drawn = ["low", "high", "p_above", "p_equivalent", "p_below"]
    alone = results.compare(once, "p", "q", {"a": "x", "b": "y"}, draws=50)
    assert alone[drawn].isna().all(axis=None), "there is nothing to draw"
    assert alone["difference"].to_list() == pytest.approx([-0.4, -0.2, -0.3, -0.3])
    grouped = results.compare(once, "p", "q", draws=50)
    assert grouped.loc["over tasks", "p_below"] > 0.5 and np.isnan(
        grouped.loc["overall", "p_below"]
    )
    with pytest.raises(PosbenchError, match="no task in common"):
        results.compare(table, "p", "r")
    with pytest.raises(PosbenchError, match="no row 'z'"):
        results.compare(table, "p", "z")
