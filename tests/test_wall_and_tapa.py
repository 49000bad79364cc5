"""Encodings whose content score is a formula of its own compute it: Wall attention and TAPA."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch
from authors import FLOAT32, MODEL, published, tensor
from loops import HEADS, POSITIONS, WIDTH, N, by_pairs, call, everywhere, same, scores, shaken
from rotations import wave
from torch import Tensor
from vectors import linear, sigmoid

from posbench.base.errors import ConfigError
from posbench.core.attention import Attention, attend, dense
from posbench.encodings.fox import FoX
from posbench.encodings.nope import NoPE
from posbench.encodings.tapa import TAPA
from posbench.encodings.wall import CHUNK, Wall
from posbench.encodings.wall_blocked import BlockedWall

oracle = pytest.mark.oracle


# -- Wall attention --------------------------------------------------------------------------------


def multiplied(encoding: Wall, a: Attention) -> Tensor:
    """The scores by the gates themselves, one token after the other; 0 for later keys."""
    gates = [
        [[sigmoid(u) for u in token] for token in tokens] for tokens in linear(encoding.gate, a.x)
    ]
    q, k, width = a.q.tolist(), a.k.tolist(), a.q.shape[-1]

    def score(b: int, h: int, i: int, j: int) -> float:
        total = 0.0
        for m in range(width if j <= i else 0):
            kept = math.prod(gates[b][s][h * width + m] for s in range(j + 1, i + 1))
            total += q[b][h][i][m] * kept * k[b][h][j][m]
        return a.scale * total

    return by_pairs(a, score)


@pytest.mark.parametrize(
    "cls",
    [
        pytest.param(Wall, marks=oracle("wall", "double loop")),
        pytest.param(BlockedWall, marks=oracle("wall_blocked", "double loop")),
    ],
)
@everywhere
def test_wall_attention_multiplies_each_channel_by_the_gates_in_between(
    positions: list[float], cls: type[Wall]
) -> None:
    a, encoding = call(positions), shaken(cls(MODEL, HEADS, WIDTH, 3.0))
    same(scores(encoding, a), multiplied(encoding, a))


@oracle("wall", "double loop: over chunks")
@pytest.mark.parametrize("n", [CHUNK - 1, CHUNK + 1, 2 * CHUNK + 5])
def test_wall_attention_is_the_same_in_any_chunk(n: int) -> None:
    a, encoding = call(range(n), heads=2, width=2), shaken(Wall(4, 2, 2, 3.0))
    expected, plan = multiplied(encoding, a), encoding.encode(a)
    for rows in (slice(0, n), slice(3, CHUNK + 2), slice(n - 1, n), slice(5, None)):
        same(plan.logits(rows), expected[:, :, rows])


@oracle("wall", "published numbers")
def test_wall_attention_gives_the_numbers_of_flash_linear_attention() -> None:
    data = published("wall")
    heads, width, n, start = data["heads"], data["head_width"], data["n"], data["starts"]
    q, k, v = (wave(1, n, heads, width, start=start[name]).transpose(1, 2) for name in "qkv")
    encoding = Wall(heads * width, heads, width, 5.0).double()
    with torch.no_grad():
        encoding.gate.weight.copy_(2 * torch.eye(heads * width))
        encoding.gate.bias.fill_(1.0)
    x = wave(1, n, heads, width, start=start["logits"]).flatten(-2)
    pos = torch.arange(n)[None]
    a = Attention(q, k, v, x, pos, pos, scale=0.5)
    same(attend(encoding.encode(a)), tensor(data["output"]), FLOAT32)


@oracle("wall", "identity: open gates are NoPE")
def test_wall_attention_with_open_gates_is_nope() -> None:
    a, encoding = call(), Wall(MODEL, HEADS, WIDTH, 3.0).double()
    with torch.no_grad():
        encoding.gate.weight.zero_()
        encoding.gate.bias.fill_(1e3)
    same(scores(encoding, a), scores(NoPE(), a).tril())


def test_one_gate_for_all_channels_multiplies_where_fox_adds() -> None:
    a, wall, fox = call(), Wall(MODEL, HEADS, WIDTH, 3.0).double(), FoX(MODEL, HEADS).double()
    with torch.no_grad():
        for layer, width in ((wall.gate, WIDTH), (fox.gate, 1)):
            layer.weight.copy_(wave(HEADS, MODEL, start=1).repeat_interleave(width, 0))
            layer.bias.fill_(0.3)
    added = scores(fox, a) - scores(NoPE(), a)
    same(scores(wall, a), (scores(NoPE(), a) * added.clamp(max=0).exp()).tril())


def test_memory_is_the_number_of_tokens_after_which_a_channel_is_down_to_a_share() -> None:
    gates = Wall(MODEL, HEADS, WIDTH, 29.0).gate.bias.detach().double().sigmoid()
    same(gates**29, torch.full_like(gates, math.exp(-1)), 1e-5)
    assert Wall(MODEL, HEADS, WIDTH, 2981.0).gate.bias[0].item() == pytest.approx(8, abs=1e-3)


def test_gates_that_close_fade_without_overflow() -> None:
    """Sums of logarithms over all tokens are in the thousands, in float32."""
    torch.manual_seed(0)
    n = 300
    a, encoding = call(range(n)), Wall(MODEL, HEADS, WIDTH, 3.0)
    a = replace(a, **{field: getattr(a, field).float() for field in ("q", "k", "v", "x")})
    with torch.no_grad():
        encoding.gate.weight.mul_(100)
    assert (encoding.gate(a.x).sigmoid() < 1e-20).any()
    found = scores(encoding, a)
    same(found.double(), scores(encoding.double(), replace(a, x=a.x.double())), 1e-4)
    found.sum().backward()
    assert torch.isfinite(encoding.gate.weight.grad).all()
    same(found.diagonal(dim1=-2, dim2=-1), scores(NoPE(), a).diagonal(dim1=-2, dim2=-1), 1e-5)


def test_what_fades_is_not_rounded_under_mixed_precision() -> None:
    torch.manual_seed(0)
    encoding, a = Wall(MODEL, HEADS, WIDTH, 30.0), call(range(300))
    a = replace(a, **{field: getattr(a, field).float() for field in ("q", "k", "v", "x")})
    exact = encoding.encode(a).logits(slice(280, 300))
    with torch.autocast("cpu", torch.bfloat16):
        mixed = encoding.encode(a).logits(slice(280, 300))
    assert mixed.dtype == torch.float32 and torch.equal(mixed, exact)
    narrow = replace(a, **{field: getattr(a, field).bfloat16() for field in ("q", "k", "v", "x")})
    wide = replace(a, **{field: getattr(narrow, field).double() for field in ("q", "k", "v", "x")})
    same(
        encoding.encode(narrow).logits(slice(280, 300)).double(),
        encoding.double().encode(wide).logits(slice(280, 300)),
        1e-4,
    )


@pytest.mark.parametrize(("heads", "width", "memory"), [(0, 8, 3.0), (2, 0, 3.0), (2, 8, 0.0)])
def test_wall_attention_refuses_what_has_no_gate(heads: int, width: int, memory: float) -> None:
    with pytest.raises(ConfigError, match=r"at least one|more than 0"):
        Wall(16, heads, width, memory)


def test_wall_attention_runs_dense() -> None:
    plan = shaken(Wall(MODEL, HEADS, WIDTH, 3.0)).encode(call(POSITIONS["with gaps"]))
    assert plan.path == "dense"
    same(attend(plan, 3), dense(plan, N))


# -- TAPA ------------------------------------------------------------------------------------------


@oracle("tapa", "double loop")
@pytest.mark.parametrize(("share", "power"), [(0.5, 0.1), (0.25, 1.0), (0.75, 0.5)])
@everywhere
def test_tapa_swings_with_a_power_of_the_distance(
    positions: list[float], share: float, power: float
) -> None:
    a, amplitudes = call(positions), int(share * WIDTH)
    q, k, p = a.q.tolist(), a.k.tolist(), a.q_pos.tolist()

    def score(b: int, h: int, i: int, j: int) -> float:
        products = [x * y for x, y in zip(q[b][h][i], k[b][h][j], strict=True)]
        first = a.scale / math.sqrt(share) * sum(products[:amplitudes])
        turns = a.scale / math.sqrt(1 - share) * sum(products[amplitudes:])
        return first * math.cos(2 * math.pi * abs(p[b][i] - p[b][j]) ** power * turns)

    same(scores(TAPA(WIDTH, share, power), a), by_pairs(a, score), 1e-9)


@oracle("tapa", "equation 9 with the matrices of equation 13")
def test_tapa_is_the_general_form_with_its_two_matrices() -> None:
    """At the paper's scale, 1 / root of the width of a head."""
    a = replace(call(POSITIONS["with gaps"]), scale=WIDTH**-0.5)
    share, power = 0.25, 0.3
    front = torch.tensor([1.0] * 2 + [0.0] * 6, dtype=torch.float64)
    m, n = (
        torch.diag(part) / math.sqrt(width * WIDTH)
        for part, width in ((front, share), (1 - front, 1 - share))
    )
    distance = (a.q_pos[:, None, :, None] - a.k_pos[:, None, None, :]).abs().double()
    phase = torch.einsum("bhid,de,bhje->bhij", a.q, n, a.k)
    amplitude = torch.einsum("bhid,de,bhje->bhij", a.q, m, a.k)
    expected = amplitude * torch.cos(2 * math.pi * distance**power * phase)
    same(scores(TAPA(WIDTH, share, power), a), expected, 1e-9)


@oracle("tapa", "identity: equal positions and orthogonal phases are NoPE of the amplitudes")
def test_tapa_without_distance_or_phase_is_nope_of_the_amplitudes() -> None:
    a = call(POSITIONS["with gaps"])
    half = WIDTH // 2
    plain = replace(a, q=a.q[..., :half], k=a.k[..., :half], scale=a.scale * math.sqrt(2))
    still = a.at(0 * a.q_pos, 0 * a.k_pos)
    same(scores(TAPA(WIDTH), still), scores(NoPE(), plain))
    silent = replace(a, q=torch.cat((a.q[..., :half], 0 * a.q[..., half:]), -1))
    same(scores(TAPA(WIDTH), silent), scores(NoPE(), plain))


def test_the_mean_score_of_tapa_falls_with_the_distance_and_its_spread_does_not() -> None:
    """Theorems 3.2 and 3.3, for amplitudes and phases with a common mean."""
    generator = torch.Generator().manual_seed(0)
    q, k = (
        torch.randn(1, 1, 4000, 4, generator=generator, dtype=torch.float64) + 1 for _ in range(2)
    )
    pos = torch.zeros(1, 4000).long()
    means, spreads = [], []
    for distance in (0, 1, 50, 5000):
        a = Attention(q, k, k, q[:, 0], pos + distance, pos, 0.5)
        z = TAPA(4, power=1.0).encode(a).logits(slice(0, 200))
        means.append(z.mean().abs().item())
        spreads.append(z.std().item())
    assert means[0] > 1 and max(means[2:]) < 0.05
    assert spreads[3] > 0.5 * spreads[0]


def test_the_phases_of_tapa_are_not_rounded_under_mixed_precision() -> None:
    a = call(range(300))
    a = replace(a, **{field: getattr(a, field).float() for field in ("q", "k", "v", "x")})
    exact = TAPA(WIDTH).encode(a).logits(slice(280, 300))
    with torch.autocast("cpu", torch.bfloat16):
        mixed = TAPA(WIDTH).encode(a).logits(slice(280, 300))
    assert mixed.dtype == torch.float32 and torch.equal(mixed, exact)


@pytest.mark.parametrize("share", [0.0, 1.0, 0.05])
def test_tapa_needs_channels_for_amplitude_and_phase(share: float) -> None:
    with pytest.raises(ConfigError, match=r"share is that of the channels for the amplitude"):
        TAPA(8, share)
    with pytest.raises(ConfigError, match=r"power is that of the distance, above 0, got 0"):
        TAPA(8, power=0)
