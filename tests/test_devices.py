"""Without a GPU: no encoding and no extension makes a tensor on another device than its inputs.

Weights and inputs are on the meta device, and whatever is made on the CPU and mixed with them
raises. The forward pass and its gradients in training, the forward pass of tests.
"""

from __future__ import annotations

import copy
import functools
import re
from pathlib import Path

import pytest
import torch
from offered import thinned
from omegaconf import DictConfig, OmegaConf
from small_runs import tiny, trained
from torch import Tensor

from posbench.base.errors import ConfigError, IllegalExtension
from posbench.checks.devices import Elsewhere, WrongDevice, elsewhere
from posbench.config.building import build
from posbench.config.compose import compose
from posbench.config.folders import own_names
from posbench.config.options import content
from posbench.core.attention import Attention
from posbench.core.encoding import Draw, PositionEncoding
from posbench.core.extension import Extension
from posbench.core.task import Task
from posbench.core.transformer import Transformer
from posbench.running.setup import Setup
from posbench.running.subject import Subject

ENCODINGS, EXTENSIONS = own_names("encoding"), own_names("extension")
HOSTS = ("rope", "learned", "alibi", "transformer_xl", "rope model.loops=2", *ENCODINGS)
"""An extension is tried on the first that it can extend. Settings may follow a name."""
WAIT = {"xpos": "one number", "hyperbolic_hope": "all numbers"}
"""Encodings that ask a tensor for numbers in each forward pass, for which a GPU has to wait."""


@functools.cache
def base() -> DictConfig:
    """What all have in common, composed once: composing is most of what these tests cost."""
    return compose(
        "protocol=smoke", "model.width=32", "model.num_heads=2", "model.head_width=16"
    ).cfg()


@functools.cache
def run(encoding: str) -> Setup:
    encoding, *settings = encoding.split()
    cfg = OmegaConf.merge(copy.deepcopy(base()), OmegaConf.from_dotlist(settings))
    cfg.encoding = content("encoding", encoding)
    try:
        found = Setup(cfg, task())
        found.model()
    except ConfigError:  # it asks the task for positions
        return Subject(f"encoding={encoding}").made()
    return found


@functools.cache
def task() -> Task:
    return build(OmegaConf.to_container(base().task, resolve=True), "task")  # type: ignore[arg-type]


@functools.cache
def model(encoding: str) -> Transformer:
    """Extended, never changed."""
    return run(encoding).model().to("meta")


def extension(name: str, of: Setup) -> Extension:
    """At the lengths of a set-up."""
    cfg = OmegaConf.create(
        {key: of.nodes[key] for key in ("model", "train_positions", "test_positions")}
    )
    cfg.extension = content("extension", name)
    return build(OmegaConf.to_container(cfg, resolve=True)["extension"], "extension")  # type: ignore


def forward(model: Transformer, n: int) -> Tensor:
    """The logits of sequences of two segments; positions are drawn on the CPU, as in training."""
    stack = model.encodings
    n = min(n, stack.max_positions or n)
    draw = Draw(2, torch.Generator().manual_seed(0))
    pos = stack.positions(torch.arange(n)[None], draw).to("meta")
    tokens = torch.zeros(2, n, dtype=torch.long, device="meta")
    segments = torch.ones(1, n, dtype=torch.long, device="meta")
    return model(tokens, pos, segments)


def extended(name: str, encoding: str) -> Elsewhere:
    """What a test at twice the length asks of a model extended for it; IllegalExtension."""
    of, trained = run(encoding), model(encoding)
    made, stack, n = extension(name, of), trained.encodings, 2 * of.train_positions
    with elsewhere() as found, torch.no_grad():
        spans = stack.span(of.train_positions, training=True), stack.span(n)
        forward(trained.with_encodings(made.extend(stack, *spans)).eval(), n)
    return found


@pytest.mark.parametrize("encoding", thinned("encoding"))
def test_an_encoding_makes_no_tensor_on_another_device(encoding: str) -> None:
    trained, n = model(encoding), run(encoding).train_positions
    with elsewhere() as found:
        forward(trained.train(), n).sum().backward()
    assert found.asked == {WAIT[encoding]} if encoding in WAIT else not found.asked


@pytest.mark.parametrize("name", thinned("extension"))
def test_an_extension_makes_no_tensor_on_another_device(name: str) -> None:
    for encoding in HOSTS:
        try:
            found = extended(name, encoding)
        except IllegalExtension:
            continue
        assert not found.asked
        return
    pytest.fail(f"{name} extends nothing")


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", [name for name in EXTENSIONS if not re.search(r"_(tuned|last|served|early)(_|$)", name)]
)
def test_no_pair_makes_a_tensor_on_another_device(name: str) -> None:
    for encoding in ENCODINGS:
        try:
            found = extended(name, encoding)
        except IllegalExtension:
            continue
        except WrongDevice as error:
            pytest.fail(f"{name} of {encoding}: {error}")
        assert found.asked <= {WAIT.get(encoding)}, encoding


@pytest.mark.slow
def test_a_training_seeds_no_kind_of_device_that_the_machine_lacks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seeded: list[str] = []
    for name, there in (("xpu", False), ("mtia", True)):
        kind = getattr(torch, name)
        monkeypatch.setattr(kind, "is_available", lambda there=there: there)
        monkeypatch.setattr(kind, "manual_seed_all", lambda seed, name=name: seeded.append(name))
    trained(tiny(tmp_path, "training.steps=2", "training.validate_every=2"))
    assert seeded.count("mtia") == seeded.count("xpu") + 2, "one for each step"
    del seeded[:]
    torch.manual_seed(0)
    assert sorted(seeded) == ["mtia", "xpu"], "as before the training"


# -- what is wrong is found ------------------------------------------------------------------------


class OfTheCPU(PositionEncoding):
    """Takes a tensor that it has made for itself."""

    def __init__(self, way: str) -> None:
        super().__init__()
        self.way = way

    def encode(self, a: Attention) -> Attention:
        n, width = a.q.shape[-2:]
        table = torch.ones(n, n)
        if self.way == "product":
            return a.heated((a.x @ torch.ones(a.x.shape[-1], 1))[:, None])
        if self.way == "rows":
            return a.plus(lambda rows: table[a.k_pos][:, None, rows])
        if self.way == "gather":
            return a.plus(lambda rows: a.q.gather(-1, torch.zeros(n, width).long())[..., :1])
        return a.plus(lambda rows: table[rows][None, None])


@pytest.mark.parametrize("way", ["sum", "product", "rows", "gather"])
def test_a_tensor_of_the_cpu_is_found(way: str) -> None:
    wrong = model("nope")
    layers = [OfTheCPU(way) for _ in wrong.encodings]
    with elsewhere(), pytest.raises((WrongDevice, RuntimeError), match=r"aten::|on device"):
        forward(wrong.with_encodings(wrong.encodings.replaced(layers)), 12)
