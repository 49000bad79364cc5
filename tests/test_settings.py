"""No setting is accepted and ignored: each of model and protocol changes what it is for."""

from __future__ import annotations

import dataclasses
import functools
from pathlib import Path
from typing import Any

import pytest
import torch

from posbench.base.errors import ConfigError
from posbench.checks.conformance import MODEL_CHANGES
from posbench.core import evaluation
from posbench.core.settings import EvaluationConfig, ModelConfig, TrainingConfig
from posbench.core.training import Training, fit
from posbench.running import memory
from posbench.running.setup import Setup
from posbench.running.subject import setup

SMALL = (
    "protocol=smoke",
    "task=copy",
    "method=rope",
    "model.width=16",
    "model.num_heads=1",
    "model.head_width=16",
    "training.steps=12",
    "training.batch_size=4",
    "training.num_examples=0",
    "training.validate_every=4",
    "training.validation_samples=8",
    "training.warmup_steps=2",
    "evaluation.num_samples=8",
    "evaluation.multiples=[1,2]",
    "evaluation.longest=2",
    "evaluation.ladder=[]",
)
TRAINING_CHANGES: dict[str, Any] = {
    "min_length": 4,
    "max_length": 15,
    "length_scale": 2,
    "steps": 6,
    "steps_scale": 0.5,
    "batch_size": 5,
    "num_examples": 8,
    "packing": 40,
    "random_offset": 9,
    "loss_on": "all",
    "stop_at": 0.0,
    "learning_rate": 1e-2,
    "warmup_steps": 5,
    "decay": "cosine",
    "decay_fraction": 0.9,
    "weight_decay": 0.5,
    "beta1": 0.5,
    "beta2": 0.5,
    "gradient_clip": 1e-3,
    "precision": "bf16-mixed",
    "validate_every": 3,
    "validation_samples": 5,
}
EVALUATION_CHANGES: dict[str, Any] = {
    "multiples": "[1,1.5]",
    "longest": 4,
    "ladder": "[3]",
    "num_samples": 5,
    "ladder_samples": 3,
}
SHOWN_ELSEWHERE = {"decoding", "until"}
"""Greedy decoding finds what teacher forcing finds: tests/test_protocols.py measures both. What
`until` does is in tests/test_until_learned.py."""


def test_every_setting_has_a_change_here() -> None:
    for cls, changes in (
        (ModelConfig, MODEL_CHANGES),
        (TrainingConfig, TRAINING_CHANGES),
        (EvaluationConfig, EVALUATION_CHANGES),
    ):
        fields = {field.name for field in dataclasses.fields(cls)}
        assert changes.keys() == fields - SHOWN_ELSEWHERE


def trained(run: Setup, tmp_path: Path) -> tuple[list[Any], list[Any]]:
    """Weights and curve of a training, as numbers."""
    model = run.model()
    training = Training(model, run.task, run.config.training, run.config.seed)
    curve = fit(training, tmp_path / "last.ckpt", "cpu", 1000, [], [], lambda point: None)
    weights = torch.cat([parameter.flatten() for parameter in model.parameters()])
    return weights.tolist(), curve.points


@functools.cache
def as_they_are(folder: str) -> tuple[list[Any], list[Any]]:
    return trained(setup(*SMALL), Path(folder))


@pytest.mark.slow
@pytest.mark.parametrize("name", TRAINING_CHANGES)
def test_every_setting_of_training_changes_the_training(
    name: str, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    value = TRAINING_CHANGES[name]
    before = as_they_are(str(tmp_path_factory.getbasetemp() / "as_they_are"))
    assert trained(setup(*SMALL, f"training.{name}={value}"), tmp_path) != before


@pytest.mark.parametrize("name", EVALUATION_CHANGES)
def test_every_setting_of_evaluation_changes_the_record(name: str) -> None:
    """Its rows, the ladder among them, and what extensions are told of the longest test."""

    def found(*words: str) -> object:
        run = setup(*SMALL, *words)
        tests = run.evaluation
        # No rung is refused: these weights know nothing.
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(evaluation, "HALF", -1.0)
            rows, _ = tests.evaluate(run.model(), None)
        return rows, run.test_positions

    words = ("evaluation.ladder=[5]",) if name == "ladder_samples" else ()
    value = EVALUATION_CHANGES[name]
    assert found(*words, f"evaluation.{name}={value}") != found(*words)


@pytest.mark.parametrize(
    ("least", "scale", "lengths"), [(1, 0.25, (1, 5)), (0, 0.25, (0, 5)), (8, 0.5, (4, 10))]
)
def test_half_the_shortest_sequence_still_has_something_in_it(
    least: int, scale: float, lengths: tuple[int, int]
) -> None:
    settings = TrainingConfig(min_length=least, max_length=20, length_scale=scale)
    assert settings.lengths == lengths


# -- what no machine holds -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("word", "said"),
    [
        ("training.batch_size=100000000", "training.batch_size=100000000 needs at least .* a step"),
        ("training.num_examples=100000000000", "training.num_examples=.* for the examples"),
        ("training.validation_samples=100000000000", "training.validation_samples=.* validation"),
        ("evaluation.num_samples=100000000000", "evaluation.num_samples=.* GiB for a test"),
        ("model.width=1000000000000", r"one sequence of \d+ positions needs at least .* the model"),
    ],
)
def test_what_cannot_fit_is_refused_with_what_it_needs(word: str, said: str) -> None:
    made = setup("protocol=smoke", "method=rope", word)
    with pytest.raises(ConfigError, match=said):
        memory.refuse_too_large(made)


def test_what_a_step_keeps_of_a_sequence_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of each token: 1 layer of two inputs, 4 times the heads and twice the MLP, of 4 bytes."""
    made = setup(*SMALL)
    numbers = 2 * 16 + 4 * 16 + 2 * 4 * 16
    size = 2 * made.train_positions * numbers * 4  # the protocol has two layers
    for there, refused in ((4 * size, False), (4 * size - 1, True)):
        monkeypatch.setattr(memory, "_memory", lambda device, there=there: there)
        if not refused:
            memory.refuse_too_large(made)
            continue
        with pytest.raises(ConfigError, match=r"training\.batch_size=4 needs"):
            memory.refuse_too_large(made)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("training.length_scale=1e9",), r"tested at up to 64 times that, .* 16,777,216 symbols"),
        (("evaluation.longest=1e12", "evaluation.ladder=[]"), r"tested at up to 1e\+12 times"),
        (("trainer.threads=100000",), r"trainer\.threads must be less than or equal to 1024"),
    ],
)
def test_lengths_and_threads_that_no_machine_has_are_refused_at_once(
    words: tuple[str, ...], said: str
) -> None:
    with pytest.raises(ConfigError, match=said):
        setup(*words)
