"""A training under `training.until` begins its decay when its task is learned, ends when that is
over, and goes on from any of its steps.
"""

from __future__ import annotations

import json
import random
import signal
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import lightning as L
import pytest
import torch
from processes import checkpoint_folder, started, succeeded
from small_runs import kept, trained

from posbench.base.errors import ConfigError
from posbench.config.compose import compose
from posbench.core.settings import TrainingConfig, Until
from posbench.core.training import Curve, Training, fit
from posbench.core.until_learned import UntilLearned, decay_begun, ended, last_step, latest
from posbench.records import files
from posbench.records.record import Record
from posbench.running import checkpoints as keeping
from posbench.running.make import make
from posbench.running.replicas.trainings import CannotReplicate, Replicas
from posbench.running.run_spec import RunSpec
from posbench.running.shared_training import SharedTraining
from posbench.running.subject import setup

USUAL = TrainingConfig(
    min_length=1, max_length=9, steps=12_000, warmup_steps=100, validate_every=50, until=Until()
)


def curve(*scores: float, every: int = 50) -> list[dict[str, float]]:
    return [{"step": every * (place + 1), "score": score} for place, score in enumerate(scores)]


# -- the rule --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("scores", "begun"),
    [
        ([0.99, 0.99], 100),
        ([0.99], None),
        ([0.99, 0.9899, 0.99], None),
        ([0.5, 0.99, 0.9, 0.99, 1.0, 0.1], 250),
        ([0.5, 1.0, 1.0, 0.1, 1.0, 1.0], 150),
        ([], None),
    ],
)
def test_the_decay_begins_at_the_second_validation_in_a_row(
    scores: list[float], begun: int | None
) -> None:
    assert decay_begun(USUAL, curve(*scores)) == begun
    thrice = replace(USUAL, until=Until(validations=3))
    assert decay_begun(thrice, curve(*scores)) is None


def test_a_decay_takes_three_tenths_of_the_steps_before_it_and_three_hundred_at_least() -> None:
    assert [last_step(USUAL, step) for step in (50, 1000, 1050, 4000, 9200)] == [
        350,
        1300,
        1365,
        5200,
        11_960,
    ]


def test_a_task_that_is_not_learned_decays_within_the_steps_that_are_allowed() -> None:
    assert latest(USUAL) == 9200
    assert last_step(USUAL, 9250) > 12_000 >= last_step(USUAL, 9200)
    assert decay_begun(USUAL, curve(*[0.0] * 183)) is None
    assert decay_begun(USUAL, curve(*[0.0] * 184)) == 9200
    assert decay_begun(USUAL, curve(*[0.0] * 200)) == 9200
    # One in a row is there by then, and no more is asked for.
    assert decay_begun(USUAL, curve(*[0.0] * 183, 1.0, 1.0)) == 9200
    # A decay that ends with the last step is within it.
    assert latest(replace(USUAL, steps=11_960)) == 9200
    assert latest(replace(USUAL, steps=11_959)) == 9150
    assert latest(replace(USUAL, steps=5_980, steps_scale=2.0)) == 9200


def test_a_training_has_ended_after_its_last_step() -> None:
    points = curve(*[1.0] * 7)
    assert not ended(USUAL, points)
    assert not ended(USUAL, curve(*[1.0] * 7, 1.0)[:-1])
    assert ended(USUAL, curve(*[1.0] * 8))
    assert not ended(USUAL, [])


def test_the_protocol_says_what_the_rule_is() -> None:
    settings = setup("protocol=learned", "task=kth_from_end").config.training
    assert settings.until == Until(score=0.99, validations=2, least_decay=300)
    assert (settings.steps, settings.decay_fraction, settings.validate_every) == (12_000, 0.3, 50)
    assert settings.validation_samples == 512
    assert latest(settings) == 9200
    usual = setup("protocol=cpu", "task=kth_from_end").config.training
    named = ("steps", "validation_samples", "until")
    assert replace(settings, **{name: getattr(usual, name) for name in named}) == usual


# -- a training ------------------------------------------------------------------------------------

SMALL = ("training.batch_size=4", "model.width=16", "model.num_heads=1", "model.dropout=0.1")
WORDS = (
    "protocol=learned",
    "task=copy",
    "training.steps=60",
    "training.validate_every=6",
    "training.validation_samples=16",
    "training.warmup_steps=3",
    "training.until.score=0.0",
    "training.until.least_decay=7",
)
TESTED = ("evaluation.num_samples=8", "evaluation.ladder=[]")
BEGUN, END = 12, 19
"""Every score is at the gate, so the second validation begins the decay."""


class Rates(L.Callback):
    """The rate that each step was made with."""

    def __init__(self) -> None:
        self.found: list[float] = []

    def on_train_batch_start(self, trainer: L.Trainer, *_: Any) -> None:
        self.found.append(trainer.optimizers[0].param_groups[0]["lr"])


def begin(*words: str) -> Training:
    [shared] = SharedTraining.of(setup("method=rope", *SMALL, *words))
    return shared.begin()


def train(folder: Path, training: Training, *callbacks: L.Callback) -> Curve:
    return fit(training, folder / "last.ckpt", "cpu", 4, [], list(callbacks), lambda point: None)


@pytest.mark.slow
def test_the_rate_is_constant_and_then_that_of_a_training_with_as_many_steps(
    tmp_path: Path,
) -> None:
    rates, usual = Rates(), Rates()
    training = begin(*WORDS)
    assert type(training) is UntilLearned
    points = train(tmp_path / "until", training, rates).points
    assert [point["step"] for point in points] == [6, 12, 18, END]
    rate = 3e-3
    warm = [rate * share for share in (0.25, 0.5, 0.75)]
    decay = [rate * left / 7 for left in range(7, 0, -1)]
    assert rates.found == pytest.approx([*warm, *[rate] * (BEGUN - 3), *decay])
    steps = (f"training.steps={END}", f"training.decay_fraction={7 / END}")
    known = begin("protocol=cpu", "task=copy", *WORDS[3:6], *steps)
    assert type(known) is Training
    again = train(tmp_path / "known", known, usual)
    assert usual.found == pytest.approx(rates.found)
    assert [point["step"] for point in again.points] == [6, 12, 18, END]


@pytest.mark.slow
def test_a_task_that_is_not_learned_is_trained_to_the_cap(tmp_path: Path) -> None:
    words = [word.replace("score=0.0", "score=1.0") for word in WORDS]
    words[2] = "training.steps=30"
    points = train(tmp_path, begin(*words)).points
    assert [point["step"] for point in points] == [6, 12, 18, 24, 18 + 7]


class Killed(Exception):
    pass


class Axe(L.Callback):
    """Ends a training as a killed process ends: after a step, with nothing more written."""

    def __init__(self, step: int) -> None:
        self.step = step

    def on_train_batch_start(self, trainer: L.Trainer, *_: Any) -> None:
        if trainer.global_step == self.step:
            raise Killed


@pytest.fixture(scope="module")
def reference() -> dict[str, Any]:
    return {}


# Checkpoints are written every four steps: that of step 12 in the very step of the switch.
@pytest.mark.slow
@pytest.mark.parametrize("steps", [[5], [11], [12], [13], [15], [16], [18], [7, 12, 13, 14, 17]])
def test_a_training_goes_on_through_the_switch_as_if_it_had_not_been_killed(
    tmp_path: Path, reference: dict[str, Any], steps: list[int]
) -> None:
    if not reference:
        training = begin(*WORDS)
        reference["points"] = train(tmp_path / "undisturbed", training).points
        reference["weights"] = training.model.state_dict()
    for step in steps:
        with pytest.raises(Killed):
            train(tmp_path, begin(*WORDS), Axe(step))
    training = begin(*WORDS)
    assert train(tmp_path, training).points == reference["points"]
    for name, value in training.model.state_dict().items():
        assert torch.equal(value, reference["weights"][name]), name


@pytest.mark.slow
def test_a_training_killed_after_its_last_step_is_kept_without_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = setup("method=rope", *SMALL, *WORDS)
    run.config.results_dir = str(tmp_path)
    [shared] = SharedTraining.of(run)
    folder = kept(run).folder(shared.hash)
    folder.mkdir(parents=True)
    training = shared.begin()
    every = (folder / "last.ckpt", "cpu", 1, [], [], lambda point: None)
    points = fit(training, *every).points
    assert kept(run).step(shared.hash, shared.settings) is None
    monkeypatch.setattr(keeping, "fit", lambda *_: pytest.fail("it was trained again"))
    found = trained(run)
    assert list(found.log.points()) == points
    for name, value in training.model.state_dict().items():
        assert torch.equal(found.model.state_dict()[name], value), name


# -- killed by kill -9, wherever it is -------------------------------------------------------------

LONG = (
    "protocol=learned",
    "task=passkey",
    "method=rope",
    *SMALL,
    "training.steps=600",
    "training.validate_every=10",
    "training.validation_samples=16",
    "training.warmup_steps=10",
    "trainer.checkpoint_every=7",
    "training.until.score=0.0",
    "training.until.validations=10",
    "training.until.least_decay=120",
    *TESTED,
)
SWITCH, LAST = 100, 220


def content(folder: Path) -> dict[str, Any]:
    """The record, less what alone may differ between two runs."""
    [path] = folder.glob("results/local/records/**/seed=0.json")
    found: dict[str, Any] = json.loads(path.read_text())
    for part in ("training", "evaluated"):
        found[part] = {key: v for key, v in found[part].items() if not key.endswith("_seconds")}
    return found


def step_of(folder: Path) -> int:
    """The step of the last checkpoint; 0 if there is none, or it is being replaced."""
    try:
        path = checkpoint_folder(folder) / "last.ckpt"
        return int(torch.load(path, weights_only=True)["global_step"])
    except (OSError, ValueError):
        return 0


@pytest.mark.slow
@pytest.mark.fault("kill -9 of a training before, at and after the beginning of its decay", times=5)
def test_kill_minus_nine_through_the_switch_changes_no_bit(tmp_path: Path) -> None:
    reference, killed = tmp_path / "reference", tmp_path / "killed"
    succeeded(reference, *LONG)
    drawn = random.Random(0)
    moments = [drawn.randrange(low, low + 7) for low in (40, 86, 99, 107, 170)]
    hit = []
    for moment in moments:
        command = started(killed, *LONG)
        begun = lambda command=command: "record: " in command.out  # noqa: E731
        command.until(begun).until(lambda moment=moment: step_of(killed) >= moment)  # type: ignore[misc]
        time.sleep(drawn.uniform(0, 0.02))
        command.signalled(signal.SIGKILL)
        assert command.status == -signal.SIGKILL and command.err == ""
        hit.append(step_of(killed))
    assert min(hit) < SWITCH < max(hit) < LAST
    succeeded(killed, *LONG)
    found, expected = content(killed), content(reference)
    assert found == expected
    assert found["training"]["steps"] == LAST
    assert found["training"]["curve"]["step"][-1] == LAST
    weights, wanted = (
        torch.load(checkpoint_folder(folder) / "weights.pt", weights_only=True)
        for folder in (killed, reference)
    )
    assert weights.keys() == wanted.keys()
    assert all(torch.equal(weights[name], wanted[name]) for name in weights)


# -- what goes on from it, and what it is part of --------------------------------------------------


def made(folder: Path, *words: str) -> Record:
    """The record of a whole run in this process."""
    spec = RunSpec.of(compose(*WORDS, *SMALL, *TESTED, *words, f"results_dir={folder}"))
    make(spec)
    found = files.read(spec.path)
    assert spec.record() == found, "the run is complete"
    assert found.source_hashes_today[0] == found.training.source_hash
    return found


@pytest.mark.slow
def test_fine_tuning_goes_on_for_a_share_of_the_steps_that_were_made(tmp_path: Path) -> None:
    found = made(tmp_path, "method=rope_pi_fine_tuned", "extension.steps=1")
    assert found.training.steps == END
    assert found.finetuning is not None and found.finetuning.steps == END
    assert found.finetuning.curve.step[-1] == END
    settings = setup(*WORDS).config.training
    assert settings.after(END).until is None and settings.after(END).total_steps == END
    assert "until" not in settings.after(END).content and "until" in settings.content
    usual = setup("protocol=cpu", "task=copy").config.training
    assert usual.after(END) == usual


@pytest.mark.slow
def test_ceilings_are_trained_at_each_length_by_the_same_rule(tmp_path: Path) -> None:
    words = ("extension.multiples=[2]", "evaluation.multiples=[1,2]")
    found = made(tmp_path, "method=rope_ceiling", *words)
    assert found.ceiling is not None
    assert [each.steps for each in found.ceiling] == [END, END]


def test_trainings_with_ends_of_their_own_are_not_made_in_step() -> None:
    with pytest.raises(CannotReplicate, match="ends each training at a step of its own"):
        Replicas([begin(*WORDS), begin(*WORDS, "seed=1")])


def test_the_rule_belongs_to_the_protocol() -> None:
    for words, sentence in (
        (("protocol=cpu", "+training.until={score: 0.9}"), "no part of protocol=cpu"),
        (("protocol=learned", "training.until=null"), "a part of protocol=learned"),
    ):
        with pytest.raises(ConfigError, match=sentence):
            RunSpec.of(compose("task=copy", "method=rope", *words))


def test_a_training_without_it_is_hashed_as_if_there_were_no_such_setting(tmp_path: Path) -> None:
    usual = setup("protocol=cpu", "task=copy")
    assert "until" not in usual.config.training.content
    [shared] = SharedTraining.of(usual)
    assert "until" not in shared.dependencies["training"]
    null = setup("protocol=cpu", "task=copy", "+training.until=null")
    [same] = SharedTraining.of(null)
    assert (shared.hash, usual.source_hash) == (same.hash, null.source_hash)
    until = "+training.until={score: 0.99, validations: 2, least_decay: 300}"
    [other] = SharedTraining.of(setup("protocol=cpu", "task=copy", until))
    assert other.settings_hash != shared.settings_hash
    assert other.setup.source_hash != usual.source_hash


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("training.stop_at=0.9",), "training.stop_at=0.9 ends a training that training.until"),
        (("training.steps=349",), "raise it to 350 or more, or lower training.until.least_decay"),
        (("training.until.score=2",), "training.until.score must be less than or equal to 1"),
        (("training.until.validations=0",), "training.until.validations must be greater than"),
        (("+training.until.cap=9",), "until.cap"),
        (("training.until=0.99",), "training.until=0.99 replaces a whole section"),
    ],
)
def test_what_cannot_be_is_refused(words: tuple[str, ...], sentence: str) -> None:
    with pytest.raises(ConfigError) as refused:
        setup("protocol=learned", "task=copy", *words)
    assert sentence in str(refused.value)
    assert "\n" not in str(refused.value)
    setup("protocol=learned", "task=copy", "training.steps=350")
