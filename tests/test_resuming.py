"""A training that is interrupted at any step and started again has the curve and the weights of one
that never was.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import lightning as L
import pytest
import torch

from posbench.core.training import Curve, Training, fit
from posbench.running.subject import setup

EVERY = 4
"""Checkpoints are written at steps that are no points of the curve, which has one in six steps."""


class Killed(Exception):
    pass


class Axe(L.Callback):
    """Ends a training as a killed process ends: after a step, with nothing more written."""

    def __init__(self, step: int) -> None:
        self.step = step

    def on_train_batch_start(self, trainer: L.Trainer, *_: Any) -> None:
        if trainer.global_step == self.step:
            raise Killed


def train(folder: Path, *callbacks: L.Callback) -> tuple[Training, Curve]:
    words = ("training.steps=15", "training.validate_every=6", "training.batch_size=4")
    made = setup("method=rope", "model.width=16", "model.num_heads=1", "model.dropout=0.1", *words)
    training = Training(made.model(), made.task, made.config.training, 0)
    arguments = (folder / "last.ckpt", "cpu", EVERY, [], list(callbacks), lambda point: None)
    return training, fit(training, *arguments)


@pytest.fixture(scope="module")
def reference(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    return {}


# Right after a checkpoint, with one to three steps to be done again, and three times over.
@pytest.mark.slow
@pytest.mark.parametrize("steps", [[4], [5], [7], [11], [14], [5, 9, 13]])
def test_a_resumed_training_has_the_curve_and_weights_of_an_undisturbed_one(
    tmp_path: Path, reference: dict[str, Any], steps: list[int]
) -> None:
    if not reference:
        training, curve = train(tmp_path / "undisturbed")
        reference |= {"points": curve.points, "weights": training.model.state_dict()}
    for step in steps:
        with pytest.raises(Killed):
            train(tmp_path / "killed", Axe(step))
    training, curve = train(tmp_path / "killed")
    assert [point["step"] for point in curve.points] == [6, 12, 15]
    assert curve.points == reference["points"]
    for name, value in training.model.state_dict().items():
        assert torch.equal(value, reference["weights"][name]), name
