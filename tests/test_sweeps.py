"""Sweeps: what words ask for, the plan, what is seen of it, and what a dying worker costs."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import io
import itertools
import json
import math
import os
import re
import shutil
import signal
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from making import changed, record, searched
from processes import finished, started
from small_runs import without_seconds

from posbench.base.disk import Lock
from posbench.base.errors import PosbenchError, Unwritable
from posbench.base.wording import duration
from posbench.config import provenance
from posbench.config.compose import compose, composing
from posbench.core.training import Checkpoint
from posbench.records import files, published
from posbench.records.record import Record
from posbench.running.console import Console
from posbench.running.run import Run, train_and_record
from posbench.running.run_spec import RunSpec
from posbench.running.setup import Setup
from posbench.sweeping import journal, status
from posbench.sweeping.cost import Costs, relative_work
from posbench.sweeping.journal import Event, Writer
from posbench.sweeping.plan import plan
from posbench.sweeping.requests import Request, request
from posbench.sweeping.sweep import Failed, Sweep, Watch
from posbench.sweeping.working import claim_on, is_claimed, quoted, work

BOARD = """
protocol: smoke
tasks: [copy, passkey]
parts:
  "trained, as it is": {methods: [rope, nope, abacus], seeds: [10, 11]}
  stretched: {encodings: [rope], extensions: [pi, ntk], seeds: [10]}
"""
QUICK = ("protocol=smoke", "training.steps=2", "training.validate_every=2", "evaluation.ladder=[]")


@pytest.fixture
def mine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder with a board of one's own, and Hydra upon it; no runs of results/local beside it."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine/board").mkdir(parents=True)
    (tmp_path / "mine/board/small.yaml").write_text(BOARD)
    with composing(tmp_path / "mine"):
        yield tmp_path / "mine"


def requested(*words: str, folders: Sequence[Path] = ()) -> Request:
    return request(words, folders)


# -- what words ask for ----------------------------------------------------------------------------


def test_words_ask_for_each_combination_of_their_values(mine: Path) -> None:
    found = requested("method=rope,alibi", "task=copy", "seed=range(2)", "training.steps=7").runs
    assert found == [
        (f"method={method}", "task=copy", f"seed={seed}", "training.steps=7")
        for method in ("rope", "alibi")
        for seed in (0, 1)
    ]
    rows = requested("method=glob(alibi*)").runs
    assert ("method=alibi",) in rows and ("method=alibi_learned",) in rows
    assert requested().runs == [()], "no words ask for the usual run"


def test_a_board_asks_for_seeds_outermost_and_rows_of_one_training_in_turn(mine: Path) -> None:
    found = requested("board=small", folders=[mine])
    assert len(found.runs) == 2 * 3 * 2 + 2 * 2
    assert [word for words in found.runs for word in words if "seed=" in word] == [
        *["seed=10"] * 10,
        *["seed=11"] * 6,
    ]
    first = [(words[1], *words[2:-2]) for words in found.runs[:5]]
    assert first == [
        ("task=copy", "encoding=rope", "extension=ntk"),
        ("task=copy", "encoding=rope", "extension=pi"),
        ("task=copy", "method=abacus"),
        ("task=copy", "method=nope"),
        ("task=copy", "method=rope"),
    ]
    assert found.board and all(f"definition={found.board.hash}" in words for words in found.runs)


@pytest.mark.parametrize(
    ("words", "count"),
    [
        (("seed=11",), 6),
        (("seed=range(11,13)", "task=copy"), 3),
        (("method=rope",), 4),
        (("method=rope_pi",), 2),
        (("part=stretched",), 4),
        (("part='trained, as it is',stretched", "seed=10"), 10),
        (("encoding=rope",), 8),
        (("extension=pi,ntk", "task=passkey"), 2),
        (("training.steps=5,6", "seed=11"), 12),
    ],
)
def test_the_command_line_chooses_among_what_a_board_has(
    words: tuple[str, ...], count: int, mine: Path
) -> None:
    assert len(requested("board=small", *words, folders=[mine]).runs) == count


OF_PAPERS = """\
parts:
  copying:
    experiments: [kazemnejad2023_copy_cpu, kazemnejad2023_sort_cpu]
    encodings: [rope, nope]
    seeds: [3, 4]
"""


@pytest.mark.parametrize(
    ("words", "count"),
    [((), 8), (("experiment=kazemnejad2023_sort_cpu",), 4), (("encoding=nope", "seed=4"), 2)],
)
def test_a_board_of_experiments_asks_for_each_with_its_own_protocol_and_task(
    words: tuple[str, ...], count: int, mine: Path
) -> None:
    (mine / "board/papers.yaml").write_text(OF_PAPERS)
    runs = requested("board=papers", *words, folders=[mine]).runs
    assert len(runs) == count and all(run[0].startswith("experiment=") for run in runs)
    seeds = [word for run in runs for word in run if word.startswith("seed=")]
    assert seeds == sorted(seeds), "seeds outermost"


def test_another_protocol_cannot_stand_in_for_those_of_experiments(mine: Path) -> None:
    (mine / "board/papers.yaml").write_text(OF_PAPERS)
    with pytest.raises(PosbenchError, match="protocol=smoke: board papers runs experiments, each"):
        requested("board=papers", "protocol=smoke", folders=[mine])
    with pytest.raises(
        PosbenchError, match="board papers names no task: leave it out, and choose with part=, exp"
    ):
        requested("board=papers", "task=copy", folders=[mine])


def test_another_protocol_stands_in_for_that_of_a_board(mine: Path) -> None:
    runs = requested("board=small", "protocol=cpu", folders=[mine]).runs
    assert {words[0] for words in runs} == {"protocol=cpu"}


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (
            ("board=small", "seed=7"),
            "seed=7 is not on board small: choose one of 10, 11",
        ),
        (("board=small", "task=sort"), "task=sort is not on board small: choose one of copy"),
        (("board=small", "part=pulled"), "not on board small: choose one of trained, as it is"),
        (("board=small", "method=rope", "part=stretched"), "no run with all of them"),
        (("board=main", "task=sorting"), "repeat_token, "),
        (("board=small,main",), "board=small,main names several boards"),
        (("board=nothing",), "board=nothing is unknown"),
        (("board=small", "protocol=cpu,gpu"), "a board is run under one protocol"),
        (("method=rope", "part=encodings"), "part=encodings chooses among the parts of a board"),
        (("method=rope", "results_dir=a,b"), "results_dir=a,b: a sweep has one folder"),
        (("method=rope", "++results_dir=a,b"), "results_dir=a,b: a sweep has one folder"),
        (("method=rope", "seed=range(3,3)"), "seed lists no value, so there is nothing to run"),
        (("board=main", "seed=range(0)"), "seed lists no value, so there is nothing to run"),
        (
            ("board=main", "method=rope,ropee"),
            "method=ropee is not on board main: did you",
        ),
        (("board=main", "seed=10,99"), "seed=99 is not on board main"),
        (("seed=range(99999999999)",), "seed=range(99999999999) lists more than 1,000,000 values"),
        (("seed=range(2000)", "training.steps=range(2000)"), "these words list 4,000,000 runs"),
    ],
)
def test_what_asks_for_nothing_is_refused(words: tuple[str, ...], said: str, mine: Path) -> None:
    with pytest.raises(PosbenchError, match=re.escape(said)):
        requested(*words, folders=[mine])


def test_a_board_without_m_is_one_sentence(tmp_path: Path) -> None:
    answer = finished(tmp_path, "board=main")
    assert answer.status == 1
    assert answer.err == "posbench: board=main is a sweep: write posbench sweep board=main\n"


# -- plans -----------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_plan_tells_what_can_be_made_from_what_cannot(mine: Path, tmp_path: Path) -> None:
    words = ("board=small", f"results_dir={tmp_path}")
    found = plan(requested(*words, folders=[mine]))
    assert len(found.runs) == 14 and not found.complete and not found.wrong
    assert found.refused == {"it asks the task for 'within' position ids": {"abacus": ["passkey"]}}
    assert found.not_applicable == 2, "with two seeds"
    jobs = [[run.words[2:-3] for run in job.runs] for job in found.jobs]
    rope = [("encoding=rope", "extension=ntk"), ("encoding=rope", "extension=pi"), ("method=rope",)]
    assert jobs[0] == rope, "one job has a training, and all that is measured on it"
    assert len(jobs) == 2 * 2 * 2 + 2


@pytest.mark.slow
def test_what_is_complete_is_not_run_and_its_training_may_be_shared_out(
    mine: Path, tmp_path: Path
) -> None:
    words = ("method=rope", "task=copy", *QUICK, f"results_dir={tmp_path}")
    work([words], "before")
    stretched = "method=rope,rope_pi,rope_ntk"
    found = plan(requested(stretched, *words[1:]))
    assert [run.words[0] for run in found.complete] == ["method=rope"]
    assert [run.words[0] for run in found.runs] == ["method=rope_pi", "method=rope_ntk"]
    assert len(plan(requested(stretched, *words[1:], "force=true")).runs) == 3
    assert len(found.trained) == 1 and found.cost(tmp_path).training == 0
    shutil.rmtree(tmp_path / "checkpoints")
    without = plan(requested(stretched, *words[1:]))
    assert not without.trained and without.cost(tmp_path).training > 0, "it must be made again"


def test_trainings_that_differ_in_their_seed_alone_share_a_job_where_that_is_asked_for(
    mine: Path,
) -> None:
    words = ("protocol=smoke", "method=rope,rope_pi,alibi", "task=copy", "seed=range(3)")
    jobs = plan(requested(*words)).jobs
    assert [len(job.runs) for job in jobs] == [2, 2, 2, 1, 1, 1]
    jobs = plan(requested(*words, "trainer.replicas=2")).jobs
    shared = [[(run.spec.identity.method.name, run.spec.seed) for run in job.runs] for job in jobs]
    assert shared == [
        [("rope", 0), ("rope_pi", 0), ("rope", 1), ("rope_pi", 1)],
        [("rope", 2), ("rope_pi", 2)],
        [("alibi", 0), ("alibi", 1)],
        [("alibi", 2)],
    ]


def test_a_run_that_is_asked_for_twice_is_made_and_counted_once(mine: Path) -> None:
    one, two = ("method=rope", "seed=0"), ("encoding=rope", "extension=direct", "seed=0")
    planned = plan(Request([one, two, ("method=alibi", "seed=0"), ("method=rope", "seed=x")]))
    assert [run.words for run in planned.runs] == [one, ("method=alibi", "seed=0")]
    assert (planned.requested, planned.repeated, planned.not_applicable) == (3, 1, 0)
    heading = list(planned.heading())
    assert heading[0] == "Sweep: 3 runs on 2 trainings."
    assert "       -1  asked for more than once" in heading


def test_runs_that_cannot_be_composed_do_not_hide_the_others(mine: Path) -> None:
    found = plan(requested("method=rope", "seed=0,x"))
    assert len(found.runs) == 1 and list(found.wrong.values()) == [
        "seed must be a valid integer, got 'x'"
    ]


def test_a_section_that_is_none_is_refused_before_runs_are_named(mine: Path) -> None:
    found = plan(requested("method=rope", "training=5"))
    (said,) = found.wrong.values()
    assert not found.runs
    assert said.startswith("training=5 replaces a whole section: set one setting of it")


def test_runs_that_write_a_number_otherwise_are_one_run(mine: Path) -> None:
    words = ("protocol=smoke", "encoding.base=500,500.0,5e2", "evaluation.multiples=[1,2],[2.0,1]")
    found = plan(requested(*words))
    assert (found.requested, found.repeated, len(found.runs), len(found.jobs)) == (1, 5, 1, 1)


SMALL = {
    "model": {"width": 4, "num_layers": 1, "num_heads": 2, "head_width": 2, "mlp_ratio": 2},
    "training": {"batch_size": 2, "packing": 0, "min_length": 1, "max_length": 4},
}


def test_the_work_of_a_step_is_that_of_its_matrices() -> None:
    # Projections 4 x 4 x 4, MLP 2 x 2 x 4 x 4, scores 2 T x 4; for 2 T tokens.
    assert relative_work(SMALL, 16) == 2 * 10 * (64 + 64 + 2 * 10 * 4)
    packed = SMALL | {"training": SMALL["training"] | {"packing": 16}}
    assert relative_work(packed, 16) == 2 * 16 * (64 + 64 + 2 * 16 * 4)
    wide = SMALL | {"model": SMALL["model"] | {"width": 8, "num_layers": 3}}
    assert relative_work(wide, 16) == 3 * 2 * 10 * (4 * 8 * 4 + 2 * 2 * 64 + 2 * 10 * 4)
    assert math.isnan(relative_work({"model": {}}, 16))


@pytest.mark.slow
def test_costs_count_a_training_once_and_follow_the_records(mine: Path) -> None:
    known = [
        changed(
            record("rope", {1: 1.0, 2: 0.5}, seed, task=task),
            {f"config.{part}": settings for part, settings in SMALL.items()},
        )
        for task in ("copy", "passkey")
        for seed in (0, 1)
    ]  # 60 s for 100 steps, and 1 s of tests
    words = ("method=rope,nope,rope_pi", "task=copy,passkey", "training.steps=1000")
    runs = [(run.spec, run.training) for run in plan(requested(*words)).runs]
    # No record is of this protocol: a step costs as much more as there is more work in it.
    unit = 0.6 / relative_work(SMALL, 22)
    steps = {}
    for run, _ in runs:
        setup = Setup.of(run.composed.cfg())
        steps[run.identity.task.name] = unit * relative_work(setup.nodes, setup.train_positions)
    both = both_tasks = sum(1000 * seconds for seconds in steps.values())
    found = Costs.by(known).of_runs(runs)
    # Two encodings (of nope nothing is known: the mean of the task) on two tasks.
    assert found.training == pytest.approx(2 * both)
    assert found.total == pytest.approx(2 * both + 6 * 1) and found.unknown == 0
    assert f"{duration(2 * both)} of training" in str(found)
    complete = {name for spec, name in runs if "rope" in spec.key}
    assert Costs.by(known).of_runs(runs, complete).training == pytest.approx(both)
    # Of this protocol, once there is a record of it, and of no other.
    (spec, *_) = [run for run, _ in runs if "copy" in run.key]
    setup = Setup.of(spec.composed.cfg())
    same = {
        "protocol.hash": spec.identity.protocol.hash,
        "training.train_positions": setup.train_positions,
        "config.model": setup.nodes["model"],
        "config.training": setup.nodes["training"],
    }
    mine_alone = [changed(known[0], same)]
    dear = changed(mine_alone[0], {"training.cpu_seconds": 120.0})
    found = Costs.by([*known, dear]).of_runs([run for run in runs if "copy" in run[0].key])
    assert found.training == pytest.approx(2 * 1200)
    # On a task that it lacks, at what a multiplication costs under it: .9 s for a step of copy.
    both = Costs.by([*known, *mine_alone, dear])
    found = both.of_runs([run for run in runs if "passkey" in run[0].key])
    assert found.training == pytest.approx(2 * 1000 * 0.9 * steps["passkey"] / steps["copy"])
    warming = ("method=rope", "task=copy", "training.steps=${training.warmup_steps}")
    (run,) = plan(requested(*warming)).runs
    warm_up = run.spec.composed.cfg().training.warmup_steps
    assert Costs.by(known).of_runs([(run.spec, run.training)]).training == pytest.approx(
        steps["copy"] * warm_up
    )
    # Each learning rate is a training, and so is each run that is to be repeated.
    three = ("method=rope", "task=copy", "training.steps=1000", "training.learning_rate=[1,2,3]")
    tried = [(run.spec, run.training) for run in plan(requested(*three)).runs]
    of_copy = 1000 * steps["copy"]
    assert Costs.by(known).of_runs(tried).training == pytest.approx(3 * of_copy)
    rates = [{"learning_rate": 1.0, "loss": 1.0}, {"learning_rate": 2.0, "loss": None}]
    twice = {"training.learning_rates": rates, "training.cpu_seconds": 120.0}
    known_rates = [changed(each, twice) for each in known]
    assert Costs.by(known_rates).of_runs(tried).training == pytest.approx(3 * of_copy)
    repeated = plan(requested(*words, "force=true"))
    forced = [(run.spec, run.training) for run in repeated.runs]
    assert Costs.by(known).of_runs(forced).training == pytest.approx(3 * both_tasks)
    assert "6 runs on 6 trainings" in next(repeated.heading())
    nothing = Costs.by([]).of_runs(runs)
    assert nothing.unknown == 6 and str(nothing) == "No record tells what this costs."


@pytest.mark.parametrize(
    "settings",
    [
        {"config.model": {}},
        {"config.training": {"until": 0.9}},
        {"config.training": SMALL["training"] | {"max_length": 0}},
    ],
    ids=["no width", "no lengths", "a length of 0"],
)
def test_a_record_whose_settings_tell_no_cost_stops_no_plan(settings: dict[str, Any]) -> None:
    known = [changed(record(), {f"config.{part}": each for part, each in SMALL.items()})]
    strange = changed(known[0], settings | {"seed": 1})
    found = Costs.by([strange, *known]).known
    assert found["step"].iloc[-1] == 0.6 and len(found) <= 2


def test_costs_of_fine_tuning_and_searches_are_counted(mine: Path) -> None:
    words = ("method=rope,rope_pi_fine_tuned", "task=copy", "training.steps=1000")
    runs = [(run.spec, run.training) for run in plan(requested(*words)).runs]
    assert len({name for _, name in runs}) == 1  # they share a training
    known = record("rope", {1: 1.0, 2: 0.5}, 0, task="copy")
    known = changed(known, {"protocol.hash": runs[0][0].identity.protocol.hash})
    # 60 s for 100 steps; a tenth of the steps, at up to twice the length
    found = Costs.by([known]).of_runs(runs)
    assert found.training == pytest.approx(600 + 0.1 * 600 * 1.5)
    assert found.total == pytest.approx(found.training + 2 * 1)
    words = ("method=rope,rope_ceiling,rope_early_fine_tuned", *words[1:])
    runs = [(run.spec, run.training) for run in plan(requested(*words)).runs]
    # A ceiling trains at 2x, 4x and 8x; half of the training is made again before a tenth at 2x.
    of_ceiling, of_early = 1.5 + 2.5 + 4.5, 0.5 + 0.1 * 1.5
    found = Costs.by([known]).of_runs(runs)
    assert found.training == pytest.approx(600 * (1 + of_ceiling + of_early))
    # The seconds before the tests are those of a search, if there was one.
    waited = changed(known, {"evaluated.preparation_cpu_seconds": 5.0})
    assert Costs.by([waited]).known["test"].tolist() == [1.0]
    chosen = changed(waited, {"search": searched({"scale": 2.0})})
    assert Costs.by([chosen]).known["test"].tolist() == [6.0]


@pytest.mark.slow
def test_steps_until_a_task_is_learned_are_estimated_from_trainings_that_have_ended(
    mine: Path,
) -> None:
    words = ("protocol=learned", "method=rope,nope", "task=copy,passkey,reverse,induction")
    runs = [(run.spec, run.training) for run in plan(requested(*words)).runs]
    until = {"score": 0.99, "validations": 2, "least_decay": 300}
    allowed = {"steps": 1000, "steps_scale": 2, "until": until, "packing": 0, "min_length": 1}

    def ended(method: str, task: str, seed: int, steps: int, **settings: object) -> Record:
        parts = {f"config.{part}": each for part, each in SMALL.items()}
        training = SMALL["training"] | allowed | settings
        names = {"training.steps": steps, "training.settings_hash": f"{method}{task}{seed}"}
        names |= {"protocol.hash": runs[0][0].identity.protocol.hash}
        made = record(method, {1: 1.0, 2: 0.5}, seed, protocol="learned", task=task)
        return changed(made, parts | names | {"config.training": training})

    known = [
        *(ended("rope", "copy", seed, steps) for seed, steps in enumerate((400, 600, 1600))),
        ended("nope", "passkey", 0, 1800),
        changed(ended("rope", "passkey", 0, 100), {"protocol.hash": "0" * 16}),
        changed(ended("rope", "induction", 0, 400), {"protocol.hash": "0" * 16}),
        ended("rope", "passkey", 1, 100, until=None),
    ]
    costs = Costs.by(known)
    steps = {
        (spec.identity.task.name, spec.identity.method.base): costs._steps(spec)[0]
        for spec, _ in runs
    }
    # The median on the task with the encoding, or on the task, under this protocol or under any,
    # or of all, of 12,000 steps.
    assert steps == {
        ("copy", "rope"): 0.3 * 12_000,
        ("copy", "nope"): 0.3 * 12_000,
        ("passkey", "rope"): 0.9 * 12_000,
        ("passkey", "nope"): 0.9 * 12_000,
        ("reverse", "rope"): pytest.approx(0.55 * 12_000),
        ("reverse", "nope"): pytest.approx(0.55 * 12_000),
        ("induction", "rope"): 0.2 * 12_000,
        ("induction", "nope"): 0.2 * 12_000,
    }
    found = costs.of_runs(runs)
    one = {spec.key: costs.of_runs([(spec, name)]) for spec, name in runs}
    for spec, _ in runs:
        share = steps[spec.identity.task.name, spec.identity.method.base] / 12_000
        cost = one[spec.key]
        assert cost.training + cost.spared == pytest.approx(cost.training / share)
    assert found.spared == pytest.approx(sum(each.spared for each in one.values()))
    assert str(found).endswith(
        "8 trainings end when the task is learned, so that the number of steps is an estimate: "
        f"{duration(found.total + found.spared)}, if none does before its last step."
    )
    assert {Costs.by([])._steps(spec) for spec, _ in runs} == {(12_000, 12_000)}
    fixed = [(run.spec, run.training) for run in plan(requested("task=copy")).runs]
    assert "estimate" not in str(costs.of_runs(fixed))
    both = Costs.by(known[:3]).beside(Costs.by(known[3:]))
    assert {each: both._steps(spec) for spec, each in runs} == {
        each: costs._steps(spec) for spec, each in runs
    }


def test_what_no_record_tells_is_taken_from_another_machine_at_its_speed() -> None:
    def costs(seconds: float, *tasks: str) -> Costs:
        found = [record("rope", {1: 1.0, 2: 0.5}, 0, task=task) for task in tasks]
        return Costs.by(changed(each, {"training.cpu_seconds": seconds}) for each in found)

    here, there = costs(60.0, "copy"), costs(30.0, "copy", "passkey")
    told = ["task", "step", "test"]
    assert here.beside(there).known[told].to_numpy().tolist() == [
        ["copy", 0.6, 1.0],
        ["copy", 0.6, 2.0],  # half as fast
        ["passkey", 0.6, 2.0],
    ]
    alone = costs(60.0).beside(there).known
    assert alone[told].to_numpy().tolist() == [["copy", 0.3, 1.0], ["passkey", 0.3, 1.0]]


@pytest.mark.slow
def test_a_plan_for_a_gpu_says_that_its_cost_is_that_of_cpus(mine: Path) -> None:
    known = record("rope", {1: 1.0, 2: 0.5}, 0, task="copy")
    known = changed(known, {f"config.{part}": settings for part, settings in SMALL.items()})

    def said(*words: str, device: str = "cpu") -> str:
        runs = plan(requested("method=rope", "task=copy", *words)).runs
        hashes = {run.spec.identity.protocol.hash for run in runs}
        own = [
            changed(known, {"protocol.hash": each, "training.device": device}) for each in hashes
        ]
        return str(Costs.by([known, *own]).of_runs([(run.spec, run.training) for run in runs]))

    remark = "runs are meant for a GPU, and no record tells how long one takes."
    assert said("protocol=gpu").endswith(f" of tests. The {remark}")
    assert said("protocol=cpu,gpu").endswith(f" of tests. 1 of the {remark}")
    assert said("trainer.accelerator=cuda").endswith(f" The {remark}")
    assert remark not in said("protocol=cpu")
    assert remark not in said("protocol=gpu", device="a GPU")
    # The process beside a GPU waits for it, which makes a CPU no faster.
    [run] = plan(requested("method=rope", "task=copy", "protocol=cpu")).runs
    own = changed(known, {"protocol.hash": run.spec.identity.protocol.hash})
    quick = {"training.cpu_seconds": 0.6, "evaluated.evaluation_cpu_seconds": 0.01}
    beside = changed(own, quick | {"training.device": "a GPU"})
    alone, both = (
        Costs.by(found).of_runs([(run.spec, run.training)]) for found in ([own], [own, beside])
    )
    assert alone == both and alone.total > 1


def test_a_task_without_a_record_costs_what_its_multiplications_do(mine: Path) -> None:
    words = ("method=rope", "task=copy,passkey")
    runs = [(run.spec, run.training) for run in plan(requested(*words)).runs]
    of_copy = record("rope", {1: 1.0, 2: 0.5}, 0, task="copy")
    parts = {f"config.{part}": settings for part, settings in SMALL.items()}
    known = changed(of_copy, {**parts, "protocol.hash": runs[0][0].identity.protocol.hash})
    unit = 0.6 / relative_work(SMALL, known.training.train_positions)
    (passkey,) = [run for run in runs if run[0].identity.task.name == "passkey"]
    setup = Setup.of(passkey[0].composed.cfg())
    step = unit * relative_work(setup.nodes, setup.train_positions)
    found = Costs.by([known]).of_runs([passkey])
    assert found.training == pytest.approx(step * setup.config.training.total_steps)
    assert not found.unknown


@pytest.mark.slow
def test_a_plan_says_what_is_published_and_costs_the_same_once_that_is_unpacked(
    mine: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = ("task=copy,passkey", "method=rope,nope", *QUICK, f"results_dir={tmp_path}/own")
    before = plan(requested(*words))
    done = before.runs[0].spec
    made = changed(
        record("rope", {1: 1.0, 2: 0.5}, done.seed),
        {
            "protocol": done.identity.protocol.model_dump(),
            "task": done.identity.task.model_dump(),
            "method": done.identity.method.model_dump(),
            "task_version": done.fingerprint.task_version,
            "training.source_hash": done.fingerprint.training,
            "evaluated.source_hash": done.fingerprint.evaluation,
            "training.versions": provenance.versions(),
            "evaluated.versions": provenance.versions(),
            **{f"config.{part}": settings for part, settings in SMALL.items()},
        },
    )
    folder = tmp_path / "main"
    published.publish([made], [], folder)
    monkeypatch.setattr("posbench.sweeping.plan.shipped", lambda: folder)
    hint = (
        f"1 of the others is published: `posbench records unpack {folder} --to "
        f"{tmp_path}/own` takes them over"
    )
    before = plan(requested(*words))
    assert [line.strip() for line in before.heading() if "published" in line] == [hint]
    forced = plan(requested(*words, "force=true"))
    assert not any("published" in line for line in forced.heading()), "it would be made anew"
    whole = before.cost(tmp_path / "own")
    published.unpublish([made], [], tmp_path / "own")
    after = plan(requested(*words))
    assert len(after.complete) == 1
    assert not any("published" in line for line in after.heading())
    rest = after.cost(tmp_path / "own")
    assert rest.total == pytest.approx(whole.total - whole.runs[0])
    assert rest.said.startswith("about ") and str(rest).startswith("About ")


def test_that_many_runs_are_planned_is_said_at_once(mine: Path) -> None:
    assert not list(requested("seed=range(199)").lines())
    assert list(requested("seed=range(2000)").lines()) == [
        "Planning 2,000 runs, which takes about 10 s."
    ]
    board = requested("board=small", "seed=10", folders=[mine])
    many = Request(board.runs * 100, board.board)
    assert next(many.lines()).startswith(f"Planning {len(many.runs):,} runs of board small, ")


def test_runs_that_differ_in_their_seed_are_named_as_if_each_were_named_alone(mine: Path) -> None:
    words = ("method=rope", "task=copy", "encoding.base=500")
    for run in plan(requested(*words, "seed=3,12")).runs:
        alone = RunSpec.of(compose(*run.words))
        assert run.spec == alone and run.spec.command == alone.command


# -- the journal -----------------------------------------------------------------------------------


def event(run: str, kind: journal.Kind = "done", sweep: str = "now", seconds: float = 1) -> Event:
    return Event(kind, sweep, run, run, time.time(), seconds, f"python {run}", "because")


def test_a_worker_is_alive_for_as_long_as_it_holds_its_lock(tmp_path: Path) -> None:
    writer = Writer(tmp_path)
    writer.write(event("a", "begun"))
    (worker,) = journal.workers(tmp_path)
    assert worker.alive and worker.unfinished == worker.events[0]
    writer.lock.release()
    assert not worker.alive
    writer.write(event("a", "done"))
    (worker,) = journal.workers(tmp_path)
    assert worker.unfinished is None


def test_a_journal_that_one_may_only_read_tells_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As in the results folder of somebody else, whose sweep one looks at."""
    working, dead = Writer(tmp_path), Writer(tmp_path)
    for writer in (working, dead):
        writer.write(event("a", "begun"))
    dead.lock.release()
    opened = os.open

    def read_only(path: str, flags: int, *rest: int, **named: int) -> int:
        if flags & (os.O_WRONLY | os.O_RDWR):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), path)
        return opened(path, flags, *rest, **named)

    monkeypatch.setattr(os, "open", read_only)
    alive = {worker.path: worker.alive for worker in journal.workers(tmp_path)}
    assert alive == {working.path: True, dead.path: False}


def test_asking_for_a_worker_whose_lock_is_gone_makes_none(tmp_path: Path) -> None:
    writer = Writer(tmp_path)
    writer.write(event("a", "begun"))
    path = writer.path.with_suffix(".lock")
    path.unlink()
    (worker,) = journal.workers(tmp_path)
    assert not worker.alive and not path.exists()


@pytest.mark.fault("a line of the journal that a worker died in")
def test_a_line_that_a_worker_died_in_spoils_no_other(tmp_path: Path) -> None:
    writer = Writer(tmp_path)
    writer.write(event("a"))
    with open(writer.path, "a") as file:
        file.write('{"kind": "do')
    assert [each.run for each in journal.workers(tmp_path)[0].events] == ["a"]


def test_files_of_dead_workers_go_once_their_runs_have_records(tmp_path: Path) -> None:
    for name in ("made", "lost"):
        writer = Writer(tmp_path)
        writer.write(event(name))
        writer.lock.release()
    (tmp_path / "made").touch()
    journal.tidy(tmp_path)
    assert [worker.events[0].run for worker in journal.workers(tmp_path)] == ["lost"]


def test_a_file_that_another_sweep_tidies_away_meanwhile_is_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    Writer(tmp_path).write(event("kept"))
    gone = Writer(tmp_path)
    gone.write(event("gone"))
    read = journal.read_bytes

    def tidied(path: Path) -> bytes:
        gone.path.unlink(missing_ok=True)  # between the list of files and the reading of this one
        return read(path)

    monkeypatch.setattr(journal, "read_bytes", tidied)
    found = [worker.events[0].run for worker in journal.workers(tmp_path)]
    assert found == ["kept"]


def test_each_end_of_a_run_is_a_line_with_time_left_and_failures(tmp_path: Path) -> None:
    said: list[str] = []
    watch = Watch(tmp_path, "now", {"a": 1.0, "b": 1.0, "c": 2.0}, said.append)
    watch.started -= 100
    writer = Writer(tmp_path)
    for each in (event("y", "begun", sweep="another"), event("a", "begun"), event("b", "begun")):
        writer.write(each)
        watch.look()
    assert said == ["Begun: a. Each run has a line when it ends."]
    said.clear()
    for each in (event("a", seconds=3), event("b", "failed"), event("z", sweep="another")):
        writer.write(each)
        watch.look()
    assert said[0] == "[1 of 3, 5 min left] a (3 s)"
    assert said[1] == "[2 of 3, 1 failed, 100 s left] b: because"
    assert len(said) == 2
    writer.write(event("c", "found"))
    watch.look()
    assert said[2] == "[3 of 3, 1 failed] c: was complete"


def test_no_end_is_foretold_before_enough_is_done_to_tell_how_fast_it_goes(tmp_path: Path) -> None:
    said: list[str] = []
    watch = Watch(tmp_path, "now", {"a": 1.0, "b": 1.0, "c": 98.0}, said.append)
    watch.started -= 100
    writer = Writer(tmp_path)
    for run in ("a", "b"):
        writer.write(event(run, seconds=1))
        watch.look()
    assert said == ["[1 of 3] a (1 s)", "[2 of 3, 82 min left] b (1 s)"]


def test_after_a_long_silence_a_sweep_says_what_it_is_at(tmp_path: Path) -> None:
    runs = [f"records/{name}.json" for name in "abcde"]
    said: list[str] = []
    watch = Watch(tmp_path, "now", dict.fromkeys(runs, 1.0), said.append)
    writers = [Writer(tmp_path) for _ in runs]
    for writer, run in zip(writers[1:], runs[1:], strict=True):
        writer.write(replace(event(run, "begun"), title=run, at=time.time() - 400))
    writers[0].write(event(runs[0]))
    watch.look()
    del said[:]
    log = tmp_path / "logs/b/said.txt"
    log.parent.mkdir(parents=True)
    log.write_text("posbench: b\n  step 9/9  loss 0\nposbench: b\n  step 2/9  loss 1.5\nMore.\n")
    watch.look()
    assert not said
    watch.spoke -= 301
    watch.look()
    watch.look()
    assert said == [
        "At work for 7 min: records/b.json (step 2/9 loss 1.5)",
        "At work for 7 min: records/c.json",
        "At work for 7 min: records/d.json",
        "At work as well: 1 run.",
    ]
    for writer in writers:
        writer.lock.release()  # as if all had died
    watch.spoke -= 301
    watch.look()
    assert len(said) == 4


def test_a_terminal_that_is_gone_ends_the_sweep_with_its_error_and_not_in_silence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("posbench.sweeping.sweep.PAUSE", 0.01)
    said: list[str] = []

    def gone(line: str) -> None:
        said.append(line)
        raise BrokenPipeError

    def watched(error: type[Exception] | None = None) -> None:
        with Watch(tmp_path, "now", {"a": 1.0, "b": 1.0}, gone) as watch:
            watch.thread.join(10)
            assert not watch.thread.is_alive() and isinstance(watch.failed, BrokenPipeError)
            if error:
                raise error

    Writer(tmp_path).write(event("a", seconds=3))
    with pytest.raises(BrokenPipeError):
        watched()
    with pytest.raises(ZeroDivisionError):  # what came first is not hidden by it
        watched(ZeroDivisionError)
    assert len(said) == 2


def test_times_are_said_as_people_say_them() -> None:
    said = [duration(seconds) for seconds in (8, 150, 9000, 300_000)]
    assert said == ["8 s", "2 min", "2.5 h", "3.5 days"]


# -- launchers that misbehave ----------------------------------------------------------------------


class Launcher:
    """Runs jobs in this process, but dies over some methods, as often as is said of them.

    A dead worker leaves a beginning in the journal, and a lock that nobody holds. With `width` more
    than 1 it takes the other workers with it, and what they have begun, as joblib does.
    """

    def __init__(self, width: int = 1, refusal: str = "", **deaths: int) -> None:
        self.width, self.refusal, self.deaths = width, refusal, Counter(deaths)
        self.launches: list[list[int]] = []
        self.begun: list[list[str]] = []

    def launch(self, job_overrides: Sequence[Sequence[str]], initial_job_idx: int) -> list:
        self.launches.append([initial_job_idx, len(job_overrides)])
        if self.refusal:
            raise RuntimeError(self.refusal)
        jobs = [compose(*words).content["job"] for words in job_overrides]
        self.begun.append([])
        for first in range(0, len(jobs), self.width):
            together = [RunSpec.of(compose(*job["runs"][0])) for job in jobs[first:][: self.width]]
            names = [spec.identity.method.label for spec in together]
            self.begun[-1] += names
            if deadly := [name for name in names if self.deaths[name]]:
                self.deaths[deadly[0]] -= 1
                for spec in together:
                    _die(spec, jobs[0]["sweep"])
                raise RuntimeError("a worker has died")
            for job in jobs[first:][: self.width]:
                work(job["runs"], job["sweep"])
        return []


def _die(spec: RunSpec, sweep: str) -> None:
    results_dir = Path(spec.composed.content["results_dir"])
    writer = Writer(results_dir)
    writer.write(event(str(spec.path.relative_to(results_dir)), "begun", sweep))
    writer.lock.release()


def swept(
    folder: Path, launcher: Launcher, *words: str, said: list[str] | None = None
) -> list[str]:
    """The sweep's own lines; the runs are small."""
    said = [] if said is None else said
    runs = requested("protocol=smoke", *words, f"results_dir={folder}")
    sweep = Sweep(runs, str(folder), launcher, said.append)  # type: ignore[arg-type]
    try:
        sweep.make(plan_only=False)
    except Failed as error:
        said.append(str(error))
    return said


@pytest.mark.slow
def test_a_folder_that_cannot_be_made_is_one_sentence_before_anything_is_launched(
    mine: Path, tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("")
    launcher = Launcher()
    for folder in ("file", "file/runs"):
        said = r"file is a file, and a folder is needed: name another$"
        with pytest.raises(Unwritable, match=said):
            swept(tmp_path / folder, launcher, "task=copy", "method=rope")
    assert not launcher.begun


def test_sweeps_of_the_same_second_are_told_apart(mine: Path, tmp_path: Path) -> None:
    # The second would take the failures of the first for its own.
    runs = requested("protocol=smoke", "task=copy", "method=rope")
    sweeps = [Sweep(runs, str(tmp_path), Launcher(), print) for _ in range(3)]  # type: ignore[arg-type]
    assert len({sweep.name for sweep in sweeps}) == 3


@pytest.mark.slow
@pytest.mark.fault("a worker that dies")
def test_what_a_dead_worker_has_left_is_launched_again(mine: Path, tmp_path: Path) -> None:
    launcher = Launcher(rope=1)
    said = swept(tmp_path, launcher, "task=copy", "method=rope,alibi")
    assert launcher.begun == [["rope"], ["alibi"], ["rope"]]
    assert launcher.launches == [[0, 2], [2, 1], [3, 1]], "jobs are numbered through"
    assert len(files.records(tmp_path)) == 2
    assert "2 runs are left, 1 of them of workers that have died; launching again." in said
    assert any(line.startswith("2 done in") and "0 failed" in line for line in said)


@pytest.mark.slow
@pytest.mark.fault("a run that kills each worker", times=2)
def test_a_run_that_two_workers_died_over_has_failed(mine: Path, tmp_path: Path) -> None:
    said = swept(tmp_path, Launcher(rope=2), "task=copy", "method=rope,alibi")
    assert [each.method.slug for each in files.records(tmp_path)] == ["alibi"]
    assert any("rope on copy" in line and "its worker died 2 times" in line for line in said)
    assert said[-1] == "1 of 2 runs failed"
    again = swept(tmp_path, Launcher(), "task=copy", "method=rope,alibi")
    assert any(line.startswith("1 done in") and "1 were complete" in line for line in again)


@pytest.mark.slow
@pytest.mark.fault("a worker whose death takes its neighbours along", times=4)
def test_a_run_is_not_blamed_for_a_death_that_took_its_worker_along(
    mine: Path, tmp_path: Path
) -> None:
    launcher = Launcher(width=4, t5=99)
    said = swept(tmp_path, launcher, "task=copy", "method=rope,alibi,t5,nope,fire")
    assert launcher.begun == [
        ["rope", "alibi", "t5", "nope"],  # all of which die with t5
        ["fire"],
        ["rope", "alibi", "t5", "nope"],
        ["rope", "alibi"],
        ["t5", "nope"],
        ["t5"],
        ["nope"],
    ]
    assert len(files.records(tmp_path)) == 4 and said[-1] == "1 of 5 runs failed"
    assert any("t5 on copy" in line and "its worker died 4 times" in line for line in said)


WAITS = "Others are making 1 of these runs; waiting for them."


def swept_beside(
    it: RunSpec,
    held: contextlib.AbstractContextManager[object],
    make: Callable[[RunSpec], None] = lambda _: None,
) -> list[str]:
    """The lines of a sweep of rope and alibi, while another process holds what `it`, one of the
    two, needs, until the sweep waits for it, and then makes it.
    """
    begun, said = threading.Event(), list[str]()

    def other() -> None:
        deadline = time.monotonic() + 120
        with held:
            begun.set()
            while WAITS not in said and time.monotonic() < deadline:
                time.sleep(0.1)
            make(it)

    thread = threading.Thread(target=other)
    thread.start()
    begun.wait()
    swept(it.results_dir, Launcher(), "task=copy", "method=rope,alibi", said=said)
    thread.join()
    return said


def rope_on_copy(folder: Path) -> RunSpec:
    return RunSpec.of(
        compose("protocol=smoke", "task=copy", "method=rope", f"results_dir={folder}")
    )


@pytest.mark.slow
@pytest.mark.fault("another sweep that makes one of the runs")
def test_a_run_that_another_sweep_makes_is_waited_for(mine: Path, tmp_path: Path) -> None:
    it = rope_on_copy(tmp_path)
    said = swept_beside(
        it, claim_on(it), lambda spec: train_and_record(spec, Console(io.StringIO()))
    )
    assert WAITS in said
    assert any("rope on copy" in line and line.endswith(": was complete") for line in said)
    assert len(list(tmp_path.glob("records/**/*.json"))) == 2, "nothing was made twice"


@contextlib.contextmanager
def training(spec: RunSpec) -> Iterator[None]:
    """Within the block another process makes the training of a run, as far as locks tell."""
    (reference,) = spec.training_hashes
    folder = spec.results_dir / "checkpoints" / reference
    folder.mkdir(parents=True)
    with Lock(folder / "lock"):
        yield


def test_a_run_whose_training_another_process_makes_is_left_until_later(
    mine: Path, tmp_path: Path
) -> None:
    words = [*QUICK, "task=copy", "method=rope_pi", f"results_dir={tmp_path}"]
    it = RunSpec.of(compose(*words))
    assert not is_claimed(it)
    with training(it):
        assert is_claimed(it)
        work([words], "now")
        (worker,) = journal.workers(tmp_path)
        assert [each.kind for each in worker.events] == ["busy"]
        (tmp_path / "checkpoints" / it.training_hashes[0] / "training.json").touch()
        assert not is_claimed(it), "whoever loads the weights holds the lock as well"


@pytest.mark.slow
@pytest.mark.fault("another process that makes a training")
def test_a_sweep_makes_other_runs_while_another_process_makes_a_training(
    mine: Path, tmp_path: Path
) -> None:
    it = rope_on_copy(tmp_path)
    said = swept_beside(it, training(it))
    ends = [line for line in said if line.startswith("[")]
    assert "alibi on copy" in ends[0] and "rope on copy" in ends[1] and len(ends) == 2
    assert said.index(ends[0]) < said.index(WAITS) < said.index(ends[1])
    assert "1 run is left; launching again." in said


@pytest.mark.fault("a launcher that begins nothing")
def test_a_launcher_that_begins_nothing_is_quoted(mine: Path, tmp_path: Path) -> None:
    said = swept(tmp_path, Launcher(refusal="no queue of that name"), "task=copy", "method=rope,t5")
    found = [line for line in said if "no queue of that name" in line]
    assert found == ["no worker has begun any of 2 runs: RuntimeError: no queue of that name"]


@pytest.mark.slow
def test_trainings_are_made_in_step_and_recorded_run_by_run(mine: Path, tmp_path: Path) -> None:
    words = ("task=copy", "method=rope,rope_pi", "seed=range(3)", *QUICK[1:])
    said = swept(tmp_path, Launcher(), *words, "trainer.replicas=2")
    assert any(line.startswith("6 done in") and "0 failed" in line for line in said)
    swept(tmp_path / "alone", Launcher(), *words)
    alone = {(each.method.slug, each.seed): each for each in files.records(tmp_path / "alone")}
    found = {(each.method.slug, each.seed): each for each in files.records(tmp_path)}
    assert {key: each.training.replicas for key, each in found.items()} == {
        (method, seed): 2 if seed < 2 else 1 for method in ("rope", "rope_pi") for seed in range(3)
    }
    for key, made in found.items():
        expected = alone[key].training
        assert alone[key].training.replicas == 1
        assert made.training.hash == expected.hash
        assert made.training.curve.loss == pytest.approx(expected.curve.loss, abs=1e-5)
    [log, *_] = sorted((tmp_path / "logs").rglob("said.txt"))
    assert "Training 2 in step, seeds 0, 1." in log.read_text()
    again = swept(tmp_path, Launcher(), *words, "trainer.replicas=3")
    assert any("6 were complete" in line for line in again)


@pytest.mark.slow
def test_what_cannot_be_made_in_step_is_made_one_by_one_and_says_why(
    mine: Path, tmp_path: Path
) -> None:
    words = ("task=copy", "method=xpos", "seed=0,1", "trainer.replicas=2", *QUICK[1:])
    said = swept(tmp_path, Launcher(), *words)
    assert any(line.startswith("2 done in") for line in said)
    assert [each.training.replicas for each in files.records(tmp_path)] == [1, 1]
    [log] = [path for path in (tmp_path / "logs").rglob("said.txt") if "seed=0" in str(path)]
    assert "One by one: vmap" in log.read_text()


@pytest.mark.slow
@pytest.mark.fault("a loss that is no number, in trainings made in step", times=2)
def test_what_diverges_in_step_is_recorded_as_a_run_that_diverged(
    mine: Path, tmp_path: Path
) -> None:
    words = ("task=copy", "method=rope", "seed=0,1", "training.learning_rate=1e30", *QUICK[1:])
    said = swept(tmp_path, Launcher(), *words, "trainer.replicas=2")
    assert any("2 failed" in line for line in said)
    assert all(each.diverged for each in files.records(tmp_path))


@pytest.mark.slow
@pytest.mark.fault("a run that raises an error")
def test_a_failure_stops_no_other_run_and_is_told_with_its_command(
    mine: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from posbench.running import run

    def made(spec: SimpleNamespace, console: object, **given: object) -> None:
        if spec.identity.method.label == "rope_pi":
            raise ZeroDivisionError("by nothing")
        original(spec, console, **given)

    original = run.train_and_record
    monkeypatch.setattr(run, "train_and_record", made)
    said = swept(tmp_path, Launcher(), "task=copy", "method=rope,rope_pi,rope_ntk")
    assert len(files.records(tmp_path)) == 2
    told = "\n".join(said)
    failed = r"rope_pi on copy, smoke, seed 0: ZeroDivisionError in \S+, line \d+: by nothing"
    assert re.search(rf"{failed} \(more in", told), told
    assert "\n    python -m posbench protocol=smoke task=copy method=rope_pi seed=0" in told
    log = tmp_path / "logs/smoke/copy/rope_pi/seed=0/said.txt"
    assert "Traceback" in log.read_text()
    words = ("protocol=smoke", "task=copy", "method=rope,rope_pi,rope_ntk,nope")
    shown = list(status.lines(plan(requested(*words, f"results_dir={tmp_path}")), tmp_path))
    counts = [line.split() for line in shown if re.match(r" +\d", line)]
    assert counts == [
        ["2", "complete"],
        ["0", "not", "applicable"],
        ["0", "running"],
        ["1", "failed"],
        ["1", "missing"],
    ]
    [at] = (place for place, line in enumerate(shown) if re.search(failed, line))
    assert "\n             python -m posbench protocol=smoke task=copy method=rope_pi" in shown[at]


@pytest.mark.slow
def test_failures_that_differ_in_numbers_alone_are_summarised_once(
    mine: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from posbench.running import run

    def made(spec: SimpleNamespace, console: object, **given: object) -> None:
        who = "a" if spec.identity.method.label == "rope_pi" else "another"
        raise PosbenchError(f"{who} shape of {next(rows)} rows: give it more")

    rows = itertools.count()
    monkeypatch.setattr(run, "train_and_record", made)
    words = ("task=copy", "method=rope_pi,rope_ntk", "seed=0,1,2")
    told = "\n".join(swept(tmp_path, Launcher(), *words)).partition("6 failed.\n")[2]
    for name, who in (("rope_pi", "a"), ("rope_ntk", "another")):
        first = f"  {name} on copy, smoke, seed 0 (and 2 runs like it): {who} shape of "
        assert told.count(first) == 1 and told.count(f"method={name}") == 1, told


def test_the_state_of_a_sweep_that_never_ran_names_the_folder_that_is_not_there(
    mine: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "nowhere"
    words = ("protocol=smoke", "task=copy", "method=rope,nope", f"results_dir={folder}")
    first, *rest = status.lines(plan(requested(*words)), folder)
    assert first == f"There is no folder {folder} yet: results_dir= names that of another sweep."
    assert "        2  missing" in rest and not folder.exists()


@pytest.mark.parametrize(
    "word", ["plain=1", "a='b c'", "path=C:\\new\\", "quote='it\\'s'", "list=[a,[b]]", "x=${y}"]
)
def test_any_word_reaches_a_job_as_it_is(word: str, mine: Path) -> None:
    text = quoted([(word, "seed=1"), ("task=copy",)])
    assert compose(f"job.runs={text}").content["job"]["runs"] == [[word, "seed=1"], ["task=copy"]]


# -- clocks that jump, locks that are lost ---------------------------------------------------------


@pytest.mark.slow
@pytest.mark.fault("a clock that jumps by hours and years, back and forth", times=2)
def test_a_clock_that_jumps_loses_nothing_and_doubles_nothing(
    mine: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = ("task=copy", "method=rope,alibi", *QUICK[1:])
    swept(tmp_path / "undisturbed", Launcher(), *words)
    real, jumps = time.time, itertools.cycle([0, 7200, -3600, -(10**8), 10**8])

    def jumping() -> float:
        return real() + next(jumps)

    monkeypatch.setattr(time, "time", jumping)
    monkeypatch.setattr(time, "time_ns", lambda: int(1e9 * jumping()))
    said = swept(tmp_path / "jumping", Launcher(rope=1), *words)
    assert any(line.startswith("2 done in") and "0 failed" in line for line in said), said
    assert lasting(tmp_path / "jumping") == lasting(tmp_path / "undisturbed")
    planned = plan(requested("protocol=smoke", *words, f"results_dir={tmp_path / 'jumping'}"))
    shown = "\n".join(status.lines(planned, tmp_path / "jumping"))
    assert "2  complete" in shown and "0  failed" in shown and "0  missing" in shown, shown


def removed(folder: Path) -> None:
    """Somebody tidies up, or a share that was gone comes back empty of locks."""
    for path in folder.rglob("*lock"):
        path.unlink()


def let_go(folder: Path) -> None:
    """The files stay, and whose they were is forgotten: a lease that has expired."""
    for descriptor in Path("/proc/self/fd").iterdir():
        with contextlib.suppress(OSError):
            if (path := descriptor.readlink()).suffix == ".lock" or path.name == "lock":
                fcntl.flock(int(descriptor.name), fcntl.LOCK_UN)


@pytest.mark.slow
@pytest.mark.fault("a node that loses its locks while it works: another makes the same run")
@pytest.mark.parametrize(("moment", "lose"), [("in training", let_go), ("in its tests", removed)])
def test_a_node_that_loses_its_locks_spoils_no_record_and_doubles_none(
    moment: str,
    lose: Callable[[Path], None],
    mine: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    words = ("task=copy", "method=rope", *QUICK[1:])
    swept(tmp_path / "undisturbed", Launcher(), *words)
    said: list[str] = []
    where = (Checkpoint, "on_train_batch_end") if moment == "in training" else (Run, "keep")
    original = getattr(*where)

    def meanwhile(*arguments: object) -> None:
        monkeypatch.setattr(*where, original)  # once
        lose(tmp_path / "both")
        said.extend(swept(tmp_path / "both", Launcher(), *words))
        original(*arguments)

    monkeypatch.setattr(*where, meanwhile)
    first = swept(tmp_path / "both", Launcher(), *words)
    assert any("1 done in" in line for line in said), "another has made it"
    assert any("0 failed" in line for line in first), first
    assert lasting(tmp_path / "both") == lasting(tmp_path / "undisturbed")
    assert not [path for path in (tmp_path / "both").rglob("*") if path.suffix in (".tmp", ".ckpt")]


def lasting(folder: Path) -> dict[str, object]:
    """What the records of a folder say, by their paths, but for seconds."""
    return {
        str(path.relative_to(folder)): without_seconds(files.read(path))
        for path in folder.glob("records/**/*.json")
    }


# -- from the command line -------------------------------------------------------------------------


def test_a_sweep_is_planned_seen_and_summed_up(tmp_path: Path) -> None:
    words = ("protocol=smoke", "method=rope,rope_pi,abacus", "task=copy,passkey")
    planned = finished(tmp_path, "-m", *words, "plan_only=true")
    assert planned.status == 0 and not (tmp_path / "results/local/records").exists()
    assert "6 runs on 3 trainings" in planned.out and "5  to run, in 3 jobs" in planned.out
    made = finished(tmp_path, "-m", *words)
    assert (made.status, made.err) == (0, "")
    assert re.search(r"^\[5 of 5\] ", made.out, re.M)
    assert re.search(
        r"^5 done in .*, 0 were complete, 1 not applicable, 0 failed\.$", made.out, re.M
    )
    again = finished(tmp_path, "-m", *words)
    assert re.search(r"^0 done in .*, 5 were complete, 1 not app", again.out, re.M)


def test_a_sweep_finds_classes_in_a_folder_of_ones_own(tmp_path: Path) -> None:
    (tmp_path / "mine/encoding").mkdir(parents=True)
    (tmp_path / "mine/encoding/own.yaml").write_text("_target_: own.Own\n")
    (tmp_path / "mine/own.py").write_text(
        "from posbench.encodings.nope import NoPE\n\n\nclass Own(NoPE):\n    pass\n"
    )
    words = ("protocol=smoke", "encoding=own", "task=copy", "seed=0,1", "plan_only=true")
    answer = finished(tmp_path, "-m", "--config-dir", "mine", *words)
    assert answer.status == 0 and "2  to run, in 2 jobs" in answer.out, answer.out + answer.err


def test_what_a_class_of_ones_own_raises_is_told_with_its_line(tmp_path: Path) -> None:
    (tmp_path / "mine/encoding").mkdir(parents=True)
    (tmp_path / "mine/encoding/own.yaml").write_text("_target_: own.Own\n")
    (tmp_path / "mine/own.py").write_text(
        "from posbench.encodings.nope import NoPE\n\n\nclass Own(NoPE):\n"
        "    def encode(self, a):\n        return a.plus(a.gap)\n"
    )
    words = ("--config-dir", "mine", "protocol=smoke", "encoding=own", "task=copy")
    why = "AttributeError in mine/own.py, line 6: 'Attention' object has no attribute 'gap'"
    alone = finished(tmp_path, *words)
    how = "(HYDRA_FULL_ERROR=1 shows how it came there)"
    assert (alone.status, alone.err) == (1, f"posbench: {why} {how}\n")
    swept = finished(tmp_path, "-m", *words)
    assert swept.status == 1 and why in swept.out
    path = f"--config-dir {tmp_path / 'mine'}"
    assert f"python -m posbench {path} protocol=smoke task=copy encoding=own" in swept.out


BROKEN = {
    "syntax": "class Own(NoPE)\n    pass\n",
    "module": "raise ValueError\nclass Own(NoPE):\n    pass\n",
    "built": "class Own(NoPE):\n    def __init__(self):\n        raise KeyError('who')\n",
    "words": "class Own(NoPE):\n    def encode(self, a, b):\n        return a\n",
    "exits": "class Own(NoPE):\n    def encode(self, a):\n        raise SystemExit('enough')\n",
}
"""Encodings of one's own that cannot be run, each in a module of its name."""
EXTENSION = """
from posbench.core.extension import FrequencyExtension


class Short(FrequencyExtension):
    def stretch(self, frequencies, train_positions, scale):
        return (1.0,)
"""


def broken(folder: Path) -> Path:
    for group in ("encoding", "extension"):
        (folder / "mine" / group).mkdir(parents=True)
    for name, text in BROKEN.items():
        (folder / f"mine/encoding/{name}.yaml").write_text(f"_target_: bad_{name}.Own\n")
        first = "from posbench.encodings.nope import NoPE\n"
        (folder / f"mine/bad_{name}.py").write_text(first + text)
    (folder / "mine/encoding/open.yaml").write_text("_target_: bad_words.Own\nx: ${model.a\n")
    (folder / "mine/encoding/none.yaml").write_text("_target_: bad_words.Own\nx: ${model.a}\n")
    (folder / "mine/extension/short.yaml").write_text("_target_: bad_short.Short\nscale: null\n")
    (folder / "mine/bad_short.py").write_text(EXTENSION)
    return folder / "mine"


def test_no_mistake_in_ones_own_files_stops_the_plan_of_the_others(tmp_path: Path) -> None:
    folder = broken(tmp_path)
    names = ",".join(["alibi", "open", "none", *BROKEN])
    words = ("--config-dir", str(folder), "-m", "protocol=smoke", "plan_only=true")
    answer = finished(tmp_path, *words, f"encoding={names}")
    said = "posbench: 5 runs cannot be made: correct the words that are named\n"
    assert (answer.status, answer.err) == (1, said)
    assert "5  cannot be run" in answer.out and "3  to run" in answer.out
    for said in (
        f"{folder}/bad_syntax.py is not Python: expected ':' in line 2",
        "bad_module.Own cannot be imported: ValueError in mine/bad_module.py, line 2\n",
        "bad_built.Own could not be built: KeyError in mine/bad_built.py, line 4: 'who'",
        "an interpolation cannot be read, ",
        "encoding.x: Interpolation key 'model.a' not found: `python -m posbench --cfg job` lists",
    ):
        assert said in answer.out
    answer = finished(tmp_path, *words, "encoding=rope", "extension=direct,short")
    assert "1  cannot be run" in answer.out and "1  to run" in answer.out
    assert "in what calls Short (mine/bad_short.py, line 5): zip() argument 2 is s" in answer.out


@pytest.mark.slow
def test_a_run_that_ones_own_class_spoils_is_told_with_the_class_and_its_folder(
    tmp_path: Path,
) -> None:
    words = ("--config-dir", str(broken(tmp_path)), "protocol=smoke", "training.steps=10")
    swept = finished(tmp_path, "-m", *words, "encoding=words,exits,alibi", "results_dir=there")
    assert swept.status == 1 and "1 done in" in swept.out and "2 failed" in swept.out, swept.err
    assert "SystemExit in mine/bad_exits.py, line 4: enough" in swept.out
    what = "TypeError in what calls Own (mine/bad_words.py, line 2): "
    assert f"{what}Own.encode() missing 1 required positional argument: 'b'" in swept.out
    assert re.search(r"python -m posbench .*encoding=words .*results_dir=there\n", swept.out)
    alone = finished(tmp_path, *words, "encoding=words")
    assert alone.status == 1 and what in alone.err and "Traceback" not in alone.err


@pytest.mark.slow
@pytest.mark.fault("Ctrl-C of a sweep")
def test_ctrl_c_stops_a_sweep_and_the_same_command_goes_on(tmp_path: Path) -> None:
    words = ("protocol=smoke", "method=rope,alibi", "training.steps=100000")
    command = started(tmp_path, "-m", *words)
    going_on = tmp_path / "results/local/checkpoints"
    command.until(lambda: bool(list(going_on.glob("*/last.ckpt")))).signalled(signal.SIGINT)
    assert command.status == 128 + signal.SIGINT and "the same command goes on" in command.err
    (worker,) = journal.workers(tmp_path / "results/local")
    assert worker.events[-1].kind == "stopped" and not worker.alive


@pytest.mark.slow
def test_status_tells_what_is_complete_running_failed_and_missing(
    mine: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ("task=copy", "method=rope,alibi,t5,nope", *QUICK, f"results_dir={tmp_path}")
    work([("task=copy", "method=rope", *QUICK, f"results_dir={tmp_path}")], "now")
    writer = Writer(tmp_path)
    (path,) = tmp_path.glob("records/*/*/rope/seed=0.json")
    folder = path.parents[1].relative_to(tmp_path)
    for method, kind in (("t5", "failed"), ("alibi", "begun")):
        writer.write(event(f"{folder}/{method}/seed=0.json", kind))  # type: ignore[arg-type]
    assert status.main([*words, "--config-dir", str(mine)]) == 0
    out = capsys.readouterr().out
    for said in ("1  complete", "1  running", "1  failed", "1  missing"):
        assert said in out, out
    assert "because" in out and f"by {os.uname().nodename}" in out
    again = [*words[:-1], f"++{words[-1]}", "--config-dir", str(mine)]
    assert status.main(["-m", *again]) == 0 and "1  complete" in capsys.readouterr().out
    assert status.main(["method=nothing"]) == 1
    assert "method=nothing is unknown" in capsys.readouterr().err


def test_the_journal_is_lines_of_json(tmp_path: Path) -> None:
    writer = Writer(tmp_path)
    writer.write(event("a"))
    (line,) = writer.path.read_text().splitlines()
    assert json.loads(line)["run"] == "a"
