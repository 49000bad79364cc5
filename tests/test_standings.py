"""What users ask of a data frame: the standings, and one row against another."""

from __future__ import annotations

import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from making import changed, record, save
from runs import random_runs, runs
from scipy import stats

from posbench import results
from posbench.base.errors import PosbenchError

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


@pytest.mark.slow
def test_records_are_summarised_from_the_long_table(tmp_path: Path) -> None:
    table = results.summarise(results.load(saved(tmp_path)))
    assert table.index.tolist() == [("zero-shot", "rope"), ("zero-shot", "nope")]
    rope = table.loc[("zero-shot", "rope")]
    expected = np.mean([(1.9 / 2 + 0.9 + (1.8 - 0.05 * seed) / 2) / 3 for seed in range(3)])
    assert rope["reaches"] == pytest.approx(expected, abs=1e-3) == rope["copy"]
    assert (rope["learned"], rope["tasks"], rope["num_tasks"], rope["num_seeds"]) == (1, 2, 2, 3)
    assert np.isnan(rope["low"]), "there are two tasks"
    only = results.summarise(results.load(tmp_path), board=["copy"])
    assert (only["num_tasks"] == 1).all() and "passkey" not in only


def test_rows_are_ranked_within_their_class_and_best_first() -> None:
    table = random_runs()
    table["class"] = table["row"].map(lambda row: "tuned" if row == "r3" else "zero-shot")
    found = results.summarise(table, draws=200)
    assert found.index.get_level_values("row").tolist() == ["r2", "r1", "r0", "r3"]
    means = table.groupby(["row", "task"])["area"].mean().groupby("row").mean()
    assert found.droplevel("class")["reaches"].to_dict() == pytest.approx(means.to_dict())
    assert (found["low"] < found["reaches"]).all() and (found["reaches"] < found["high"]).all()
    assert np.isnan(found["difference"].iloc[0]) and np.isnan(found["difference"].iloc[3])
    assert (found["difference"].iloc[1:3] < 0).all() and (found["common"].iloc[1:3] == 6).all()


def test_what_was_learned_and_how_far_it_reaches_are_two_numbers() -> None:
    """A training that did not learn lowers the one and not the other."""
    table = runs({"p": {task: [0.8, 0.8] for task in "abc"}, "q": {task: [0.5] for task in "abc"}})
    table["learned"], table["steps_to_gate"] = (
        True,
        [100.0, 300.0] + [200.0, 300.0] * 2 + [50.0] * 3,
    )
    lost = (table["row"] == "p") & (table["seed"] == 1) & (table["task"] != "a")
    table.loc[lost, ["learned", "area", "steps_to_gate"]] = [False, 0.1, np.nan]
    found = results.summarise(table, draws=50).droplevel("class")
    assert found.loc["p", "learned"] == pytest.approx((1 + 0.5 + 0.5) / 3)
    assert found.loc["p", "reaches"] == pytest.approx(0.8) and found.loc["p", "tasks"] == 3
    assert (found.loc["p", "steps"], found.loc["p", "censored"]) == (200, 2)
    assert (found["least"] == found["most"]).all()


@pytest.mark.slow
def test_a_row_that_learned_fewer_than_two_thirds_has_no_place_and_no_first_beside_it() -> None:
    table = runs({"p": {task: [0.9] for task in "abcdef"}, "q": {task: [0.5] for task in "abcdef"}})
    table["learned"] = True
    table.loc[(table["row"] == "p") & table["task"].isin(["a", "b"]), "learned"] = False
    found = results.summarise(table, draws=50).droplevel("class")
    assert found["placed"].all() and found.index[0] == "p", "four of six are two thirds"
    table.loc[(table["row"] == "p") & (table["task"] == "c"), "learned"] = False
    found = results.summarise(table, draws=50).droplevel("class")
    assert list(found.index) == ["q", "p"] and found["placed"].tolist() == [True, False]
    assert found.loc["p", "reaches"] == pytest.approx(0.9)
    assert found.loc["p", ["least", "most"]].tolist() == pytest.approx([0.45, 0.7])
    table.loc[table["row"] == "p", "learned"] = False
    found = results.summarise(table, draws=50).droplevel("class")
    assert found.loc["p", ["least", "most"]].tolist() == [0.0, 0.5], "as far as the best row"
    table["learned"] = False
    found = results.summarise(table, draws=50)
    assert found["reaches"].isna().all() and not found["placed"].any()


@pytest.mark.slow
def test_an_extension_has_learned_what_its_training_has(tmp_path: Path) -> None:
    lost = {"rows.0.proficiency": 0.2, "training.settings_hash": "one"}
    trained = {"config.extension": {"_target_": "posbench.extensions.direct.Direct"}}
    host = changed(
        record("rope", {1: 1.0, 2: 0.2, 8: 0.2}), trained | {"training.settings_hash": "one"}
    )
    save(tmp_path, host, changed(record("rope_pi", {1: 0.2, 2: 0.9, 8: 0.9}), lost))
    found = results.summarise(results.load(tmp_path)).droplevel("class")
    assert found["learned"].to_dict() == {"rope": 1, "rope_pi": 1}
    save(tmp_path / "alone", changed(record("rope_pi", {1: 0.2, 2: 0.9, 8: 0.9}), lost))
    found = results.summarise(results.load(tmp_path / "alone")).droplevel("class")
    assert found["learned"].to_dict() == {"rope_pi": 0}, "nobody knows its training"


def test_a_run_that_was_not_tested_at_1x_has_not_failed_to_learn() -> None:
    table = runs({"p": {"a": [0.9, 0.9], "b": [0.8, 0.1]}})
    table["in_distribution"] = [1.0, np.nan, 1.0, 0.2]
    table["learned"] = [True, False, True, False]
    found = results.summarise(table, draws=50).loc[("all", "p")]
    assert found["learned"] == pytest.approx((1 + 0.5) / 2)


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
        results.difference(table, "rope", "nope")


@pytest.mark.slow
def test_a_table_in_which_a_name_or_a_number_is_missing_is_refused(tmp_path: Path) -> None:
    table = results.load(saved(tmp_path))
    for column, wrong in (("task", None), ("seed", np.nan), ("score", np.inf), ("chance", -np.inf)):
        with pytest.raises(PosbenchError, match=f"column {column} has {wrong} in 48 lines"):
            results.summarise(table.assign(**{column: wrong}))
    unknown = results.summarise(table.assign(score=np.nan), draws=50)
    assert unknown["reaches"].isna().all() and len(unknown) == 2


def changed_areas(**columns: object) -> pd.DataFrame:
    return random_runs().assign(**columns)


BAD = {
    "a folder": (lambda: results.summarise("results/main"), "must be a data frame, .* got a str"),
    "a folder, compared": (lambda: results.difference("results/main", "a", "b"), "got a str"),
    "areas in words": (
        lambda: results.summarise(changed_areas(area="high")),
        "area must hold numbers, shares of 1",
    ),
    "scores in words": (
        lambda: results.summarise(changed_areas(area=0.5).drop(columns="area").assign(score="1")),
        "the table lacks the columns protocol, protocol_hash",
    ),
    "a class that is not there": (
        lambda: results.summarise(changed_areas(**{"class": [None, *["z"] * 119]})),
        "class must hold names, got nan",
    ),
    "a class that is a number": (
        lambda: results.summarise(changed_areas(**{"class": 1})),
        "class must hold names, got 1",
    ),
    "protocols of two kinds": (
        lambda: results.summarise(changed_areas(protocol=[1, *["x"] * 119])),
        "runs of protocols 1, x have no mean in common",
    ),
    "seeds in lists": (
        lambda: results.summarise(changed_areas(seed=[[0]] * 120)),
        "seed must hold whole numbers",
    ),
    "no seeds": (lambda: results.summarise(changed_areas(seed=np.nan)), "seed must hold whole"),
    "steps in words": (
        lambda: results.summarise(changed_areas(steps_to_gate="a")),
        "steps_to_gate must hold numbers",
    ),
    "a column that is there twice": (
        lambda: results.summarise(pd.concat([random_runs(), random_runs()[["area"]]], axis=1)),
        "the table has the column area twice",
    ),
    "no run": (lambda: results.summarise(random_runs()[:0]), "no run in the table"),
    "a board by its name": (lambda: results.summarise(random_runs(), "main"), "got 'main'"),
    "a board of other tasks": (
        lambda: results.summarise(random_runs(), {"copy": "x"}),
        r"there is no task 'copy' in the table: choose one of t0, t1, t2",
    ),
    "a task among others by a wrong name": (
        lambda: results.difference(random_runs(), "r0", "r1", ["t0", "t11", "t2"]),
        r"there is no task 't11' in the table: did you mean t1\?",
    ),
    "no draw": (lambda: results.summarise(random_runs(), draws=0), "draws must .* got 0"),
    "half a draw": (lambda: results.difference(random_runs(), "r0", "r1", draws=0.5), "got 0.5"),
    "a seed below 0": (lambda: results.summarise(random_runs(), seed=-1), "seed must .* got -1"),
    "one row that is not there": (
        lambda: results.difference(random_runs(), "r0", "r1n"),
        r"^there is no row 'r1n' in the table: did you mean r1\? Choose one of r0, r1, r2, r3$",
    ),
    "two rows that are not there": (
        lambda: results.difference(random_runs(), "r00", "r11"),
        r"^there are no rows 'r00' and 'r11' in the table: did you mean r0 and r1\? Choose",
    ),
    "a row and itself": (lambda: results.difference(random_runs(), "r0", "r0"), "name another row"),
    "a list of rows": (
        lambda: results.difference(random_runs(), ["r0"], "r1"),
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
        found = results.difference(table, "p", "q", draws=50)
    assert found.loc["a", "p_value"] == pytest.approx(least) == found.loc["a", "p_least"]
    assert [str(each.message)[:60] for each in said] == [
        "p and q have too few runs for a test (1 task in common): no "
    ] * told
    if told:
        assert f"can be below {least:.2g}, whatever the difference" in str(said[0].message)


def test_the_least_p_value_of_unequal_sides_is_reached_too() -> None:
    unequal = runs({"p": {"a": [1.0, 1.0]}, "q": {"a": [0.0]}})
    unequal.loc[2, "seed"] = 5  # else the common seed alone would count
    with pytest.warns(UserWarning, match="can be below 0.33"):
        found = results.difference(unequal, "p", "q", draws=50).loc["a"]
    assert found["p_value"] == pytest.approx(1 / 3) == found["p_least"]


@pytest.mark.slow
def test_two_rows_are_compared_on_each_task_and_over_those_that_both_learned() -> None:
    table = random_runs().assign(learned=True)
    table.loc[(table["row"] == "r0") & (table["task"] == "t0"), "learned"] = False
    found = results.difference(table, "r3", "r0", draws=500)
    assert found.index.tolist() == [*(f"t{task}" for task in range(1, 6)), "learned by both"]
    means = table[table["task"] != "t0"].groupby("row")["area"].mean()
    over = found.loc["learned by both"]
    assert over["difference"] == pytest.approx(means["r3"] - means["r0"])
    assert over["low"] < over["difference"] < over["high"]
    assert over["p_value"] < 0.05 < found.loc["t1", "p_holm"]
    assert found["test"].tolist() == ["permutation"] * 5 + ["t over tasks"]
    turned = results.difference(table, "r0", "r3", draws=500).loc["learned by both"]
    assert turned["low"] == pytest.approx(-over["high"])


@pytest.mark.parametrize("shared", [False, True])
def test_the_interval_of_a_task_is_that_of_student_over_seeds(shared: bool) -> None:
    one, other = [0.9, 0.7, 0.8, 0.6], [0.5, 0.4, 0.6, 0.1]
    table = runs({"p": {"a": one}, "q": {"a": other}})
    if shared:
        table["training"] = table["seed"].astype(str)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        line = results.difference(table, "p", "q", draws=50).loc["a"]
    pairs = np.array(one) - other
    error = (
        stats.sem(pairs) if shared else np.sqrt((np.var(one, ddof=1) + np.var(other, ddof=1)) / 4)
    )
    half = stats.t.ppf(0.975, 3) * error
    assert line["difference"] == pytest.approx(pairs.mean())
    assert [line["low"], line["high"]] == pytest.approx([pairs.mean() - half, pairs.mean() + half])


def test_signs_are_flipped_only_where_all_weights_are_shared() -> None:
    table = random_runs(rows=2)
    trained = table["task"] + table["seed"].astype(str)
    apart = trained.where(trained.index > 0, "another")
    said = results.difference(table.assign(training=apart), "r0", "r1", draws=50)["test"]
    assert said["t0"] == "permutation" and said["t1"] == "sign flip"


def test_a_row_is_compared_where_both_have_learned() -> None:
    both = {"p": {"a": [0.5, 0.6, 0.5], "b": [0.4]}, "q": {"a": [0.9, 0.8, 0.9]}}
    table = runs(both | {"r": {"c": [1.0]}})
    with pytest.warns(UserWarning, match="too few runs"):
        found = results.difference(table, "p", "q", draws=50)
    assert found.index.tolist() == ["a", "learned by both"]
    assert np.isnan(found.loc["learned by both", "low"]), "of one task"
    with pytest.raises(PosbenchError, match="have no task in common that both have learned"):
        results.difference(table, "p", "r")
    with pytest.raises(PosbenchError, match="no row 'z'"):
        results.difference(table, "p", "z")


@pytest.mark.slow
def test_a_seed_that_one_of_two_rows_has_not_learned_tells_nothing_of_either() -> None:
    """On the others B is .25 behind; over all that each has learned, it would be .20."""
    areas = {"A": [0.5, 0.5, 0.8], "B": [0.25, 0.25, 0.0]}
    table = runs({row: dict.fromkeys("stuv", each) for row, each in areas.items()})
    table["learned"] = table["area"] > 0
    other_seeds = table[(table["row"] == "A") & (table["seed"] == 2)].assign(seed=9, area=1.0)
    found = results.difference(pd.concat([table, other_seeds]), "B", "A", draws=200)
    same = results.difference(table, "B", "A", draws=200)
    over, board = found.loc["learned by both"], results.summarise(table, draws=200)
    assert over["difference"] == pytest.approx(over["a"] - over["b"])
    assert found["difference"].to_dict() == pytest.approx(same["difference"].to_dict())
    assert board.droplevel("class").loc["B", "difference"] == pytest.approx(over["difference"])


def test_two_rows_without_a_common_seed_that_either_learned_have_no_difference() -> None:
    table = runs({"p": {"a": [0.5, 0.6]}, "q": {"a": [0.4, 0.3]}})
    table["learned"] = table["seed"] == 1
    table.loc[(table["row"] == "q") & (table["seed"] == 1), "seed"] = 2
    found = results.summarise(table, draws=50)
    assert len(found) == 2 and found["difference"].isna().all()
    with pytest.raises(PosbenchError, match="have no task in common that both have learned"):
        results.difference(table, "p", "q")


@pytest.mark.slow
def test_runs_of_two_contents_have_no_common_mean_and_draws_are_bounded() -> None:
    table = random_runs(rows=2).assign(method_hash="a", task_hash="b")
    for call in (results.summarise, lambda each: results.difference(each, "r0", "r1")):
        with pytest.raises(PosbenchError, match="r1 has runs of method_hash c and d, which have"):
            call(table.assign(method_hash=np.where(table["row"] == "r0", "a", ["c", "d"] * 30)))
        call(table.assign(method_hash=table["row"]))
    with pytest.raises(PosbenchError, match="draws must be at most 1,000,000, got 1,000,000,000"):
        results.difference(table, "r0", "r1", draws=10**9)


@pytest.mark.parametrize(
    ("column", "value", "said"),
    [
        ("learned", "False", "learned must say of each run whether .* got 'False'"),
        ("learned", np.nan, "learned must say of each run"),
        ("learned", 0.5, "learned must say of each run .* got 0.5"),
        ("area", np.inf, "area must be a share of 1, got inf in 1 line"),
        ("area", 83.0, "area must be a share of 1, got 83 in 1 line: divide a percentage by 100"),
        ("row", None, "row must hold names, got nan"),
        ("task", 3, "task must hold names, got 3"),
    ],
)
def test_a_column_that_was_edited_wrongly_is_refused(column: str, value: object, said: str) -> None:
    table = random_runs(rows=2).assign(learned=True)
    table[column] = [value, *table[column].astype(object)[1:]]
    if column == "area":
        table[column] = table[column].astype(float)
    for call in (results.summarise, lambda each: results.difference(each, "r0", "r1")):
        with pytest.raises(PosbenchError, match=said):
            call(table)
    with pytest.raises(PosbenchError, match="board names no task"):
        results.summarise(random_runs(rows=2), board=[])


@pytest.mark.parametrize(
    ("column", "value", "said"),
    [
        ("true_multiple", np.nan, "the column true_multiple has nan in 1 line"),
        ("score", 95.0, "score is a share of 1, got 95 in 1 line: divide a percentage by 100"),
        ("chance", 1.0, "chance is a share of 1, got 1 in 1 line"),
    ],
)
def test_a_length_without_its_number_makes_no_area_over_others(
    column: str, value: float, said: str, tmp_path: Path
) -> None:
    saved(tmp_path)
    table = results.load(tmp_path)
    table.loc[table.index[1], column] = value
    with pytest.raises(PosbenchError, match=said):
        results.summarise(table)


def test_a_number_is_no_area_above_1() -> None:
    """The model puts p at 1 + (.2 + .8) / 2 - .2: it has all of the task that is hard for q."""
    table = runs({"p": {"hard": [1.0]}, "q": {"hard": [0.2], "easy": [0.8]}})
    found = results.summarise(table, draws=50).droplevel("class")
    assert found.loc["p", "reaches"] == 1 and found.loc["q", "reaches"] == pytest.approx(0.5)
