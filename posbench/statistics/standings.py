"""A table of runs, summarised as a board and compared row against row."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd

from posbench.base.errors import PosbenchError
from posbench.base.wording import MANY, agreeing, closest, known_names
from posbench.statistics import aggregates, bootstrap, measures, randomisation
from posbench.statistics import aggregates as distributions
from posbench.statistics.aggregates import zero_shot_first
from posbench.statistics.bootstrap import DRAWS, EQUIVALENT, Draws

OTHER_NAMES = {"method": "row", "method_class": "class", "training_hash": "training"}
"""What some columns of runs are called in the long table."""
DRAWN = ["rank", "p_best"] + [
    f"{over}_{what}"
    for over in ("seeds", "tasks")
    for what in ("low", "high", "rank_low", "rank_high")
]
"""The columns of a summary that draws give."""
SIGNIFICANT = 0.05
"""A test that cannot give a p-value of this or less says nothing, whatever the runs are."""
OF_LENGTHS = frozenset({"score", "multiple", "test_length", "chance"})
"""Columns by which a table has a line for each test length, and not for each run."""


def summarise(
    frame: pd.DataFrame,
    board: Mapping[str, str] | None = None,
    draws: int = DRAWS,
    seed: int = 0,
) -> pd.DataFrame:
    """Rank the rows of a table of runs within their classes, with intervals of all numbers.

    A task is the mean over seeds, a group the mean of its tasks, overall the mean of the groups.
    All numbers are areas, as shares of 1: see `posbench.statistics.measures.area`.

    Args:
        frame: the long table of `posbench.results.load`, or one line a run with columns `row`
            (or `method`), `task`, `seed`, `area`, and, where they are known, `group`, `class`,
            `training` (hash: runs that share it share weights), `in_distribution` and `learned`
        board: task -> group; tasks that it lacks are left out. Without it and without a column
            `group`, tasks are in no group: overall is their mean, intervals over tasks draw among
            all of them, and each has the columns of a group.
        draws: of the bootstrap
        seed: of the bootstrap; the same seed gives the same numbers

    Returns:
        One line a row, best first within its class, with the index (class, row) and columns
        `overall`; `seeds_low`, `seeds_high` (95 % given these tasks); `tasks_low`, `tasks_high`
        (95 % over tasks); `seeds_rank_low`, `seeds_rank_high`, `tasks_rank_low`
        and `tasks_rank_high`, from the same two; `rank` (1 + the rows above by .02 at least);
        `p_best` (over tasks); `num_seeds` (the fewest of a task); `num_tasks`; where known,
        `in_distribution` (mean corrected score at 1x), `learned` (share of those) and
        `overall_learned` (runs that learned alone; NaN if a task has none); and, for each group,
        `GROUP`, `GROUP_low`, `GROUP_high` (given these tasks). A row that lacks a task has NaN
        and stands last. Intervals given these tasks are NaN where a task has fewer than three
        seeds, and ranks given them where that is so for some row. Intervals over tasks
        and `p_best` are NaN where some group has a single task, or where there are fewer than three
        tasks in all. A row that stands alone has no rank interval.

    Raises:
        PosbenchError: if a column is missing, a run is there twice, or protocols are mixed
    """
    _refuse_draws(draws, seed)
    runs = of_board(frame, board)
    classes = runs["class"] if "class" in runs else pd.Series("all", runs.index)
    tables = {
        name: standing(part, draws, seed)[0] for name, part in runs.groupby(classes, sort=True)
    }
    order = sorted(tables, key=zero_shot_first)
    return pd.concat({name: tables[name] for name in order}, names=["class", "row"])


def compare(
    frame: pd.DataFrame,
    a: str,
    b: str,
    board: Mapping[str, str] | None = None,
    draws: int = DRAWS,
    seed: int = 0,
) -> pd.DataFrame:
    """Compare row `a` with row `b` on every task and overall. All numbers are areas or shares.

    Args:
        frame: see `summarise`
        a: label of a row
        b: label of another
        board: see `summarise`
        draws: of the bootstrap
        seed: of the bootstrap

    Returns:
        One line a task that both have, and last "overall", "over tasks" if both have all tasks:
        columns `a`, `b`, `difference` (a - b); `low`, `high` (95 %, other seeds; in the line
        "over tasks" other tasks as well); `p_above`, `p_equivalent`, `p_below`: shares of draws
        in which a is above b by .02 at least, within .02 of it, and below; `p_improvement`, the
        chance that a run of a is above one of b; and `p_value`, two-sided, of the `test`: "sign
        flip" where all runs of both share their weights, seed by seed, "permutation" elsewhere.
        `p_least` is the least p-value that the test can give of so many runs: 1 for one seed of one
        task, which can tell nothing. `posbench.results.compare` warns where no test can reach .05.
        `p_holm` is adjusted over the tasks. Runs without an area are dropped. Bounds and shares of
        draws are NaN where there are fewer than three seeds, too few to draw from; in the line
        "over tasks", where some group has a single task, or there are fewer than three.

    Raises:
        PosbenchError: if a row is unknown, the two have no task in common, or as `summarise`
    """
    _refuse_draws(draws, seed)
    runs = of_board(frame, board)
    _refuse_unknown_rows(runs, a, b)
    runs = runs.dropna(subset="area")
    pair = runs[runs["row"].isin([a, b])]
    tasks = [task for task, part in pair.groupby("task") if part["row"].nunique() == 2]
    if not tasks:
        raise PosbenchError(
            f"{a!r} and {b!r} have no task in common on which both have an area: add runs of one "
            "on a task of the other"
        )
    lines: dict[str, dict[str, Any]] = {}
    for task in tasks:
        part = pair[pair["task"] == task]
        drawn = bootstrap.given_tasks(part, draws, seed)
        lines[task] = _compared(part, drawn, a, b, aggregates.repeated(part)) | _tested(part, a, b)
    adjusted = randomisation.holm([lines[task]["p_value"] for task in tasks])
    for task, p in zip(tasks, adjusted, strict=True):
        lines[task]["p_holm"] = p
    if set(tasks) == set(runs["task"]):
        given, over = (
            resample(pair, draws, seed)
            for resample in (bootstrap.given_tasks, bootstrap.over_tasks)
        )
        known = aggregates.repeated(pair)
        weights = {
            task: 1 / (len(given.groups) * len(of_group))
            for of_group in aggregates.means_and_groups(pair)[1].values()
            for task in of_group
        }
        lines["overall"] = _compared(pair, given, a, b, known) | _tested(pair, a, b, weights)
        several = aggregates.has_tasks_to_draw(pair)
        lines["over tasks"] = _compared(pair, over, a, b, several)
    return pd.DataFrame.from_dict(lines, orient="index").rename_axis(index="task")


def of_board(frame: pd.DataFrame, board: Mapping[str, str] | None = None) -> pd.DataFrame:
    """The table of runs of `frame`, with the tasks and groups of a board; see `summarise`."""
    if not isinstance(frame, pd.DataFrame):
        raise PosbenchError(
            f"a table of runs must be a data frame, such as posbench.results.load(FOLDER), got a "
            f"{type(frame).__name__}"
        )
    if board is not None and not isinstance(board, Mapping):
        raise PosbenchError(
            f"board must say the group of each task, as {{'passkey': 'retrieval'}}, got {board!r}"
        )
    if "area" not in frame and not OF_LENGTHS.isdisjoint(frame):
        measures.refuse_lacking(frame, measures.NEEDED)
        runs = measures.of_runs(frame)
    else:
        runs = frame.copy()
    lacking = {old: new for old, new in OTHER_NAMES.items() if old in runs and new not in runs}
    runs = runs.rename(columns=lacking)
    if "protocol" in runs and runs["protocol"].nunique() > 1:
        found = sorted(runs["protocol"].unique())
        raise PosbenchError(
            f"runs of protocols {', '.join(found)} have no mean in common: keep those of one, such "
            f"as table[table['protocol'] == '{found[0]}']"
        )
    if board is not None and "task" in runs:
        tasks = sorted(map(str, runs["task"].unique()))
        runs = runs.assign(group=runs["task"].map(dict(board))).dropna(subset="group")
        if runs.empty and tasks:
            raise PosbenchError(
                f"the board has none of the tasks of the table ({', '.join(tasks[:MANY])}): give "
                "the group of each, under the name that the table has"
            )
    elif "group" not in runs and "task" in runs:
        runs = runs.assign(group=runs["task"])
    return aggregates.checked(runs)


def _refuse_draws(draws: int, seed: int) -> None:
    for name, value, least in (("draws", draws, 1), ("seed", seed, 0)):
        whole = isinstance(value, int | np.integer) and not isinstance(value, bool)
        if not whole or value < least:
            raise PosbenchError(f"{name} must be a whole number of at least {least}, got {value!r}")


def _refuse_unknown_rows(runs: pd.DataFrame, a: str, b: str) -> None:
    """PosbenchError names the rows that are not there, with what was meant by each."""
    known = sorted(set(map(str, runs["row"])))
    for name, row in (("a", a), ("b", b)):
        if not isinstance(row, str):
            raise PosbenchError(f"{name} must be the name of one row, got {row!r}")
    lacking = [row for row in dict.fromkeys((a, b)) if row not in known]
    if lacking:
        near = [meant for row in lacking if (meant := closest(row, known))]
        hint = known_names(known, "sorted(set(table['method']))", " and ".join(near) or None)
        what = agreeing(len(lacking), "is no row", "are no rows")
        named = " and ".join(map(repr, lacking))
        raise PosbenchError(f"there {what} {named} in the table: {hint}")
    if a == b:
        raise PosbenchError(f"{a!r} is compared with itself: name another row as b")


def standing(
    runs: pd.DataFrame, draws: int = DRAWS, seed: int = 0
) -> tuple[pd.DataFrame, Draws | None]:
    """The part of `summarise` that stands within a class, and the draws behind it: over tasks, or
    where tasks are too few, over seeds alone.

    There are none where no row has all tasks, or where there is nothing to draw for any.
    """
    drawn = None
    by_row, by_task = runs.groupby("row", sort=True), runs.groupby(["row", "task"], sort=True)
    groups = aggregates.group_means(runs)
    table = pd.DataFrame({"overall": groups.mean(axis=1, skipna=False)})
    table["num_seeds"] = by_task.size().groupby("row").min()
    table["num_tasks"] = by_row["task"].nunique()
    shown = [name for name in ("in_distribution", "learned") if name in runs]
    if len(shown) == 2:  # what was not tested at 1x has neither learned its task nor failed to
        told = runs["learned"].astype(float).where(runs["in_distribution"].notna())
        by_task = runs.assign(learned=told).groupby(["row", "task"], sort=True)
    for name in shown:
        table[name] = by_task[name].mean().groupby("row").mean()
    if "learned" in runs:
        learned = runs[runs["learned"].astype(bool)]
        whole = not learned.empty and set(learned["task"]) == set(runs["task"])
        table["overall_learned"] = aggregates.overall(learned) if whole else np.nan
    if table["overall"].notna().any():
        sample = bootstrap.Sample.of(runs, draws, seed)
        given, over = sample.given_tasks(), sample.over_tasks()
        table["rank"] = given.ranks()
        repeated = table["num_seeds"] >= aggregates.FEWEST
        several = pd.Series(aggregates.has_tasks_to_draw(runs), table.index)
        table["p_best"] = over.p_best().where(several)
        # Ranks among rows of which some stand still in every draw would say more than is known.
        alone = len(given.rows) == 1
        _add(table, given, "seeds", repeated, ranked=bool(repeated.all()) and not alone)
        _add(table, over, "tasks", several, ranked=not alone)
        drawn = over if several.any() else given if repeated.all() else None
        bounds = given.intervals()
        for group in groups:
            table[group] = groups[group]
            for side in ("low", "high"):
                table[f"{group}_{side}"] = bounds[(group, side)].where(repeated)
    else:
        sides = [f"{group}_{side}" for group in groups for side in ("low", "high")]
        table = table.join(groups).assign(**dict.fromkeys([*DRAWN, *sides], np.nan))
    ordered = table.sort_values("overall", ascending=False, kind="stable", na_position="last")
    return ordered, drawn


def _add(table: pd.DataFrame, drawn: Draws, name: str, known: pd.Series, *, ranked: bool) -> None:
    bounds, ranks = drawn.intervals(groups=())["overall"], drawn.rank_intervals()
    for side in ("low", "high"):
        table[f"{name}_{side}"] = bounds[side].where(known)
        table[f"{name}_rank_{side}"] = ranks[side].where(known & ranked)


def _compared(runs: pd.DataFrame, drawn: Draws, a: str, b: str, known: bool) -> dict[str, Any]:
    means = aggregates.overall(runs)
    (low, high), order = drawn.difference(a, b), drawn.order(a, b, EQUIVALENT)
    of_draws = {
        "low": low,
        "high": high,
        "p_above": order.above,
        "p_equivalent": order.equivalent,
        "p_below": order.below,
    }
    return {
        "a": means[a],
        "b": means[b],
        "difference": means[a] - means[b],
        **(of_draws if known else dict.fromkeys(of_draws, np.nan)),
        "p_improvement": distributions.p_improvement(runs, a, b),
    }


def _tested(
    runs: pd.DataFrame, a: str, b: str, weights: Mapping[str, float] | None = None
) -> dict[str, Any]:
    """The test that fits how the two rows were trained, of the mean difference in which tasks have
    these weights.
    """
    one, other = (
        runs[runs["row"] == row].set_index(["task", "seed"]).sort_index() for row in (a, b)
    )
    if "training" in runs and one["training"].equals(other["training"]):
        differences = one["area"] - other["area"]
        if weights is not None:
            seeds = differences.groupby("task").transform("size")
            differences *= [weights[task] for task, _ in differences.index] / seeds
        return {
            "p_value": randomisation.sign_flip(list(differences)),
            "p_least": randomisation.least_sign_flip(len(differences)),
            "test": "sign flip",
        }
    tasks = sorted(runs["task"].unique())
    strata = [[part["area"].loc[task].tolist() for part in (one, other)] for task in tasks]
    weighted = None if weights is None else [weights[task] for task in tasks]
    sizes = [(len(mine), len(other)) for mine, other in strata]
    return {
        "p_value": randomisation.exchange(strata, weighted),
        "p_least": randomisation.least_exchange(sizes),
        "test": "permutation",
    }
