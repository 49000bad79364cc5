"""Every encoding, extension and method found in conf/, by glob: what it declares is measured, what it offers works.

A new YAML is tested without a line being added here.
"""

from __future__ import annotations

import functools
from typing import Any

import pytest
import torch
from conftest import composed, experiment, names
from torch import Tensor

from posbench.attention import Attention, attend, dense
from posbench.building import build
from posbench.encoding import PositionEncoding
from posbench.errors import ConfigError, IllegalExtension
from posbench.experiment import Experiment
from posbench.extension import Extension
from posbench.streams import stream_seed

ENCODINGS, EXTENSIONS, METHODS = names("encoding"), names("extension"), names("method")
BATCH, HEADS, WIDTH, MODEL = 2, 2, 16, 32  # of the smoke-sized calls below; heads * width = model
CPU_HEAD = 32  # head width of the cpu protocol


@functools.cache
def made(name: str, *overrides: str) -> Experiment:
    """Experiments hold no weights: each model is built anew."""
    return experiment(f"encoding={name}", f"model.width={MODEL}", f"model.num_heads={HEADS}", *overrides)


def layer(name: str, *overrides: str) -> PositionEncoding:
    """The first layer's encoding, as the YAML builds it, in float64."""
    return next(iter(made(name, *overrides).model().encodings)).double()


def call(n: int, pos: Tensor | None = None, dtype: torch.dtype = torch.float64, width: int = WIDTH) -> Attention:
    generator = torch.Generator().manual_seed(0)
    q, k, v = (torch.randn(BATCH, HEADS, n, width, generator=generator, dtype=dtype) for _ in range(3))
    x = torch.randn(BATCH, n, HEADS * width, generator=generator, dtype=dtype)
    pos = torch.arange(n)[None] if pos is None else pos
    return Attention(q, k, v, x, pos, pos, scale=width**-0.5)


def outputs(encoding: PositionEncoding, pos: Tensor, width: int = WIDTH) -> tuple[Tensor, Tensor]:
    """All an encoding does: what it adds to embeddings, and the full score matrix."""
    n = pos.shape[-1]
    a = call(n, pos, width=width)
    return encoding.embed(a.x, pos), encoding.encode(a).logits(slice(0, n))


def differs(a: tuple[Tensor, ...], b: tuple[Tensor, ...]) -> bool:
    return any(x.shape != y.shape or not torch.allclose(x, y, rtol=0, atol=1e-9) for x, y in zip(a, b, strict=True))


# -- encodings -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ENCODINGS)
def test_fused_path_equals_the_dense_reference_with_gradients(name: str) -> None:
    results = []
    for run in (attend, dense):
        encoding = layer(name)
        a = call(8 * 9)
        leaves = [t.requires_grad_() for t in (a.q, a.k, a.v, a.x)] + list(encoding.parameters())
        out = run(encoding.encode(a), 16)
        generator = torch.Generator().manual_seed(1)
        weight = torch.randn(out.shape, generator=generator, dtype=out.dtype)
        gradients = torch.autograd.grad((out * weight).sum(), leaves, allow_unused=True)
        results.append([out, *(g for g in gradients if g is not None)])
    for fused, reference in zip(*results, strict=True):
        torch.testing.assert_close(fused, reference, rtol=0, atol=1e-10)


BACKENDS = [("cpu", torch.float32, 2e-5), ("cpu", torch.bfloat16, 3e-2)]
BACKENDS += [("cuda", torch.float32, 5e-5), ("cuda", torch.bfloat16, 3e-2)] if torch.cuda.is_available() else []


@pytest.mark.parametrize("name", ENCODINGS)
@pytest.mark.parametrize(("device", "dtype", "tolerance"), BACKENDS)
def test_fused_path_stays_within_tolerance_at_8x(name: str, device: str, dtype: torch.dtype, tolerance: float) -> None:
    """Against the dense path in float64 on the very same (rounded) inputs."""
    n = 8 * made(name).train_positions
    exact, encoding = layer(name, f"evaluation.further=[{n}]"), layer(name, f"evaluation.further=[{n}]").float()
    a = call(n, dtype=dtype)
    reference = dense(exact.encode(Attention(*(t.double() for t in (a.q, a.k, a.v, a.x)), a.q_pos, a.k_pos, a.scale)))
    moved = Attention(*(t.to(device) for t in (a.q, a.k, a.v, a.x, a.q_pos, a.k_pos)), a.scale)
    fused = attend(encoding.to(device).encode(moved))
    torch.testing.assert_close(fused.double().cpu(), reference, rtol=0, atol=tolerance)


@pytest.mark.parametrize("name", ENCODINGS)
def test_any_block_size_gives_the_same(name: str) -> None:
    encoding = layer(name)
    whole = attend(encoding.encode(call(29)), 29)
    for block in (1, 7, 28):
        torch.testing.assert_close(attend(encoding.encode(call(29)), block), whole, rtol=0, atol=1e-12)


@pytest.mark.parametrize("name", ENCODINGS)
def test_relative_is_measured(name: str) -> None:
    """The whole model, shifted by a constant: unchanged if and only if the encoding says `relative`."""
    model = made(name).model().double().eval()
    n, shift = 12, 5
    tokens = torch.randint(8, 20, (2, n), generator=torch.Generator().manual_seed(0))
    pos = torch.arange(n)[None]
    change = (model(tokens, pos + shift) - model(tokens, pos)).abs().max().item()
    declared = all(encoding.relative for encoding in model.encodings)
    assert (change < 1e-9) == declared, f"shifting changes logits by {change:.1e}, declared relative={declared}"


@pytest.mark.parametrize("name", ENCODINGS)
def test_no_output_depends_on_a_later_token(name: str) -> None:
    model = made(name).model().double().eval()
    tokens = torch.randint(8, 20, (2, 14), generator=torch.Generator().manual_seed(0))
    later = tokens.clone()
    later[:, 9:] = 8 + (later[:, 9:] - 7) % 12
    pos = torch.arange(14)[None]
    torch.testing.assert_close(model(tokens, pos)[:, :9], model(later, pos)[:, :9], rtol=0, atol=1e-12)
    assert not torch.allclose(model(tokens, pos)[:, 9:], model(later, pos)[:, 9:])


@pytest.mark.parametrize("name", ENCODINGS)
def test_float_positions_are_accepted_iff_declared(name: str) -> None:
    encoding = layer(name)
    pos = torch.arange(10)[None] * 0.75 + 0.25
    if encoding.float_positions:
        assert all(torch.isfinite(t).all() for t in outputs(encoding, pos))
        whole = torch.arange(10)[None]
        assert not differs(outputs(encoding, whole.double()), outputs(encoding, whole))
    else:
        with pytest.raises((IndexError, RuntimeError, TypeError)):
            outputs(encoding, pos)


@pytest.mark.parametrize("name", ENCODINGS)
def test_max_positions_is_measured(name: str) -> None:
    encoding = layer(name)
    limit = encoding.max_positions
    if limit is None:
        far = outputs(encoding, torch.arange(100_000, 100_012)[None])
        assert all(torch.isfinite(t).all() for t in far)
        return
    outputs(encoding, torch.arange(limit - 4, limit)[None])
    with pytest.raises(IndexError):
        outputs(encoding, torch.arange(limit - 3, limit + 1)[None])


@pytest.mark.parametrize("name", ENCODINGS)
def test_finite_under_decreasing_positions(name: str) -> None:
    """Ids supplied by a task may run backwards or repeat."""
    encoding = layer(name)
    for ids in ([9, 8, 7, 6, 5], [3, 3, 3, 3, 3], [0, 4, 1, 4, 2]):
        assert all(torch.isfinite(t).all() for t in outputs(encoding, torch.tensor([ids])))


@pytest.mark.parametrize("name", ENCODINGS)
def test_every_parameter_gets_a_gradient(name: str) -> None:
    """From one training batch, at the training length."""
    run = made(name)
    model = run.model()
    from posbench.scoring import inputs, loss

    loss(model, inputs(run.task.batch(run.train_length, 16, 0, "train", 0), model.encodings, 0)).backward()
    for parameter_name, parameter in model.named_parameters():
        assert parameter.grad is not None and parameter.grad.abs().max() > 0, parameter_name


@pytest.mark.parametrize("name", ENCODINGS)
def test_state_dict_round_trips(name: str) -> None:
    one, other = made(name).model(), made(name, "seed=1").model()
    tokens, pos = torch.randint(8, 20, (2, 12)), torch.arange(12)[None]
    assert not torch.equal(one(tokens, pos), other(tokens, pos))
    other.load_state_dict(one.state_dict())
    assert torch.equal(one(tokens, pos), other(tokens, pos))


@pytest.mark.parametrize("name", ENCODINGS)
def test_shared_modules_start_equal_across_encodings(name: str) -> None:
    ours, nope = made(name).model().state_dict(), made("nope").model().state_dict()
    assert nope.keys() <= ours.keys()
    for key, value in nope.items():
        assert torch.equal(ours[key], value), key


@pytest.mark.parametrize("name", ENCODINGS)
def test_two_constructions_are_equal(name: str) -> None:
    with torch.random.fork_rng():
        one = made(name).model().state_dict()
        torch.manual_seed(stream_seed("anything"))
        other = made(name).model().state_dict()
    assert all(torch.equal(one[key], other[key]) for key in one)


def numeric_knobs(group: str, name: str) -> list[tuple[str, Any]]:
    """Numeric settings of a YAML, those interpolated from elsewhere (sizes of the model) left out."""
    from omegaconf import OmegaConf

    node = OmegaConf.to_container(composed(f"{group}={name}")[group], resolve=False)
    return [
        (key, value) for key, value in node.items() if isinstance(value, int | float) and not isinstance(value, bool)
    ]


KNOBS = [("encoding", name) for name in ENCODINGS] + [("extension", name) for name in EXTENSIONS]


@pytest.mark.parametrize(("group", "name"), KNOBS)
def test_every_numeric_knob_changes_some_output(group: str, name: str) -> None:
    """Doubled (or halved, where double is illegal) at the lengths and sizes of the cpu protocol, both objects
    alive at once, so that a cache shared between them would show.
    """
    for key, value in numeric_knobs(group, name):
        try:
            before, after = knob_outputs(group, name), knob_outputs(group, name, f"{group}.{key}={2 * value}")
        except ConfigError:
            before, after = knob_outputs(group, name), knob_outputs(group, name, f"{group}.{key}={value / 2}")
        assert differs(before, after), f"{group}={name}: changing {key}={value} changes nothing"


def knob_outputs(group: str, name: str, *overrides: str) -> tuple[Tensor, Tensor]:
    host = (f"encoding={hosts(name)[0]}",) if group == "extension" else ()
    sizes = ("protocol=cpu", f"model.width={2 * CPU_HEAD}", "model.num_heads=2")
    run = experiment(*sizes, f"{group}={name}", *host, *overrides)
    stack = run.extension.extend(run.model().encodings, run.train_positions, 4 * run.train_positions)
    return outputs(next(iter(stack)).double(), torch.arange(64)[None], CPU_HEAD)


# -- extensions ------------------------------------------------------------------------------------------


@functools.cache
def hosts(extension: str) -> list[str]:
    """The encodings an extension can extend."""
    from posbench.legality import legal_encodings

    return legal_encodings(composed(f"extension={extension}").extension)


def extended(name: str, *overrides: str, multiple: float = 4.0) -> tuple[Tensor, Tensor]:
    run = experiment(f"extension={name}", f"model.width={MODEL}", f"model.num_heads={HEADS}", *overrides)
    stack, length = run.model().encodings, run.train_positions
    new = run.extension.extend(stack, length, round(multiple * length))
    return outputs(next(iter(new)).double(), torch.arange(64)[None])


PAIRS = [(extension, encoding) for extension in EXTENSIONS for encoding in ENCODINGS]


@pytest.mark.parametrize(("extension", "encoding"), PAIRS)
def test_an_extension_changes_the_encoding_or_refuses(extension: str, encoding: str) -> None:
    base = outputs(layer(encoding), torch.arange(64)[None])
    if encoding not in hosts(extension):
        with pytest.raises(IllegalExtension, match="needs"):
            extended(extension, f"encoding={encoding}")
    else:
        changes = build_extension(extension).changes
        assert differs(base, extended(extension, f"encoding={encoding}")) == changes


@pytest.mark.parametrize(("extension", "encoding"), PAIRS)
@pytest.mark.parametrize("overrides", [(), ("extension.scale=4",)])
def test_identity_at_the_training_length_is_measured(extension: str, encoding: str, overrides: tuple[str, ...]) -> None:
    if encoding not in hosts(extension) or (overrides and "scale" not in composed(f"extension={extension}").extension):
        pytest.skip("not a legal pair, or no such setting")
    declared = build_extension(extension, *overrides).is_identity
    base = outputs(layer(encoding), torch.arange(64)[None])
    changed = differs(base, extended(extension, f"encoding={encoding}", *overrides, multiple=1.0))
    assert changed != declared


@functools.cache
def build_extension(name: str, *overrides: str) -> Extension:
    from omegaconf import OmegaConf

    node = OmegaConf.to_container(composed(f"extension={name}", *overrides).extension, resolve=True)
    return build(node, "extension")  # type: ignore[arg-type]


@pytest.mark.parametrize(("extension", "encoding"), PAIRS)
def test_an_extension_shares_every_weight(extension: str, encoding: str) -> None:
    if encoding not in hosts(extension):
        pytest.skip("not a legal pair")
    run = made(encoding, f"extension={extension}")
    model = run.model()
    pos = torch.arange(20)[None]
    before, scores = (
        {name: p.data_ptr() for name, p in model.named_parameters()},
        outputs(model.encodings.layers[0], pos),
    )
    new = model.with_encodings(run.extension.extend(model.encodings, run.train_positions, 2 * run.train_positions))
    assert {name: p.data_ptr() for name, p in new.named_parameters()} == before
    assert not differs(scores, outputs(model.encodings.layers[0], pos)), "the base itself was changed"


# -- methods ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", METHODS)
def test_a_method_only_composes(name: str) -> None:
    from conftest import CONF

    lines = [line for line in (CONF / "method" / f"{name}.yaml").read_text().splitlines() if line.strip()]
    assert lines[0] == "# @package _global_"
    assert lines[1] == "defaults:"
    assert all(line.strip().startswith(("- override /encoding:", "- override /extension:", "#")) for line in lines[2:])


@pytest.mark.parametrize("name", METHODS)
def test_every_method_trains_a_step_and_evaluates(name: str) -> None:
    run = experiment(f"method={name}")
    model = run.model()
    rows, _ = run.evaluated(model, run.extension)
    assert [row["multiple"] for row in rows] == sorted(run.lengths.values())
    assert all(0 <= row["sequence_accuracy"] <= 1 for row in rows)
