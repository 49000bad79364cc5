"""What rows reach of what they learned: against least squares, brute force and known truths."""

from __future__ import annotations

import itertools

import numpy as np
import pandas as pd
import pytest
from runs import runs
from scipy import stats
from simulated import Coverage, Population

from posbench.base.errors import PosbenchError
from posbench.statistics import aggregates
from posbench.statistics.aggregates import Estimate
from posbench.statistics.effects import AdditiveFit
from posbench.statistics.likelihoods import resampled
from posbench.statistics.standings import within


def uneven(seed: int = 0, rows: int = 5, tasks: int = 7) -> pd.DataFrame:
    """A board of which a third of the cells is not learned, and some others with one training."""
    return Population("cells", rows, tasks, 3).board(seed)


def by_least_squares(board: pd.DataFrame) -> pd.Series:
    """The numbers of rows, by a matrix with a column for each row and task."""
    known = board[board["learned"]].groupby(["row", "task"], as_index=False)["area"].mean()
    parts = [pd.get_dummies(known[name]).astype(float) for name in ("row", "task")]
    design = pd.concat(parts, axis=1)
    found = np.linalg.lstsq(design.to_numpy(), known["area"].to_numpy(), rcond=None)[0]
    effects = pd.Series(found, design.columns)
    return effects[parts[0].columns] + effects[parts[1].columns].mean()


# -- the model -------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(5))
def test_numbers_are_those_of_least_squares_on_the_means_of_what_was_learned(seed: int) -> None:
    board = uneven(seed)
    board.loc[board["seed"] == seed % 3, "learned"] &= board["task"] != "t00"  # two of three
    fitted = AdditiveFit.of(board, draws=2)
    expected = by_least_squares(board)
    assert fitted.table()["number"].to_dict() == pytest.approx(
        expected.clip(None, None).to_dict(), abs=1e-6
    )


def test_the_number_of_a_row_that_learned_all_is_its_mean_whatever_others_learned() -> None:
    board = uneven()
    board.loc[board["row"] == "r02", "learned"] = True
    fitted = AdditiveFit.of(board, draws=2)
    mine = board[board["row"] == "r02"].groupby("task")["area"].mean().mean()
    assert fitted.table().loc["r02", "number"] == pytest.approx(mine, abs=1e-6)


def test_a_row_that_learned_the_easy_tasks_alone_is_put_at_the_mean_of_all() -> None:
    levels = {"a": 0.9, "b": 0.6, "c": 0.3}
    table = runs({row: {task: [level] for task, level in levels.items()} for row in "pq"})
    table["training"], table["learned"] = table.index.astype(str), True
    table.loc[(table["row"] == "q") & (table["task"] != "a"), "learned"] = False
    numbers = AdditiveFit.of(table, draws=2).table()["number"]
    assert numbers["q"] == pytest.approx(0.6, abs=1e-6), "not .9, its plain mean"


def test_rows_without_a_link_to_the_others_have_no_number() -> None:
    table = runs({"p": {"a": [0.5]}, "q": {"a": [0.6]}, "apart": {"b": [0.9]}})
    table = table.assign(training="", learned=True)
    numbers = AdditiveFit.of(table, draws=2).table()["number"]
    assert numbers[["p", "q"]].notna().all() and np.isnan(numbers["apart"])


def test_a_training_that_did_not_learn_counts_for_nothing() -> None:
    board = uneven()
    other = board.assign(area=board["area"].where(board["learned"], 77.0))
    pd.testing.assert_frame_equal(*(AdditiveFit.of(e, draws=20).table() for e in (board, other)))


# -- how sure it is --------------------------------------------------------------------------------


def test_errors_are_those_of_all_resamples_of_tasks_and_seeds() -> None:
    """One row on three tasks with two seeds: of two, one is drawn. 27 choices, 8 of seeds."""
    areas = {"a": [0.2, 0.4], "b": [0.5, 0.9], "c": [0.7, 0.8]}
    table = runs({"p": areas}).assign(training="", learned=True)
    means = [
        np.mean([seeds[task] for task in tasks])
        for tasks in itertools.product(range(3), repeat=3)
        for seeds in itertools.product(*areas.values())
    ]
    fitted = AdditiveFit.of(table, draws=40_000)
    error = np.std(means) * np.sqrt(3 / 2)
    assert fitted.errors()[0] == pytest.approx(error, rel=0.02)
    line = fitted.table().loc["p"]
    half = stats.t.ppf(0.975, 2) * fitted.errors()[0]
    assert line["low"] == pytest.approx(max(0, line["number"] - half))
    assert line["high"] == 1.0, "an area is at most 1"
    assert fitted.half_widths() == pytest.approx([half])


def test_where_all_learned_everything_numbers_and_errors_are_those_beside_an_uneven_row() -> None:
    """Plain means, which are faster, and the model for uneven boards say the same."""
    board = uneven().assign(learned=True)
    fewer = board[board["row"] == "r00"].assign(row="other", area=0.3)
    fewer["training"] += " other"
    fewer.loc[fewer["task"].isin(["t00", "t03"]), "learned"] = False
    even, beside = (AdditiveFit.of(each, draws=300) for each in (board, pd.concat([board, fewer])))
    assert even.drawn.mask.all() and not beside.drawn.mask.all()
    pd.testing.assert_frame_equal(even.table(), beside.table().loc[even.rows], rtol=1e-6)
    means = board.groupby(["row", "task"])["area"].mean().groupby("row").mean()
    assert even.table()["number"].to_dict() == pytest.approx(means.to_dict(), abs=1e-9)


def test_below_three_learned_tasks_there_is_no_interval() -> None:
    table = runs({"p": {"a": [0.2], "b": [0.5]}, "q": {task: [0.4] for task in "abc"}})
    fitted = AdditiveFit.of(table.assign(training="", learned=True), draws=50)
    bounds = fitted.table()[["low", "high"]]
    assert bounds.loc["p"].isna().all() and bounds.loc["q"].notna().all()
    told = fitted.differences("q").loc["p"]
    assert told["common"] == 2 and told[["low", "high", "p", "p_holm"]].isna().all()
    assert told["difference"] == pytest.approx(-0.05)


def test_other_rows_and_the_order_of_lines_change_no_error_of_a_row_that_learned_all() -> None:
    board = uneven()
    board.loc[board["row"] == "r02", "learned"] = True
    turned = board.sample(frac=1, random_state=1)
    alone = board[board["row"].isin(["r02", "r03"])]
    whole, same, fewer = (AdditiveFit.of(each, draws=200) for each in (board, turned, alone))
    pd.testing.assert_frame_equal(whole.table(), same.table())
    assert fewer.table().loc["r02"].to_dict() == pytest.approx(
        whole.table().loc["r02"].to_dict(), abs=1e-6
    )


@pytest.mark.slow
def test_a_difference_is_over_the_tasks_that_both_have_learned() -> None:
    areas = {
        "p": {"a": [0.9], "b": [0.5], "c": [0.6], "d": [0.7]},
        "q": {"a": [0.8], "b": [0.3], "c": [0.5], "d": [0.1]},
        "r": {"a": [0.9], "b": [0.5], "c": [0.6], "d": [0.7]},
    }
    table = runs(areas).assign(training="x", learned=True)
    table.loc[(table["row"] == "q") & (table["task"] == "d"), "learned"] = False
    told = AdditiveFit.of(table, draws=40_000).differences("p")
    each = np.array([-0.1, -0.2, -0.1])
    assert told.loc["q", "difference"] == pytest.approx(each.mean())
    # Three of four tasks are drawn by chance; a draw of none of them says nothing.
    draws = [d for d in itertools.product((*each, np.nan), repeat=4) if not np.isnan(d).all()]
    error = np.std([np.nanmean(draw) for draw in draws]) * np.sqrt(3 / 2)
    half = stats.t.ppf(0.975, 2) * error
    assert told.loc["q", "high"] == pytest.approx(each.mean() + half, rel=0.02)
    assert told.loc["q", "p"] == pytest.approx(2 * stats.t.sf(-each.mean() / error, 2), rel=0.03)
    assert told.loc["r", "p"] == 1.0 and told.loc["r", "difference"] == 0
    assert told["p_holm"].to_dict() == pytest.approx({"q": 2 * told.loc["q", "p"], "r": 1.0})
    back = AdditiveFit.of(table, draws=50).differences("q").loc["p"]
    assert back["common"] == 3 and back["difference"] == pytest.approx(-each.mean())
    alone = AdditiveFit.of(table, draws=40_000).differences("p", ["q"])
    assert alone.loc["q", "p_holm"] == alone.loc["q", "p"], "it is said of one row"


@pytest.mark.slow
def test_rows_with_other_seeds_are_compared_on_those_that_both_were_run_with() -> None:
    """A second seed that one row alone has is easier or harder, and is no merit of the row."""
    areas = {
        "p": {"a": [0.9, 0.1], "b": [0.5, 0.1], "c": [0.6, 0.2], "d": [0.7]},
        "q": {"a": [0.8], "b": [0.3], "c": [0.5], "d": [0.1]},
    }
    table = runs(areas).assign(training="x", learned=True)
    fitted = AdditiveFit.of(table, draws=500)
    told = fitted.differences("p").loc["q"]
    assert told["difference"] == pytest.approx(np.mean([-0.1, -0.2, -0.1, -0.6]))
    assert told["common"] == 4
    first = table[table["seed"] == table["seed"].min()]
    same = AdditiveFit.of(first, draws=500).differences("p").loc["q"]
    assert told.to_dict() == pytest.approx(same.to_dict())
    assert fitted.number()["p"] == pytest.approx(np.mean([0.5, 0.3, 0.4, 0.7])), "of all its seeds"
    # Where they have no seed in common on a task, all of them serve.
    table.loc[(table["row"] == "q") & (table["task"] == "a"), "seed"] = 77
    told = AdditiveFit.of(table, draws=50).differences("p").loc["q"]
    assert told["difference"] == pytest.approx(np.mean([0.3, -0.2, -0.1, -0.6]))
    # A common seed that has not learned tells nothing, and the others do not take its place.
    table.loc[(table["row"] == "p") & (table["task"] == "b"), "learned"] = [False, True]
    told = AdditiveFit.of(table, draws=50).differences("p").loc["q"]
    assert told["common"] == 3
    assert told["difference"] == pytest.approx(np.mean([0.3, -0.1, -0.6]))
    one = table[table["task"] == "b"]
    told = AdditiveFit.of(one, draws=50).differences("p").loc["q"]
    assert told["common"] == 0 and np.isnan(told["difference"])


def test_rows_that_are_left_out_and_other_measures_change_no_difference() -> None:
    """Several seeds, rows that share their trainings, and a first row that is not the first."""
    rng = np.random.default_rng(1)
    areas = {row: {task: rng.uniform(0.2, 0.8, 3) for task in "abcd"} for row in "pqrs"}
    table = runs(areas).assign(learned=True)
    table["training"] = table["task"] + table["seed"].astype(str)
    table["8x"] = table["area"].to_numpy() ** 2
    fitted = AdditiveFit.of(table, ("area", "8x"), draws=300)
    for measure in ("area", "8x"):
        whole = fitted.differences("r", measure=measure).drop(columns="p_holm")
        for rows in (["s"], ["q", "p"], ["r", "s", "q"]):
            part = fitted.differences("r", rows, measure).drop(columns="p_holm")
            kept = [row for row in rows if row != "r"]
            pd.testing.assert_frame_equal(part, whole.loc[kept], rtol=1e-10)
        alone = AdditiveFit.of(table, (measure,), draws=300).differences("r", measure=measure)
        pd.testing.assert_frame_equal(alone.drop(columns="p_holm"), whole, rtol=1e-10)


def test_rows_that_share_their_trainings_keep_the_pairing() -> None:
    """One is above the other by .1 with every training: of that nothing varies."""
    rng = np.random.default_rng(0)
    levels = {task: rng.uniform(0.2, 0.8, 3) for task in "abcd"}
    areas = {"p": levels, "q": {task: values + 0.1 for task, values in levels.items()}}
    table = runs(areas).assign(learned=True)
    shared = table.assign(training=table["task"] + table["seed"].astype(str))
    apart = shared.assign(training=shared["training"] + shared["row"])
    paired, free = (
        AdditiveFit.of(each, draws=500).differences("p").loc["q"] for each in (shared, apart)
    )
    assert paired["high"] - paired["low"] == pytest.approx(0, abs=1e-9)
    assert free["high"] - free["low"] > 0.05


def test_what_was_not_learned_lies_between_nothing_and_the_best_row() -> None:
    table = runs({"p": {"a": [0.4], "b": [0.6]}, "q": {"a": [0.5]}}).assign(
        training="", learned=True
    )
    bounds = AdditiveFit.of(table, draws=2).bounds(["a", "b", "c"], ["p", "q"])
    assert bounds.loc["q"].to_dict() == pytest.approx(
        {"least": 0.5 / 3, "most": (0.5 + 0.6 + 1) / 3}
    )
    assert bounds.loc["p", "least"] == pytest.approx(1 / 3)


def test_several_measures_are_fitted_at_once_as_each_by_itself() -> None:
    board = uneven()
    board["8x"] = board["area"] ** 2
    both = AdditiveFit.of(board, ["area", "8x"], draws=100)
    alone = AdditiveFit.of(board.assign(area=board["8x"]), draws=100)
    pd.testing.assert_frame_equal(both.table("8x"), alone.table())
    told = [both.differences("r04", measure="8x"), alone.differences("r04")]
    pd.testing.assert_frame_equal(*told)


# -- whether intervals hold the truth --------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("lacking", ["cells", "tasks"])
def test_intervals_of_a_few_simulated_boards_hold_the_truth(lacking: str) -> None:
    found = Coverage.of(Population(lacking, rows=6), boards=40, draws=150)
    assert found.numbers >= 0.93 and found.differences >= 0.93


CASES = {
    "nothing lacks": Population("nothing"),
    "trainings lack by luck": Population("trainings"),
    "cells lack by luck": Population("cells"),
    "hard tasks lack": Population("tasks"),
    "one seed": Population("cells", seeds=1),
    "six tasks": Population("cells", tasks=6, seeds=2),
    "rows hardly differ from task to task": Population("cells", of_both=0.03, of_seeds=0.03),
    "noisy seeds": Population("trainings", of_both=0.03, of_seeds=0.3),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_intervals_of_simulated_boards_hold_the_truth(name: str) -> None:
    found = Coverage.of(CASES[name], boards=300, draws=400)
    print(name, found)
    assert found.numbers >= 0.93 and found.differences >= 0.93


@pytest.mark.slow
@pytest.mark.parametrize("rows", [8, 30])
def test_rows_that_are_alike_seldom_differ_from_the_first(rows: int) -> None:
    """The first is chosen for being the highest, which no correction for the others allows for."""
    found = Coverage.of(Population("cells", rows, of_rows=0.0), boards=200, draws=300)
    print(rows, found)
    assert found.false <= 0.05


# -- tables of runs, means over seeds --------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda table: table.drop(columns="seed"), "columns seed"),
        (lambda table: pd.concat([table, table]), "twice"),
        (lambda table: table.iloc[:0], "no run"),
        (lambda table: table.assign(area="much"), "must hold numbers"),
    ],
)
def test_a_table_that_is_none_of_runs_is_refused(change: object, said: str) -> None:
    table = runs({"p": {"a": [0.1, 0.2]}})
    with pytest.raises(PosbenchError, match=said):
        aggregates.checked(change(table))  # type: ignore[operator]


def test_means_over_seeds_vary_as_all_resamples_of_a_seed_less_widened() -> None:
    seeds = [0.31, 0.45, 0.52, 0.77, 0.9]
    values = pd.DataFrame({"p": seeds, "q": np.array(seeds) - 0.1})
    drawn = resampled(values, draws=40_000)
    factor = stats.t.ppf(0.975, 4) / stats.norm.ppf(0.975)
    means = np.array(list(itertools.product(seeds, repeat=4))).mean(1)
    mean = np.mean(seeds)
    exact = mean + factor * (np.quantile(means, [0.025, 0.975]) - mean)
    assert np.quantile(drawn.overall[:, 0], [0.025, 0.975]) == pytest.approx(exact, abs=0.03)
    assert drawn.difference("p", "q") == pytest.approx((0.1, 0.1)), "they share what is drawn"


def test_an_estimate_has_an_interval_from_three_seeds_on() -> None:
    assert np.isnan(Estimate.over([0.1, 0.2]).half_width)
    three = [0.1, 0.2, 0.4]
    half = stats.t.ppf(0.975, 2) * stats.sem(three)
    assert Estimate.over(three).half_width == pytest.approx(half)


# -- what was learned for the same computation -----------------------------------------------------


def test_what_was_learned_for_the_multiplications_of_another_row() -> None:
    table = pd.DataFrame(
        [
            # q needs at most 90 for a, and has not learned b.
            ("q", "a", True, 60.0, 1.0),
            ("q", "a", True, 90.0, 1.0),
            ("q", "b", False, np.nan, 1.0),
            ("q", "c", True, 40.0, 1.0),
            ("p", "a", True, 90.0, 2.0),
            ("p", "a", True, 90.5, 2.0),  # a little too late
            ("p", "b", True, 10.0, 2.0),  # without a budget
            ("p", "c", False, 10.0, 2.0),  # at the gate once, and not in the end
            ("r", "c", True, np.nan, 2.0),  # learned in the end, and never seen at the gate
        ],
        columns=["row", "task", "learned", "multiplications", "step_multiplications"],
    )
    found = within(table, "q")
    assert list(found.index) == ["q", "p", "r"]
    assert found.loc["q"].to_dict() == {"learned": 1.0, "tasks": 2, "num_tasks": 2}
    assert found.loc["p"].to_dict() == {"learned": 0.25, "tasks": 1, "num_tasks": 2}
    assert found.loc["r"].to_dict() == {"learned": 0.0, "tasks": 0, "num_tasks": 1}
    assert within(table, "s").empty, "no such row"
    table.loc[0, "step_multiplications"] = np.nan
    assert within(table, "q").empty, "a record without a count"
