"""Trainings made in step are those that each makes alone, but for rounding."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import lightning as L
import pytest
import torch
from torch import Tensor

from posbench.base.errors import ConfigError, Diverged
from posbench.config.folders import own_names
from posbench.core.scoring import loss
from posbench.core.training import Curve, Training, fit
from posbench.running.replicas.curves import OwnCurve
from posbench.running.replicas.fitting import fit_together
from posbench.running.replicas.forward import ReplicaBatch, losses, state_of
from posbench.running.replicas.trainings import CannotReplicate, Replicas
from posbench.running.subject import setup

TINY = (
    "protocol=smoke",
    "training.min_length=4",
    "training.max_length=12",
    "training.batch_size=4",
    "training.steps=15",
    "training.validate_every=6",
    "model.width=32",
    "model.num_heads=2",
    "model.head_width=16",
)
EVERY = 4
"""Checkpoints are written at steps that are no points of the curve."""
EXACT = 1e-9
"""In float64, and after a few steps: rounding is 1e-16, and AdamW divides small gradients by
themselves.
"""
# A fused kernel, one with a learned bias, modules and parameters shared by layers, explicit
# weights, drawn positions, a scale by the number of keys, and positions by the task.
PATHS = ("rope", "t5", "fire", "shaw", "random_positions", "ssmax", "abacus")
ONE_BY_ONE = ("xpos",)
"""Encodings that ask a tensor for its value."""


def alone(seed: int, *words: str, **changes: Any) -> Training:
    """A tiny training in float64."""
    made = setup(*TINY, "task=copy", *words, f"seed={seed}")
    settings = replace(made.config.training, **changes)
    return Training(made.model().double(), made.task, settings, seed)


def several(*words: str, count: int = 3) -> list[Training]:
    """Trainings of one encoding on a task that can supply its positions."""
    try:
        return [alone(seed, *words) for seed in range(count)]
    except ConfigError:
        return [alone(seed, "task=addition", *words) for seed in range(count)]


class Ends:
    """What `fit_together` says of the end of each replica."""

    def __init__(self) -> None:
        self.curves: dict[int, OwnCurve] = {}
        self.diverged: dict[int, str] = {}

    def __call__(self, index: int, curve: OwnCurve, diverged: Diverged | None) -> None:
        assert index not in self.curves
        self.curves[index] = curve
        if diverged is not None:
            self.diverged[index] = str(diverged)


def paths(folder: Path, count: int) -> list[Path]:
    found = [folder / str(index) / "last.ckpt" for index in range(count)]
    for path in found:
        path.parent.mkdir(parents=True, exist_ok=True)
    return found


def in_step(folder: Path, trainings: Sequence[Training], *callbacks: L.Callback) -> Ends:
    ends, where = Ends(), paths(folder, len(trainings))
    fit_together(trainings, where, "cpu", EVERY, list(callbacks), lambda point: None, ends)
    return ends


def one_by_one(folder: Path, training: Training) -> Curve:
    folder.mkdir(parents=True, exist_ok=True)
    return fit(training, folder / "last.ckpt", "cpu", EVERY, [], [], lambda point: None)


def same(one: Training, curve: Curve, other: Training, found: Curve, within: float = EXACT) -> None:
    for (name, value), expected in zip(
        one.model.state_dict().items(), other.model.state_dict().values(), strict=True
    ):
        torch.testing.assert_close(value, expected, rtol=0, atol=within, msg=name)
    assert [point["step"] for point in curve.points] == [point["step"] for point in found.points]
    for here, there in zip(curve.points, found.points, strict=True):
        assert here == pytest.approx(there, abs=1e-6)  # losses of single answers are float32


def gradients(value: Tensor, trainings: Sequence[Training]) -> list[Tensor | None]:
    weights = [p for training in trainings for p in training.model.parameters()]
    return list(torch.autograd.grad(value, weights, allow_unused=True))


def together(trainings: Sequence[Training], data: ReplicaBatch) -> Tensor:
    """The losses of all, from which gradients flow into the weights of each model."""
    models = [training.model for training in trainings]
    weights = zip(*(model.parameters() for model in models), strict=True)
    return losses(models[0], state_of(models, [torch.stack(each) for each in weights]), data)


def agrees(encoding: str) -> None:
    trainings = several(f"encoding={encoding}")
    batches = [training.batch(0) for training in trainings]
    for _ in range(2):  # a pass leaves the models as they were
        found = together(trainings, ReplicaBatch.of(batches, beyond=1))
        ours = gradients(found.sum(), trainings)
    expected = [loss(each.model, data) for each, data in zip(trainings, batches, strict=True)]
    theirs = gradients(torch.stack(expected).sum(), trainings)
    torch.testing.assert_close(found, torch.stack(expected), rtol=0, atol=EXACT)
    for here, there in zip(ours, theirs, strict=True):
        assert (here is None) == (there is None)
        if here is not None:
            torch.testing.assert_close(here, there, rtol=0, atol=EXACT)


@pytest.mark.slow
@pytest.mark.parametrize("encoding", PATHS)
def test_losses_and_gradients_of_each_are_those_alone(encoding: str) -> None:
    agrees(encoding)


@pytest.mark.slow
@pytest.mark.parametrize("encoding", sorted({*own_names("encoding")} - {*PATHS, *ONE_BY_ONE}))
def test_every_encoding_can_be_trained_in_step(encoding: str) -> None:
    agrees(encoding)


@pytest.mark.slow
@pytest.mark.parametrize(
    "words",
    [("encoding=rope",), ("encoding=t5", "model.qk_norm=true", "model.loops=2")],
)
def test_weights_and_curve_of_each_are_those_alone(tmp_path: Path, words: tuple[str, ...]) -> None:
    together = several(*words)
    ends = in_step(tmp_path, together)
    for index, training in enumerate(several(*words)):
        curve = one_by_one(tmp_path / f"alone-{index}", training)
        same(together[index], ends.curves[index], training, curve)


@pytest.mark.slow
def test_each_is_clipped_by_its_own_norm(tmp_path: Path) -> None:
    def made() -> list[Training]:
        # The gradient of one alone is clipped, and after the first step AdamW tells.
        return [
            alone(0, gradient_clip=5.0),
            alone(1, "model.embedding_std=0.003", gradient_clip=5.0),
        ]

    norms = []
    for training in made():
        found = gradients(loss(training.model, training.batch(0)), [training])
        norms.append(sum(float(each.square().sum()) for each in found if each is not None) ** 0.5)
    assert min(norms) < 5 < max(norms)
    several_of_them = made()
    ends = in_step(tmp_path, several_of_them)
    for index, training in enumerate(made()):
        curve = one_by_one(tmp_path / f"alone-{index}", training)
        same(several_of_them[index], ends.curves[index], training, curve)


@pytest.mark.slow
def test_one_that_may_stop_leaves_the_others_to_go_on(tmp_path: Path) -> None:
    def made() -> list[Training]:
        return [alone(0, stop_at=0.0), alone(1), alone(2)]

    together = made()
    ends = in_step(tmp_path, together)
    for index, training in enumerate(made()):
        curve = one_by_one(tmp_path / f"alone-{index}", training)
        assert len(curve.points) == (1 if index == 0 else 3)
        same(together[index], ends.curves[index], training, curve)


class Spoiler(L.Callback):
    """Makes an end of the weights of one replica, through the model that it has of its own."""

    def on_train_batch_start(self, trainer: L.Trainer, pl_module: Any, *_: Any) -> None:
        if trainer.global_step == 2:
            pl_module.trainings[1].model.head.weight.data.fill_(torch.inf)


@pytest.mark.slow
def test_one_that_diverges_spoils_no_other(tmp_path: Path) -> None:
    trainings = several("encoding=rope")
    ends = in_step(tmp_path, trainings, Spoiler())
    assert list(ends.diverged) == [1] and "the loss became nan" in ends.diverged[1]
    for index, training in enumerate(several("encoding=rope")):
        if index != 1:
            curve = one_by_one(tmp_path / f"alone-{index}", training)
            same(trainings[index], ends.curves[index], training, curve)


@pytest.mark.slow
def test_the_time_is_shared_among_those_that_go_on(tmp_path: Path) -> None:
    trainings = [alone(0, stop_at=0.0), alone(1), alone(2)]
    start = time.process_time()
    ends = in_step(tmp_path, trainings)
    spent = [ends.curves[index].cpu_seconds for index in range(3)]
    assert 0 < spent[0] < spent[1] == pytest.approx(spent[2], rel=0.2)
    assert sum(spent) < time.process_time() - start


class Killed(Exception):
    pass


class Axe(L.Callback):
    """Ends a training as a killed process ends: after a step, with nothing more written."""

    def on_train_batch_start(self, trainer: L.Trainer, *_: Any) -> None:
        if trainer.global_step == 9:
            raise Killed


@pytest.mark.slow
def test_what_was_interrupted_goes_on_alone_or_in_step(tmp_path: Path) -> None:
    undisturbed = several("encoding=rope")
    expected = in_step(tmp_path / "undisturbed", undisturbed)
    for folder in ("alone", "in step"):
        with pytest.raises(Killed):
            in_step(tmp_path / folder, several("encoding=rope"), Axe())
    again = several("encoding=rope")
    ends = in_step(tmp_path / "in step", again)
    for index, training in enumerate(again):
        # The same pass from the same checkpoint: bit for bit.
        same(training, ends.curves[index], undisturbed[index], expected.curves[index], within=0)
    for index, training in enumerate(several("encoding=rope")):
        curve = one_by_one(tmp_path / "alone" / str(index), training)
        same(training, curve, undisturbed[index], expected.curves[index])


@pytest.mark.slow
def test_a_checkpoint_of_one_goes_on_in_step(tmp_path: Path) -> None:
    where = paths(tmp_path, 2)
    for path, training in zip(where, several("encoding=rope", count=2), strict=True):
        with pytest.raises(Killed):
            fit(training, path, "cpu", EVERY, [], [Axe()], lambda point: None)
    together = several("encoding=rope", count=2)
    ends = in_step(tmp_path, together)
    for index, training in enumerate(several("encoding=rope", count=2)):
        curve = one_by_one(tmp_path / f"undisturbed-{index}", training)
        same(together[index], ends.curves[index], training, curve)


# -- one by one ------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("encoding=rope", "model.dropout=0.1"), "dropout"),
        (("encoding=rope", "training.precision=16-mixed"), "16-mixed"),
        *(((f"encoding={encoding}",), "vmap") for encoding in ONE_BY_ONE),
    ],
)
def test_what_cannot_be_made_in_step_says_so_before_it_begins(
    tmp_path: Path, words: tuple[str, ...], said: str
) -> None:
    trainings = several(*words, count=2)
    before = [value.clone() for value in trainings[0].model.state_dict().values()]
    with pytest.raises(CannotReplicate, match=said):
        in_step(tmp_path, trainings)
    assert all(map(torch.equal, before, trainings[0].model.state_dict().values()))


def test_an_encoding_that_looks_at_its_length_is_found_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Of one length in the first batch, where nothing would be padded.
    trainings = several("encoding=rope", "training.min_length=12", count=2)
    for training in trainings:
        monkeypatch.setattr(
            training.model.encodings.layers[0],
            "embed",
            lambda x, pos: x * pos.shape[-1] / 8,  # by the padding too
        )
    with pytest.raises(CannotReplicate, match="gradients differ"):
        in_step(tmp_path, trainings)


def test_a_batch_is_padded_by_what_every_table_has() -> None:
    trainings = several("encoding=rope")
    batches = [training.batch(1) for training in trainings]
    longest = max(data.tokens.shape[1] for data in batches)
    found = ReplicaBatch.of(batches)
    assert {data.tokens.shape[1] for data in batches} != {longest}
    assert found.labels.shape == found.tokens.shape == (3, 4, longest)
    for index, data in enumerate(batches):
        n = data.tokens.shape[1]
        assert torch.equal(found.tokens[index, :, :n], data.tokens)
        assert (found.pos[index, :, n:] == data.pos[:, -1:]).all()
        assert torch.equal(found.labels[index][found.labels[index] >= 0], data.labels)
        assert torch.equal((found.labels[index] >= 0).nonzero(), data.where.nonzero())
    assert found.first == min(data.first for data in batches)


@pytest.mark.slow
def test_attention_of_all_is_one_call_of_the_fused_kernel() -> None:
    trainings = several("encoding=rope")
    replicas = Replicas(trainings)
    with torch.profiler.profile() as profile:
        together(trainings, replicas.batch(0))
    calls = {event.key: event.count for event in profile.key_averages()}
    assert calls["aten::scaled_dot_product_attention"] == len(trainings[0].model.blocks)
