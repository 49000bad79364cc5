"""A table of runs, summarised as a board and compared row against row.

Two numbers, never mixed: what share of its trainings a row has *learned* at the training length,
and how far it *reaches* where it has. See `posbench.statistics.effects` for the second.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from posbench.base.errors import PosbenchError
from posbench.base.wording import MANY, agreeing, closest, counted, known_names
from posbench.statistics import aggregates, measures, randomisation
from posbench.statistics.aggregates import DRAWS, FEWEST, quantile, zero_shot_first
from posbench.statistics.effects import AdditiveFit

OTHER_NAMES = {"method": "row", "method_class": "class", "training_hash": "training"}
"""What some columns of runs are called in the long table."""
SIGNIFICANT = 0.05
"""Two rows differ where p is less than this. A test that cannot give so small a p says nothing."""
OF_LENGTHS = frozenset({"score", "multiple", "test_length", "chance"})
"""Columns by which a table has a line for each test length, and not for each run."""
ENOUGH = 2 / 3
"""The share of the tasks that a row must have learned to have a place among the others."""
CONTENT_OF = {"protocol": "protocol_hash", "task": "task_hash", "row": "method_hash"}
"""Columns of names, and those of the hashes of what the names mean."""
MOST_DRAWS = 1_000_000
"""Of the bootstrap: they are kept in memory."""
COMMON = "learned by both"
"""The line of a comparison that is over tasks."""


def summarise(
    frame: pd.DataFrame,
    board: Mapping[str, str] | Sequence[str] | None = None,
    draws: int = DRAWS,
    seed: int = 0,
) -> pd.DataFrame:
    """What the rows of a table of runs have learned, and how far they reach of it, by class.

    Args:
        frame: the long table of `posbench.results.load`, or one line a run with columns `row`
            (or `method`), `task`, `seed`, `area`, and, where they are known, `class`, `training`
            (hash: runs that share it share weights), `learned` (else all have), `steps_to_gate`
        board: the tasks that count, by default all
        draws: of the bootstrap
        seed: of the bootstrap; the same seed gives the same numbers

    Returns:
        One line a row with the index (class, row). First come the rows that have learned at least
        two thirds of the tasks, and those with the highest number come first. Columns: `learned`
        (share of trainings, in which every task weighs the same); `tasks` that it has learned with
        one training at least, `num_tasks` that it was run on; `steps` (the median until the gate,
        over trainings that learned) and `censored` (trainings that were never there); `reaches`
        with `low` and `high` (95 %, over tasks and seeds; NaN below three learned tasks), the area
        of learned trainings as `posbench.statistics.effects` puts it at the mean of the tasks;
        `least` and `most`, its bounds over all tasks; `placed`; `difference`, `difference_low`,
        `difference_high` to the first row on `common` tasks, `p` and `p_holm`; and for each task
        the mean area of the trainings that learned it.

    Raises:
        PosbenchError: if a column is missing, a run is there twice, or protocols are mixed
    """
    _refuse_draws(draws, seed)
    runs = of_board(frame, board)
    classes = runs["class"] if "class" in runs else pd.Series("all", runs.index)
    found = {}
    for name, part in runs.groupby(classes, sort=True):
        fitted = fit(part, draws=draws, seed=seed)
        table = standing(part, fitted)
        found[name] = table if fitted is None else table.join(fitted.cell_means())
    order = sorted(found, key=zero_shot_first)
    return pd.concat({name: found[name] for name in order}, names=["class", "row"])


def fit(
    runs: pd.DataFrame, lengths: Sequence[str] = (), draws: int = DRAWS, seed: int = 0
) -> AdditiveFit | None:
    """The model of runs of one class with a column `learned`, for areas and for columns with scores
    at some lengths; None if nothing was learned.
    """
    known = runs["learned"].astype(bool) & runs[["area", *lengths]].notna().all(axis=1)
    return AdditiveFit.of(runs, ["area", *lengths], draws, seed) if known.any() else None


def ordered(runs: pd.DataFrame, fitted: AdditiveFit | None) -> pd.DataFrame:
    """Rows of one class with what they have learned and how far they reach of it, in their order:
    the lines of `summarise` with columns `learned`, `tasks`, `reaches` and `placed`. Nothing is
    drawn for that.

    Args:
        runs: checked, with a column `learned`
        fitted: to these runs, and to those of further rows that help to say how hard tasks are
    """
    learned = runs["learned"].astype(float)
    if "in_distribution" in runs:  # what was not tested at 1x has neither learned nor failed to
        learned = learned.where(runs["in_distribution"].notna())
    cells = learned.groupby([runs["row"], runs["task"]]).mean().unstack("task")
    table = pd.DataFrame({"learned": cells.mean(axis=1), "tasks": (cells > 0).sum(axis=1)})
    table["reaches"] = np.nan if fitted is None else fitted.number()
    enough = ENOUGH * cells.shape[1] - 1e-9
    table["placed"] = (table["tasks"] >= enough) & table["reaches"].notna()
    order = table.assign(reaches=table["reaches"].round(9)).sort_values(
        ["placed", "reaches"], ascending=False, kind="stable", na_position="last"
    )
    return table.loc[order.index]


def standing(runs: pd.DataFrame, fitted: AdditiveFit | None) -> pd.DataFrame:
    """The part of `summarise` within a class; see `ordered`."""
    table = ordered(runs, fitted)
    table["num_tasks"] = runs.groupby("row")["task"].nunique()
    seeds = runs.groupby(["row", "task"]).size().groupby("row")
    table["num_seeds"], table["most_seeds"] = seeds.min(), seeds.max()
    if "steps_to_gate" in runs:
        there, steps = runs["learned"].astype(bool), runs["steps_to_gate"]
        table["steps"] = steps.where(there).groupby(runs["row"]).median()
        table["censored"] = steps.isna().groupby(runs["row"]).sum()
        if {"multiplications", "step_multiplications"} <= {*runs}:
            used = runs["multiplications"].where(there).groupby(runs["row"]).median()
            # The median of some trainings would be compared with that of all in other rows.
            counted = runs["step_multiplications"].notna().groupby(runs["row"]).all()
            table["multiplications"] = used.where(counted)
    if fitted is None:
        nothing = ["low", "high", "least", "most", "difference", "common", "p_holm"]
        return table.assign(**dict.fromkeys(nothing, np.nan))
    table = table.join(fitted.table()[["low", "high"]])
    table = table.join(fitted.bounds(sorted({*runs["task"], *fitted.tasks}), table.index))
    if not table["placed"].any():
        return table.assign(**dict.fromkeys(["difference", "common", "p_holm"], np.nan))
    rows = [row for row in table.index if row in fitted.rows]
    bounds = {"low": "difference_low", "high": "difference_high"}
    less = fitted.differences(str(table.index[0]), rows).rename(columns=bounds)
    return table.join(less)


def within(runs: pd.DataFrame, reference: str) -> pd.DataFrame:
    """What each row had learned for the multiplications with which a reference row did.

        budget(t) = the most of any training of the reference that learned task t, until the gate

    A training had learned by then if it has in the end, and passed the gate for no more than that.
    Its rate had not decayed there, so this is the least that it would have learned.

    Args:
        runs: a line a training, with columns `row`, `task`, `learned`, `multiplications` (until
            the gate; NaN if no validation passed it) and `step_multiplications` (of a step)
        reference: one of the rows

    Returns:
        By row, best first: `learned` (share of trainings, in which every task weighs the same),
        `tasks` (that one training at least had learned) and `num_tasks` (of those that the
        reference has learned, how many it was run on). Empty where the reference has learned
        nothing, or where a record does not count its multiplications.
    """
    columns = ["learned", "tasks", "num_tasks"]
    counted = "step_multiplications" in runs and runs["step_multiplications"].notna().all()
    theirs = runs[(runs["row"] == reference) & runs["learned"].astype(bool)]
    if not counted or theirs.empty:
        return pd.DataFrame(columns=columns)
    budget = theirs.groupby("task")["multiplications"].max().dropna()
    mine = runs[runs["task"].isin(budget.index)]
    used = mine["multiplications"].where(mine["learned"].astype(bool))
    cells = (used <= mine["task"].map(budget)).groupby([mine["row"], mine["task"]]).mean()
    rows = cells.groupby("row")
    tasks = (cells > 0).groupby("row").sum()
    found = pd.DataFrame({"learned": rows.mean(), "tasks": tasks, "num_tasks": rows.size()})
    return found[columns].sort_values("learned", ascending=False, kind="stable")


def difference(
    frame: pd.DataFrame,
    a: str,
    b: str,
    board: Mapping[str, str] | Sequence[str] | None = None,
    draws: int = DRAWS,
    seed: int = 0,
) -> pd.DataFrame:
    """Row `a` minus row `b` on every task that both have learned, and over these tasks.

    Where the two were run with other seeds on a task, those count that both were run with, if there
    are any.

    Args:
        frame: see `summarise`
        a: label of a row
        b: label of another
        board: see `summarise`
        draws: of the bootstrap
        seed: of the bootstrap

    Returns:
        One line a task, and last "learned by both", over all of them: columns `a`, `b` (areas of
        the trainings that learned), `difference` (a - b), `low`, `high` (95 %: of a task over
        seeds by Student's t, from three seeds of each on; in the last line over tasks and seeds),
        and `p_value`, two-sided, of the `test`: "sign flip" where all runs of both share their
        weights, seed by seed, "permutation" elsewhere, and "t over tasks" in the last line.
        `p_least` is the least p-value that the test can give of so many runs: 1 for one seed of one
        task, which can tell nothing. A warning says so where no test can reach .05. `p_holm` is
        adjusted over the tasks.

    Raises:
        PosbenchError: if a row is unknown, the two have learned no task in common, or as
            `summarise`
    """
    _refuse_draws(draws, seed)
    runs = of_board(frame, board)
    _refuse_unknown_rows(runs, a, b)
    both = AdditiveFit.of(runs[runs["row"].isin([a, b])], draws=draws, seed=seed)
    over = both.with_common_seeds(b, a)
    pair = over.runs[over.runs["learned"].astype(bool) & over.runs["area"].notna()]
    tasks = [task for task, part in pair.groupby("task") if part["row"].nunique() == 2]
    if not tasks:
        raise PosbenchError(
            f"{a!r} and {b!r} have no task in common that both have learned and were tested on at "
            "enough lengths for an area: add runs of one on a task of the other"
        )
    lines = {task: _on_task(pair[pair["task"] == task], a, b) for task in tasks}
    adjusted = randomisation.holm([lines[task]["p_value"] for task in tasks])
    for task, p in zip(tasks, adjusted, strict=True):
        lines[task]["p_holm"] = p
    less, means = over.differences(b).loc[a], over.cell_means()[tasks].mean(axis=1)
    lines[COMMON] = {
        "a": means[a],
        "b": means[b],
        **less[["difference", "low", "high"]],
        "p_value": less["p"],
        "p_least": np.nan if np.isnan(less["p"]) else 0.0,
        "test": "t over tasks",
    }
    found = pd.DataFrame.from_dict(lines, orient="index").rename_axis(index="task")
    least = float(found["p_least"].min())
    if least > SIGNIFICANT:
        warnings.warn(
            f"{a} and {b} have too few runs for a test ({counted(len(tasks), 'task')} in common): "
            f"no p_value of these can be below {least:.2g}, whatever the difference; compare them "
            "on more seeds or tasks",
            stacklevel=2,
        )
    return found


def of_board(
    frame: pd.DataFrame, board: Mapping[str, str] | Sequence[str] | None = None
) -> pd.DataFrame:
    """The table of runs of `frame`, of the tasks of a board, with `learned`; see `summarise`."""
    if not isinstance(frame, pd.DataFrame):
        raise PosbenchError(
            f"a table of runs must be a data frame, such as posbench.results.load(FOLDER), got a "
            f"{type(frame).__name__}"
        )
    if board is not None and (isinstance(board, str) or not isinstance(board, Mapping | Sequence)):
        raise PosbenchError(f"board must name the tasks that count, as ['passkey'], got {board!r}")
    if "area" not in frame and not OF_LENGTHS.isdisjoint(frame):
        further = {"true_multiple": True} if "true_multiple" in frame else {}
        measures.refuse_lacking(frame, measures.NEEDED | further)
        for name, above in ("score", frame["score"] > 1), ("chance", frame["chance"] >= 1):
            if above.any():
                raise PosbenchError(
                    f"{name} is a share of 1, got {frame[name][above].iloc[0]:g} in "
                    f"{counted(int(above.sum()), 'line')}: divide a percentage by 100"
                )
        runs = measures.of_runs(frame)
        runs = runs.assign(learned=runs["trained"])
    else:
        runs = frame.copy()
    lacking = {old: new for old, new in OTHER_NAMES.items() if old in runs and new not in runs}
    runs = runs.rename(columns=lacking)
    if "protocol" in runs and runs["protocol"].nunique() > 1:
        found = sorted(map(str, runs["protocol"].unique()))
        raise PosbenchError(
            f"runs of protocols {', '.join(found)} have no mean in common: keep those of one, such "
            f"as table[table['protocol'] == '{found[0]}']"
        )
    _refuse_other_contents(runs)
    if board is not None and "task" in runs:
        _refuse_unknown_tasks(runs, board)
        if not len(board):
            raise PosbenchError("board names no task: give those that count, or leave it out")
        runs = runs[runs["task"].isin(list(board))]
    runs = aggregates.checked(runs)
    if "training" not in runs:
        runs = runs.assign(training=runs["row"])
    return runs if "learned" in runs else runs.assign(learned=True)


def _refuse_other_contents(runs: pd.DataFrame) -> None:
    """PosbenchError where one name means two things, as after a change of a default."""
    for name, content in CONTENT_OF.items():
        if not {name, content} <= {*runs}:
            continue
        several = runs.groupby(name, observed=True)[content].nunique(dropna=False) > 1
        for named in several.index[several][:1]:
            found = " and ".join(map(str, runs.loc[runs[name] == named, content].unique()))
            raise PosbenchError(
                f"{named} has runs of {content} {found}, which have no common mean: keep those of "
                "one"
            )


def _refuse_draws(draws: int, seed: int) -> None:
    if isinstance(draws, int) and draws > MOST_DRAWS:
        raise PosbenchError(f"draws must be at most {MOST_DRAWS:,}, got {draws:,}")
    for name, value, least in (("draws", draws, 1), ("seed", seed, 0)):
        whole = isinstance(value, int | np.integer) and not isinstance(value, bool)
        if not whole or value < least:
            raise PosbenchError(f"{name} must be a whole number of at least {least}, got {value!r}")


def _refuse_unknown_tasks(runs: pd.DataFrame, board: Mapping[str, str] | Sequence[str]) -> None:
    """PosbenchError names the tasks that no run has: a mean without them would be another one."""
    known = sorted(set(map(str, runs["task"])))
    lacking = [task for task in board if task not in known]
    if lacking and known:
        near = closest(str(lacking[0]), known) if len(lacking) == 1 else None
        hint = known_names(known, "sorted(set(table['task']))", near)
        what = agreeing(len(lacking), "is no task", "are no tasks")
        named = " and ".join(map(repr, lacking[:MANY]))
        raise PosbenchError(f"there {what} {named} in the table: {hint}")


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


def _on_task(runs: pd.DataFrame, a: str, b: str) -> dict[str, Any]:
    """One task: the means of both, their difference with its interval over seeds, and its test:
    the one that fits how the two rows were trained.
    """
    one, other = (runs[runs["row"] == row].set_index("seed")["area"] for row in (a, b))
    trained = [runs[runs["row"] == row].set_index("seed")["training"] for row in (a, b)]
    shared = trained[0].equals(trained[1])
    difference, count = one.mean() - other.mean(), min(len(one), len(other))
    if shared:
        pairs = list(one - other)
        error = np.std(pairs, ddof=1) / count**0.5 if count > 1 else np.nan
        p, least = randomisation.sign_flip(pairs), randomisation.least_sign_flip(len(pairs))
    else:
        error = np.sqrt(one.var() / len(one) + other.var() / len(other))
        p = randomisation.exchange([[list(one), list(other)]])
        least = randomisation.least_exchange([(len(one), len(other))])
    enough = count >= FEWEST
    half = quantile(count) * error if enough else np.nan
    return {
        "a": one.mean(),
        "b": other.mean(),
        "difference": difference,
        "low": difference - half,
        "high": difference + half,
        "p_value": p,
        "p_least": least,
        "test": "sign flip" if shared else "permutation",
    }
