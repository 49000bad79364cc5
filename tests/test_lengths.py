"""Lengths in multiples of positions: which n they are, what encodings are told of them, and which a
ceiling is trained for.
"""

from __future__ import annotations

import copy

import pytest
from small_runs import made

from posbench.base.errors import ConfigError
from posbench.config.folders import own_names
from posbench.core.evaluation import Lengths, nearest, true_multiple
from posbench.core.settings import EvaluationConfig
from posbench.core.task import Task
from posbench.running.setup import Setup
from posbench.running.shared_training import SharedTraining
from posbench.running.subject import setup

TASKS = own_names("task")
MULTIPLES = (0.5, 1, 1.25, 1.5, 2, 2.5, 3, 4, 6, 8, 16)


def positions(task: Task, longest: int) -> dict[int, int]:
    """The positions of every n that the task has, up to that many."""
    found = {}
    for n in range(1, longest):
        try:
            found[n] = task.total_length(n) - 1
        except ConfigError:
            continue
    return found


# -- the nearest -----------------------------------------------------------------------------------


@pytest.mark.parametrize("name", TASKS)
def test_no_length_of_a_task_is_nearer_to_a_multiple_of_the_positions_of_training(
    name: str,
) -> None:
    run = setup("protocol=cpu", f"task={name}")
    task, trained = run.task, run.train_length
    there = positions(task, 20 * task.num_positions(trained))
    for multiple in MULTIPLES:
        wanted = multiple * there[trained]
        if multiple > 8 and max(there.values()) < wanted:
            with pytest.raises(ConfigError):
                nearest(task, trained, multiple)
            continue
        n = nearest(task, trained, multiple)
        assert abs(there[n] - wanted) == min(abs(each - wanted) for each in there.values())
        assert true_multiple(task, trained, n) == there[n] / there[trained]
    assert nearest(task, trained, 1) == trained


@pytest.mark.parametrize("name", TASKS)
def test_the_sequences_of_a_test_are_as_long_as_its_row_says(name: str) -> None:
    run = setup("protocol=cpu", f"task={name}", "evaluation.num_samples=2")
    for n, multiple in run.lengths.multiples.items():
        longest = max(batch.tokens.shape[1] for batch in run.evaluation.batches(n)) - 1
        assert longest == run.task.longest(n, run.train_length)
        if name != "repeat_token":  # whose longest sequences go an eighth beyond
            assert longest / run.train_positions == true_multiple(run.task, run.train_length, n)
            assert longest / run.train_positions == pytest.approx(multiple, abs=0.1)


def test_of_two_multiples_with_one_length_the_nearer_one_names_it() -> None:
    task = setup("task=copy").task
    settings = EvaluationConfig(multiples=[1, 1.2, 1.5, 2])
    # n = 1, 2 and 3 have 4, 6 and 8 positions: 4.8 are nearest to 4, and 6 are those of n = 2.
    assert Lengths.of(task, settings, 1).multiples == {1: 1, 2: 1.5, 3: 2}
    settings = EvaluationConfig(multiples=[1, 1.45, 1.6])
    assert Lengths.of(task, settings, 1).multiples == {1: 1, 2: 1.45}


def test_a_length_that_is_met_exactly_needs_no_longer_one() -> None:
    """Copy without a repeat of as many symbols as its longest test has."""
    words = ("protocol=cpu", "task=copy_unique", "evaluation.multiples=[1,2]")
    # n = 159 has 320 positions, eight times the 40 of n = 19.
    assert setup(*words, "task.num_symbols=159").test_positions == 320
    with pytest.raises(ConfigError, match=r"task\.num_symbols=158"):
        setup(*words, "task.num_symbols=158")


# -- what encodings are told -----------------------------------------------------------------------


@pytest.mark.parametrize("task", TASKS)
def test_encodings_are_told_of_the_same_test_whatever_is_measured(task: str) -> None:
    first = setup("protocol=cpu", f"task={task}", "encoding=learned")

    def with_tests(**settings: object) -> Setup:
        """Composed once: that costs more than all else here."""
        cfg = copy.deepcopy(first.composed)
        cfg.evaluation.update(settings)
        return Setup(cfg, first.task)

    runs = [
        first,
        with_tests(multiples=[1.0]),
        with_tests(multiples=[0.5, 1.0, 2.0, 8.0]),
        with_tests(ladder=[]),
        with_tests(ladder=[16.0, 32.0, 64.0, 128.0]),
        with_tests(num_samples=7, ladder_samples=3),
    ]
    there = positions(runs[0].task, 20 * runs[0].train_positions)
    wanted = 8 * runs[0].train_positions
    told = min(there.values(), key=lambda each: (abs(each - wanted), each))
    if task == "repeat_token":  # up to an eighth more, of 2 n + 2 positions
        told = 2 * round(1.12 * ((told - 2) // 2)) + 2
    assert {run.test_positions for run in runs} == {told}
    assert {run.nodes["encoding"]["num_rows"] for run in runs} == {told}
    assert with_tests(multiples=[1.0], longest=4.0).test_positions < told


def test_trainings_are_shared_whatever_is_measured() -> None:
    words = ("protocol=cpu", "task=copy", "encoding=learned")
    runs = [
        setup(*words, *more)
        for more in (
            (),
            ("evaluation.multiples=[1,3]",),
            ("evaluation.ladder=[]",),
            ("evaluation.ladder=[10,20]", "evaluation.ladder_samples=5"),
            ("evaluation.decoding=greedy",),
        )
    ]
    hashes = {SharedTraining(run, run.config.training).hash for run in runs}
    longer = setup(*words, "evaluation.longest=9")  # of which the table has more rows
    assert len(hashes) == 1 and SharedTraining(longer, longer.config.training).hash not in hashes


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"multiples": [1, 4], "longest": 2}, r"longest=2 is what .*: raise it to 4"),
        ({"multiples": [2]}, r"multiples=\[2\.0\] must contain 1"),
        ({"multiples": [1, 0]}, r"multiples.1\n.* greater than 0"),
        ({"ladder": [8]}, r"ladder=\[8\.0\] must rise, and begin above evaluation.longest=8"),
        ({"ladder": [32, 16]}, r"ladder=\[32\.0, 16\.0\] must rise"),
        ({"ladder": [16, 16]}, r"ladder=\[16\.0, 16\.0\] must rise"),
        ({"ladder_samples": 0}, r"ladder_samples\n"),
    ],
)
def test_lengths_that_contradict_each_other_are_refused(
    settings: dict[str, object], said: str
) -> None:
    with pytest.raises(ValueError, match=said):
        EvaluationConfig(**settings)  # type: ignore[arg-type]


# -- ceilings --------------------------------------------------------------------------------------


@pytest.mark.parametrize("task", ["copy", "repeat_token", "passkey"])
def test_a_ceiling_is_tested_on_the_sequences_of_the_other_rows(task: str) -> None:
    run = setup("protocol=cpu", f"task={task}", "method=rope_ceiling", "evaluation.num_samples=8")
    for n, multiple in run.lengths.multiples.items():
        there = run.at(n)
        assert there.lengths.multiples == {n: multiple}
        assert there.train_length == max(run.task.tested(n, run.train_length))
        assert there.test_positions == run.test_positions
        ours, theirs = run.evaluation.batches(n), there.evaluation.batches(n)
        assert [each.tokens.tolist() for each in ours] == [each.tokens.tolist() for each in theirs]


def test_a_ceiling_asks_a_task_for_nothing_beyond_its_own_test() -> None:
    """Copy without a repeat has symbols for eight times the positions of training, not for 64."""
    run = setup("protocol=cpu", "task=copy_unique", "method=rope_ceiling")
    assert run.at(159).lengths.multiples == {159: 8.0}


@pytest.mark.slow
def test_a_ceiling_is_trained_for_the_multiples_it_names(tmp_path) -> None:
    words = ("method=rope_ceiling", "task=repeat_token", "extension.multiples=[2]")
    run, _, found = made(tmp_path, *words, "training.max_length=12", "training.min_length=2")
    rows = found.evaluate().rows
    # n = 6 has 14 positions, and n = 13 twice as many: counts from 11 to 15, all with 16 symbols.
    assert [(row.multiple, row.test_length, row.aggregated) for row in rows] == [
        (1.0, 6, True),
        (2.0, 13, True),
    ]
    assert [row.true_multiple for row in rows] == [1.0, 2.0], (
        "of the training, not of the ceiling's"
    )
    assert [row.num_samples for row in rows] == [16, 5 * 16]
    assert [each.test_length for each in found.ceiling or ()] == [6, 13]
    assert [there.config.training.lengths[1] for there, _ in found.models] == [6, 15]
    assert run.lengths.trained == 6
