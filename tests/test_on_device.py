"""On a device with numbers in it: what an encoding and an extension give there is what they give on
the CPU. `--device cuda` names it; without the option, and without a GPU, nothing is tested here.
"""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from test_devices import HOSTS, extension, model, run
from test_replicas import TINY

from posbench.base.errors import IllegalExtension
from posbench.config.folders import own_names
from posbench.core.encoding import Draw
from posbench.core.scoring import inputs, loss
from posbench.core.transformer import Transformer
from posbench.records import files
from posbench.running.setup import Setup

CLOSE = 2e-4
"""In float32, of logits of size 1, whose sums are taken in another order."""


@pytest.fixture(scope="session")
def device(pytestconfig: pytest.Config) -> torch.device:
    given = pytestconfig.getoption("--device")
    if not given and not torch.cuda.is_available():
        pytest.skip("no GPU; --device names another device")
    torch.set_float32_matmul_precision("highest")
    return torch.device(given or "cuda")


def logits(model: Transformer, n: int, device: torch.device) -> torch.Tensor:
    stack = model.encodings
    generator = torch.Generator().manual_seed(0)
    pos = stack.positions(torch.arange(n)[None], Draw(2, generator)).to(device)
    tokens = torch.randint(8, 12, (2, n), generator=torch.Generator().manual_seed(1)).to(device)
    segments = (torch.arange(n) >= n // 2).long()[None].to(device)
    return model(tokens, pos, segments)


@pytest.mark.parametrize("encoding", own_names("encoding"))
def test_an_encoding_gives_what_it_gives_on_the_cpu(encoding: str, device: torch.device) -> None:
    made, found = run(encoding), []
    batch = made.task.batch(made.train_length, 2, 0, "train", 0)
    for where in (torch.device("cpu"), device):
        here = made.model().to(where)
        lost = loss(here, inputs(batch, here.encodings, 0, training=True).to(where))
        weights = list(here.parameters())
        each = torch.autograd.grad(lost, weights, allow_unused=True)
        gradients = [torch.zeros(()) if g is None else g.cpu() for g in each]
        found.append((lost.item(), gradients))
    (lost, expected), (again, gradients) = found
    assert again == pytest.approx(lost, rel=CLOSE)
    size = sum(float(each.square().sum()) for each in expected) ** 0.5
    pairs = zip(gradients, expected, strict=True)
    off = sum(float((a - b).square().sum()) for a, b in pairs) ** 0.5
    assert off < 1e-3 * size


def host(name: str) -> str:
    """The first encoding that an extension can extend."""
    for encoding in HOSTS:
        stack, of = model(encoding).encodings, run(encoding)
        try:
            extension(name, of).extend(stack, of.train_positions, of.test_positions)
        except IllegalExtension:
            continue
        return encoding
    raise AssertionError(f"{name} extends nothing")


def stretched(name: str, of: Setup, device: torch.device) -> torch.Tensor:
    trained = of.model().to(device).eval()
    stack, n = trained.encodings, 2 * of.train_positions
    spans = stack.span(of.train_positions, training=True), stack.span(n)
    with torch.inference_mode():
        longer = trained.with_encodings(extension(name, of).extend(stack, *spans))
        return logits(longer, n, device).cpu()


@pytest.mark.parametrize("name", own_names("extension"))
def test_an_extension_gives_what_it_gives_on_the_cpu(name: str, device: torch.device) -> None:
    of = run(host(name))
    expected = stretched(name, of, torch.device("cpu"))
    torch.testing.assert_close(stretched(name, of, device), expected, rtol=0, atol=CLOSE)


@pytest.mark.parametrize("replicas", [1, 2])
def test_a_sweep_on_the_device_makes_records(
    replicas: int, device: torch.device, tmp_path: Path
) -> None:
    from test_sweeps import Launcher, swept

    accelerator = "gpu" if device.type == "cuda" else device.type
    words = ("task=copy", "method=rope,rope_yarn", "seed=0,1", *TINY[1:])
    further = (f"trainer.accelerator={accelerator}", f"trainer.replicas={replicas}")
    swept(tmp_path, Launcher(), *words, *further)
    made = files.records(tmp_path)
    assert [each.training.replicas for each in made] == [replicas] * 4
