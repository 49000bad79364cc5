"""What tasks tell apart, and whether protocols agree."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from boards import boards, seeds
from making import changed, plain, record
from scipy import stats

from posbench.boards import comparisons
from posbench.boards import sections as sectioning
from posbench.boards.measured import Measured
from posbench.records import tables
from posbench.records.record import Record
from posbench.statistics import correlation


def discriminated(*found: Record) -> comparisons.Discrimination | None:
    [tasks] = comparisons.discriminations(Measured.of(tables.table(found)))
    return tasks[0] if tasks else None


def test_what_a_task_tells_apart_is_measured_between_encodings_alone() -> None:
    made = [
        *seeds("rope", [{1: 1.0, 2: 1.0, 4: 0.4}, {1: 1.0, 2: 0.8, 4: 0.2}]),
        *seeds("nope", [{1: 1.0, 2: 0.1, 4: 0.3}, {1: 0.9, 2: 0.9, 4: 0.9}]),
    ]
    spent = zip(made, (10.0, 20.0, 30.0, 40.0), (200, 300, 100, None), strict=True)
    rows = [
        plain(changed(row, {"training.cpu_seconds": seconds, "solved_step": step}))
        for row, seconds, step in spent
    ]
    extended = record("rope_yarn", {1: 1.0, 2: 0.5, 4: 0.5})  # an extension is no encoding
    ceiling = record("ceiling", {1: 1.0, 2: 0.9, 4: 0.7})
    ceiling = changed(ceiling, {"method_class": "ceiling"})
    task = discriminated(*rows, extended, ceiling)
    assert task is not None
    assert (task.num_solved, task.num_trainings, task.solved_step, task.cpu_seconds) == (
        3,
        4,
        200,
        25,
    )
    assert task.spread == {2: pytest.approx(0.4), 4: pytest.approx(0.0)}
    assert task.ceiling == {2: 0.9, 4: 0.7}


def test_tasks_are_compared_where_there_are_several_and_methods_to_tell_apart() -> None:
    assert discriminated(plain(record("rope"))) is None
    found = [
        plain(record(method, task=task))
        for method in ("rope", "nope")
        for task in ("copy", "passkey")
    ]
    measured = Measured.of(tables.table(found))
    shown = sectioning.sections(measured.boards, None, comparisons.discriminations(measured))
    [compared] = [
        section for section in shown if section.title == "What tasks tell apart, protocol cpu"
    ]
    assert [row.name for row in compared.table.rows] == ["copy", "passkey"]
    assert compared.table.headings[:4] == ["task", "solved", "by encodings", "CPU s"]
    cells = [
        dict(zip(compared.table.headings[1:], row.cells, strict=True))
        for row in compared.table.rows
    ]
    assert [each["by encodings"] for each in cells] == ["2", "2"]
    changed_task = "copy (task.num_symbols=8)"
    own = [plain(record(method, task=changed_task)) for method in ("rope", "nope")]
    assert discriminated(*own) is None, "an experiment of somebody's own is not compared"


def test_a_spread_needs_two_encodings_that_have_solved_the_task() -> None:
    """The standard deviation of one number is 0, and says nothing."""
    known = [plain(record("rope", {1: 1.0, 2: 0.4})), plain(record("nope", {1: 0.1, 2: 0.0}))]
    alone = discriminated(*known)
    assert alone is not None and alone.num_encodings == 1 and np.isnan(alone.spread[2])
    both = discriminated(*known, plain(record("t5", {1: 1.0, 2: 0.6})))
    assert both is not None and both.spread[2] == pytest.approx(0.1)


def test_protocols_agree_as_far_as_the_order_of_their_methods_does() -> None:
    scores = {"a": 0.9, "b": 0.6, "c": 0.3, "d": 0.1}
    other = {"a": 0.5, "b": 0.7, "c": 0.2, "d": 0.1}
    found = [record(method, {1: 1.0, 2: value}) for method, value in scores.items()]
    found += [
        record(method, {1: 1.0, 2: value}, protocol="until_solved")
        for method, value in other.items()
    ]
    tuned = changed(record("e", {1: 1.0, 2: 0.0}), {"method_class": "tuned"})
    [each] = comparisons.agreements(boards(*found, tuned))
    expected = stats.spearmanr(list(scores.values()), list(other.values())).statistic
    assert (each.num_methods, each.first) == (4, ("a", "b")) and each.correlation == pytest.approx(
        expected
    )
    assert comparisons.agreements(boards(*found[:4])) == []
    half = record(
        "f", {1: 1.0}, protocol="until_solved"
    )  # without a mean it is neither ranked nor the best
    [same] = comparisons.agreements(boards(*found, tuned, record("f", {1: 1.0}), half))
    assert same == each
    assert np.isnan(correlation.rank_correlation(pd.Series([1, 1, 1]), pd.Series([1, 2, 3])))
    table = sectioning.agreement_section([each]).table
    assert table.rows[0].cells == [
        "cpu / until_solved",
        "4",
        "1",
        "4/4",
        ".80",
        "\N{EN DASH}",
        "a / b",
    ]


def test_protocols_are_compared_over_the_seeds_of_both_and_with_what_seeds_differ_by() -> None:
    cpu = {"a": (0.9, 0.1), "b": (0.6, 0.6), "c": (0.3, 0.9)}
    other = {"a": 0.8, "b": 0.5, "c": 0.2}
    found = [
        run
        for method, each in cpu.items()
        for run in seeds(method, [{1: 1.0, 2: value} for value in each])
    ]
    found += [
        record(method, {1: 1.0, 2: value}, protocol="until_solved")
        for method, value in other.items()
    ]
    found[-1] = changed(found[-1], {"training.settings_hash": "another"})
    [each] = comparisons.agreements(boards(*found))
    assert (each.num_seeds, each.num_shared) == (1, 2)
    assert each.correlation == 1, "over both seeds of cpu the methods would tie or turn round"
    assert each.between_seeds == -1 and each.first == ("a", "a")


def test_a_training_that_did_not_learn_makes_no_spread() -> None:
    scores = {"a": 0.9, "b": 0.7, "c": 0.0}
    unsolved = {"rows.0.proficiency": 0.9}
    rows = [plain(record(name, {1: 1.0, 2: s, 4: s})) for name, s in scores.items()]
    rows[2] = changed(rows[2], unsolved)
    task = discriminated(*rows)
    assert task is not None and task.spread[2] == pytest.approx(0.1)
    assert (task.num_solved, task.num_trainings) == (2, 3)
    task = discriminated(*(changed(row, unsolved) for row in rows))
    assert task is not None and np.isnan(task.spread[2])
