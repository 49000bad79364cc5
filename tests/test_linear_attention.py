"""Layers of linear attention compute what their states are, token by token."""

from __future__ import annotations

import importlib
import math
from collections.abc import Callable
from dataclasses import replace

import pytest
import torch
import torch.nn.functional as F
from authors import FLOAT32, MODEL
from loops import BATCH, HEADS, WIDTH, N, by_pairs, call, everywhere, outputs, same, scores, shaken
from torch import Tensor
from vectors import dot, linear, sigmoid, softplus

from posbench.base.errors import ConfigError
from posbench.core.attention import Attention, attend, attend_from, dense
from posbench.encodings.gated_deltanet import GatedDeltaNet
from posbench.encodings.kimi_delta import KimiDelta, delta_rule
from posbench.encodings.linear_attention import LinearAttention, faded
from posbench.encodings.mamba2 import Mamba2
from posbench.encodings.nope import NoPE
from posbench.encodings.partial_rope import PartialRoPE
from posbench.encodings.path_blocked import reflected_in_blocks
from posbench.encodings.rope import RoPE
from posbench.running.subject import setup

oracle = pytest.mark.oracle
KERNEL = 3
Rows = list[list[float]]  # [token][channel]
Made = tuple[Rows, Rows, list[float], list[float], Rows, float]
"""q, k, what a token writes, what it erases, what it leaves of each channel, what skips the state
"""


def states(made: Made, v: Rows) -> Rows:
    """The state is a matrix of lists, [channel of v][channel of k]."""
    q, k, writes, erases, leaves, skip = made
    state, out = [[0.0] * len(k[0]) for _ in v[0]], []
    for t in range(len(q)):
        state = [[s * left for s, left in zip(row, leaves[t], strict=True)] for row in state]
        new = [writes[t] * v[t][c] - erases[t] * dot(row, k[t]) for c, row in enumerate(state)]
        state = [
            [s + u * key for s, key in zip(row, k[t], strict=True)]
            for row, u in zip(state, new, strict=True)
        ]
        out.append([dot(row, q[t]) + skip * v[t][c] for c, row in enumerate(state)])
    return out


def layer(
    encoding: LinearAttention, a: Attention, make: Callable[[int, int, Rows, Rows], Made]
) -> Tensor:
    """The whole layer: convolution and SiLU, the state, norm and gate."""
    gates, scale = linear(encoding.output_gate.gate, a.x), encoding.norm.weight.tolist()

    def convolved(part: str, b: int, h: int) -> Rows:
        x, taps = getattr(a, part)[b, h].tolist(), encoding.convolutions[part].weight.tolist()
        rows = []
        for t in range(len(x)):
            row = []
            for c in range(WIDTH):
                tap = taps[h * WIDTH + c]
                u = x[t][c] + sum(tap[s] * x[t - s][c] for s in range(min(len(tap), t + 1)))
                row.append(u * sigmoid(u))
            rows.append(row)
        return rows

    def finished(b: int, h: int, t: int, out: list[float]) -> list[float]:
        size = math.sqrt(dot(out, out) / len(out) + 1e-5)
        gate = [sigmoid(gates[b][t][h * WIDTH + c]) for c in range(WIDTH)]
        return [g * s * o / size for g, s, o in zip(gate, scale, out, strict=True)]

    def head(b: int, h: int) -> Rows:
        q, k, v = (convolved(part, b, h) for part in "qkv")
        return [finished(b, h, t, o) for t, o in enumerate(states(make(b, h, q, k), v))]

    every = [[head(b, h) for h in range(HEADS)] for b in range(BATCH)]
    return torch.tensor(every, dtype=torch.float64)


def unit(rows: Rows, factor: float = 1.0) -> Rows:
    return [[factor * x / math.sqrt(dot(row, row)) for x in row] for row in rows]


Make = Callable[[int, int, Rows, Rows], Made]


def of_mamba2(encoding: Mamba2, a: Attention) -> Make:
    project = linear(encoding.decay.project, a.x)

    def make(b: int, h: int, q: Rows, k: Rows) -> Made:
        bias, rate = encoding.decay.step_bias[h].item(), encoding.decay.log_a[h].exp().item()
        steps = [softplus(project[b][t][h] + bias) for t in range(N)]
        leaves = [[math.exp(-rate * step)] * WIDTH for step in steps]
        return q, k, steps, [0.0] * N, leaves, encoding.skip[h].item()

    return make


def of_gated_deltanet(encoding: GatedDeltaNet, a: Attention, strength: float = 1.0) -> Make:
    project, writing = (linear(each.project, a.x) for each in (encoding.decay, encoding.writing))

    def make(b: int, h: int, q: Rows, k: Rows) -> Made:
        bias, rate = encoding.decay.step_bias[h].item(), encoding.decay.log_a[h].exp().item()
        beta = [strength * sigmoid(writing[b][t][h]) for t in range(N)]
        leaves = [[math.exp(-rate * softplus(project[b][t][h] + bias))] * WIDTH for t in range(N)]
        return unit(q, WIDTH**-0.5), unit(k), beta, beta, leaves, 0.0

    return make


def of_kimi_delta(encoding: KimiDelta, a: Attention) -> Make:
    low = torch.tensor(linear(encoding.decay.project[0], a.x), dtype=torch.float64)
    project, writing = linear(encoding.decay.project[1], low), linear(encoding.writing.project, a.x)

    def make(b: int, h: int, q: Rows, k: Rows) -> Made:
        bias, rate = encoding.decay.step_bias[h].tolist(), encoding.decay.log_a[h].exp().item()
        beta = [sigmoid(writing[b][t][h]) for t in range(N)]
        leaves = [
            [
                math.exp(-rate * softplus(project[b][t][h * WIDTH + c] + bias[c]))
                for c in range(WIDTH)
            ]
            for t in range(N)
        ]
        return unit(q, WIDTH**-0.5), unit(k), beta, beta, leaves, 0.0

    return make


@oracle("mamba2", "double loop")
@everywhere
def test_mamba2_is_its_state(positions: list[float]) -> None:
    """The naive forms of simple_gla in fla-core 0.6.0, with scale 1, values times the step and no
    skip, differ in float64 by at most 3e-12 of results up to 45.
    """
    a, encoding = call(positions), shaken(Mamba2(MODEL, HEADS, WIDTH, KERNEL), 0.3)
    same(attend(encoding.encode(a)), layer(encoding, a, of_mamba2(encoding, a)))


@oracle("gated_deltanet", "double loop")
@everywhere
@pytest.mark.parametrize("strength", [1.0, 2.0])
def test_gated_deltanet_is_its_state(positions: list[float], strength: float) -> None:
    a = call(positions)
    encoding = shaken(GatedDeltaNet(MODEL, HEADS, WIDTH, KERNEL, strength), 0.3)
    same(attend(encoding.encode(a)), layer(encoding, a, of_gated_deltanet(encoding, a, strength)))


@oracle("kimi_delta", "double loop")
@everywhere
def test_kimi_delta_is_its_state(positions: list[float]) -> None:
    a, encoding = call(positions), shaken(KimiDelta(MODEL, HEADS, WIDTH, KERNEL), 0.3)
    same(attend(encoding.encode(a)), layer(encoding, a, of_kimi_delta(encoding, a)))


# -- the scores alone, over several blocks -----------------------------------------------------


def drawn(n: int, fastest: float) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    """q, k, v, beta and the logarithms of decays."""
    generator = torch.Generator().manual_seed(n)
    q, k, v, fades = torch.randn(4, 2, 3, n, 8, generator=generator, dtype=torch.float64)
    beta = torch.rand(2, 3, n, generator=generator, dtype=torch.float64)
    return F.normalize(q, dim=-1), F.normalize(k, dim=-1), v, beta, -fastest * fades.abs()


def library(module: str, function: str, *call: Tensor) -> Tensor:
    """Theirs is [batch, n, heads, ..], in float32, and scales q by its width."""
    found = importlib.import_module(f"transformers.models.{module}")
    q, k, v, log_decay, beta = (t.transpose(1, 2).float() for t in call)
    out = getattr(found, function)(
        q, k, v, g=log_decay, beta=beta, initial_state=None, output_final_state=False
    )[0]
    return out.transpose(1, 2).double()


@oracle("kimi_delta", "library: transformers Kimi Linear")
@pytest.mark.parametrize("n", [1, 16, 33, 100, 150])
@pytest.mark.parametrize("fastest", [0.05, 40.0])
def test_kimi_delta_is_the_recurrence_of_transformers(n: int, fastest: float) -> None:
    """Compared once with the naive forms of fla-core 0.6.0, their casts raised to float64, up to
    500 tokens: they differ by at most 7e-15.
    """
    pytest.importorskip("transformers")
    q, k, v, beta, log_decay = drawn(n, fastest)
    z = delta_rule(8**-0.5 * q, k, beta, log_decay)
    pieces = [z(slice(start, min(start + 7, n))) for start in range(0, n, 7)]
    name = ("kimi_linear.modeling_kimi_linear", "recurrent_kimi_delta_attention")
    same(torch.cat(pieces, -2) @ v, library(*name, q, k, v, log_decay, beta), FLOAT32)
    same(torch.cat(pieces, -2), z(slice(0, n)))


@oracle("gated_deltanet", "library: transformers Qwen3-Next")
@pytest.mark.parametrize("n", [1, 16, 33, 100, 150])
@pytest.mark.parametrize("fastest", [0.05, 40.0])
def test_gated_deltanet_is_the_recurrence_of_transformers(n: int, fastest: float) -> None:
    """The naive forms of fla-core 0.6.0 in float64 differ by at most 2e-13, for betas up to 2."""
    pytest.importorskip("transformers")
    q, k, v, beta, log_decay = drawn(n, fastest)
    one = log_decay[..., 0]
    z = faded(one, reflected_in_blocks(8**-0.5 * q, beta[..., None] * k, k, beta))
    name = ("qwen3_next.modeling_qwen3_next", "torch_recurrent_gated_delta_rule")
    same(z(slice(0, n)).tril() @ v, library(*name, q, k, v, one, beta), FLOAT32)


@oracle("kimi_delta", "identity: Gated DeltaNet where all channels fade alike")
@pytest.mark.parametrize("n", [7, 100])
def test_kimi_delta_with_one_decay_is_gated_deltanet(n: int) -> None:
    q, k, _, beta, log_decay = drawn(n, 0.3)
    one, rows = log_decay[..., :1], slice(0, n)
    delta = faded(one[..., 0], reflected_in_blocks(q, beta[..., None] * k, k, beta))
    same(delta_rule(q, k, beta, one.expand_as(q))(rows), delta(rows).tril())


# -- as layers of a model ----------------------------------------------------------------------

LAYERS = {"mamba2": Mamba2, "gated_deltanet": GatedDeltaNet, "kimi_delta": KimiDelta}
each = pytest.mark.parametrize("made", LAYERS.values(), ids=list(LAYERS))


@each
def test_one_query_against_all_keys_gives_what_all_queries_give(
    made: type[LinearAttention],
) -> None:
    plan = shaken(made(MODEL, HEADS, WIDTH, KERNEL), 0.3).encode(call())
    whole = dense(plan)
    same(attend_from(plan, N - 1), whole[..., N - 1 :, :])
    same(dense(plan, 2), whole)


@each
def test_hidden_parts_begin_with_an_empty_state(made: type[LinearAttention]) -> None:
    """With a kernel of 1, so that nothing but the state could reach over."""
    encoding, a = shaken(made(MODEL, HEADS, WIDTH, 1), 0.3), call()
    part = torch.arange(N) >= 3
    cut = a.where(lambda rows: (part[rows, None] == part)[None, None])
    alone = replace(
        a,
        **{name: getattr(a, name)[..., 3:, :] for name in "qkvx"},
        q_pos=a.q_pos[:, 3:],
        k_pos=a.k_pos[:, 3:],
    )
    same(attend(encoding.encode(cut))[..., 3:, :], attend(encoding.encode(alone)))


@each
def test_what_cannot_be_is_refused(made: type[LinearAttention]) -> None:
    with pytest.raises(ConfigError, match="at least one, got 0"):
        made(MODEL, 0, WIDTH, KERNEL)
    with pytest.raises(ConfigError, match="at least 1, got 0"):
        made(MODEL, HEADS, WIDTH, 0)
    with pytest.raises(ConfigError, match="beyond which the state grows"):
        GatedDeltaNet(MODEL, HEADS, WIDTH, KERNEL, 3.0)


# -- patterns: a linear layer and a full one in turn -------------------------------------------

FULL = {"rope": RoPE(WIDTH), "partial_rope": PartialRoPE(WIDTH, 0.25), "nope": NoPE()}
TURNING = {"rope": WIDTH, "partial_rope": WIDTH // 4, "nope": 0}
"""The channels of a head that the full layers turn, the first ones."""
STATES = {"mamba2": of_mamba2, "gated_deltanet": of_gated_deltanet, "kimi_delta": of_kimi_delta}


def full_by_hand(a: Attention, channels: int) -> Tensor:
    """Softmax over products of vectors turned pair by pair, the base 10,000."""

    def turned(vector: list[float], place: float) -> list[float]:
        found, pairs = list(vector), channels // 2
        for m in range(pairs):
            angle = place * 10_000.0 ** (-m / pairs)
            re, im = vector[m], vector[m + pairs]
            found[m] = re * math.cos(angle) - im * math.sin(angle)
            found[m + pairs] = re * math.sin(angle) + im * math.cos(angle)
        return found

    q, k, pos = a.q.tolist(), a.k.tolist(), a.q_pos.tolist()
    score = by_pairs(
        a,
        lambda b, h, i, j: (
            a.scale * dot(turned(q[b][h][i], pos[b][i]), turned(k[b][h][j], pos[b][j]))
        ),
    )
    return outputs(a, score)


def marked() -> list[object]:
    return [
        pytest.param(
            linear, full, marks=oracle(f"{linear}_{full}", "double loop"), id=f"{linear}_{full}"
        )
        for linear in LAYERS
        for full in FULL
    ]


@pytest.mark.parametrize(("linear", "full"), marked())
def test_the_layers_of_a_hybrid_by_hand(linear: str, full: str) -> None:
    sizes = (f"model.num_heads={HEADS}", f"model.head_width={WIDTH}", f"model.width={MODEL}")
    run = setup(f"encoding={linear}_{full}", "model.num_layers=2", *sizes)
    a, (first, second) = call(), run.model().encodings
    first = shaken(first, 0.3)
    same(attend(first.encode(a)), layer(first, a, STATES[linear](first, a)))
    same(attend(second.double().encode(a)), full_by_hand(a, TURNING[full]))


@pytest.mark.parametrize("linear", LAYERS)
@pytest.mark.parametrize("full", FULL)
def test_hybrids_have_a_linear_layer_and_then_a_full_one(linear: str, full: str) -> None:
    run = setup(f"encoding={linear}_{full}", "model.num_layers=3", f"model.head_width={WIDTH}")
    a, alone = call(heads=run.composed.model.num_heads), LAYERS[linear]
    layers = list(run.model().double().encodings)
    for layer in (layers[0], layers[2]):
        assert type(layer) is alone
        assert [len(c.weight.mT) for c in layer.convolutions.values()] == [4, 4, 4]
        assert not layer.handles
        if linear == "gated_deltanet":
            assert layer.writing.strength == 1
    assert layers[0].norm.weight is not layers[2].norm.weight
    same(scores(layers[1], a), scores(FULL[full], a))
