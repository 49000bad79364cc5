"""RoPE turned by the content, and RoPE that turns values, compute their published formulas."""

from __future__ import annotations

import cmath
import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from loops import HEADS, POSITIONS, WIDTH, N, by_pairs, call, everywhere, given, same, scores
from rotations import BASE, KERNEL, MODEL, PAIRS, RANK, apart, grid, selective, stretched, wave
from torch import Tensor

from posbench.core.attention import Attention, attend
from posbench.encodings.key_offset import KeyOffset
from posbench.encodings.nope import NoPE
from posbench.encodings.partial_rope import PartialRoPE
from posbench.encodings.partial_vo_rope import PartialVORoPE
from posbench.encodings.rope import RoPE
from posbench.encodings.selective_rope import SelectiveRoPE
from posbench.encodings.vo_rope import VORoPE

# -- selective RoPE --------------------------------------------------------------------------------


def phi(encoding: SelectiveRoPE, x: list[list[float]]) -> list[list[list[float]]]:
    """[n][heads][pairs]: exp(beta) + conv(W2 W1 unit(x)), in sums over lists."""
    down, up = encoding.down.weight.tolist(), encoding.up.weight.tolist()
    conv, log_step = encoding.conv.weight.tolist(), encoding.log_step.tolist()
    projected = []
    for token in x:
        unit: list[float] = []
        for h in range(HEADS):
            part = token[h * WIDTH : (h + 1) * WIDTH]
            unit += [c / math.sqrt(sum(e * e for e in part)) for c in part]
        inner = [sum(w * u for w, u in zip(row, unit, strict=True)) for row in down]
        projected.append([sum(w * u for w, u in zip(row, inner, strict=True)) for row in up])
    steps = []
    for t in range(len(x)):
        summed = [
            sum(
                conv[c][0][KERNEL - 1 - back] * projected[t - back][c]
                for back in range(KERNEL)
                if t >= back
            )
            for c in range(HEADS * PAIRS)
        ]
        steps.append(
            [
                [math.exp(log_step[h][m]) + summed[h * PAIRS + m] for m in range(PAIRS)]
                for h in range(HEADS)
            ]
        )
    return steps


def selective_scores(
    a: Attention, encoding: SelectiveRoPE, theta: list[float], factor: float = 1.0
) -> Tensor:
    q, k, p = a.q.tolist(), a.k.tolist(), a.q_pos.tolist()
    steps = [phi(encoding, x) for x in a.x.tolist()]

    def between(b: int, h: int, m: int, i: int, j: int) -> float:
        """Phi_i - Phi_j: the steps of the tokens after the earlier of the two."""
        sign, low, high = (1, j, i) if j <= i else (-1, i, j)
        return sign * sum(
            steps[b][s][h][m] * (p[b][s] - p[b][s - 1]) for s in range(low + 1, high + 1)
        )

    def score(b: int, h: int, i: int, j: int) -> float:
        total = 0j
        for m in range(PAIRS):
            one, other = (complex(x[m], x[m + PAIRS]) for x in (q[b][h][i], k[b][h][j]))
            total += one * other.conjugate() * cmath.exp(1j * theta[m] * between(b, h, m, i, j))
        return factor * a.scale * total.real

    return by_pairs(a, score)


@pytest.mark.oracle("selective_rope", "double loop")
@everywhere
def test_selective_rope_adds_up_steps_read_from_the_tokens(positions: list[float]) -> None:
    a, encoding = call(positions), selective()
    same(scores(encoding, a), selective_scores(a, encoding, grid(PAIRS, BASE)), 1e-9)


@pytest.mark.oracle("selective_rope", "double loop")
def test_selective_rope_honours_stretches_and_their_factor() -> None:
    stretch, a, encoding = (1.0, 2.0, 3.5, math.inf), call(POSITIONS["with gaps"]), selective()
    theta = [t / s for t, s in zip(grid(PAIRS, BASE), stretch, strict=True)]
    same(
        scores(stretched(encoding, stretch, 1.3), a),
        selective_scores(a, encoding, theta, 1.3**2),
        1e-9,
    )


@pytest.mark.oracle("selective_rope", "identity: steps of 1 are RoPE")
@everywhere
def test_selective_rope_with_steps_of_one_is_rope(positions: list[float]) -> None:
    encoding = selective(
        log_step=torch.zeros(HEADS, PAIRS), **{"up.weight": torch.zeros(HEADS * PAIRS, RANK)}
    )
    for a in (
        call(positions),
        call(positions).at(call(positions).q_pos + 5, call(positions).k_pos),
    ):
        same(scores(encoding, a), scores(RoPE(WIDTH, BASE), a))


@pytest.mark.oracle("selective_rope", "published numbers")
def test_selective_rope_gives_the_scores_of_the_published_code() -> None:
    data: dict[str, Any] = json.loads(
        (Path(__file__).parent / "data" / "selective_rope.json").read_text()
    )
    heads, width, n, start = data["heads"], data["head_width"], data["n"], data["starts"]
    pairs = heads * width // 2
    encoding = SelectiveRoPE(
        heads, width, data["model_width"], data["rank"], data["kernel"], data["base"]
    )
    given(encoding, log_step=wave(heads, width // 2, start=start["bias"]))
    with torch.no_grad():
        encoding.down.weight.copy_(
            wave(data["rank"], data["model_width"], start=start["first projection"])
        )
        encoding.up.weight.copy_(wave(pairs, data["rank"], start=start["second projection"]))
        encoding.conv.weight.copy_(wave(pairs, 1, data["kernel"], start=start["convolution"]))
    q, k = (wave(1, n, heads, width, start=start[name]).transpose(1, 2) for name in ("q", "k"))
    pos = torch.arange(n)[None]
    a = Attention(q, k, q, wave(1, n, data["model_width"], start=start["x"]), pos, pos, scale=1.0)
    expected = torch.tensor([data["scores"]], dtype=torch.float64)
    same(
        encoding.encode(a).logits(slice(0, n)), expected, 1e-5
    )  # they add 1e-6 under the root of the length


def test_selective_rope_starts_near_rope_and_all_its_parameters_learn() -> None:
    with torch.random.fork_rng():
        torch.manual_seed(0)
        encoding = SelectiveRoPE(HEADS, WIDTH, MODEL).double()
    a = call()
    steps = encoding.steps(a.x)
    assert (
        steps.shape == (2, HEADS, N, PAIRS) and (steps - 1).abs().max() < 0.5 and steps.std() > 0.01
    )
    scores(encoding, a).square().sum().backward()
    for name, parameter in encoding.named_parameters():
        assert parameter.grad is not None and parameter.grad.abs().max() > 0, name


def test_selective_rope_sums_in_full_precision_whatever_the_precision_of_training() -> None:
    a = call(range(400))
    with torch.random.fork_rng():
        torch.manual_seed(0)
        encoding = SelectiveRoPE(HEADS, WIDTH, MODEL)
    half = replace(a, q=a.q.bfloat16(), k=a.k.bfloat16(), v=a.v.bfloat16(), x=a.x.bfloat16())
    with torch.autocast("cpu", torch.bfloat16):
        steps, rounded = encoding.steps(half.x), scores(encoding, half)
    assert steps.dtype == torch.float32 and rounded.dtype == torch.bfloat16
    whole = replace(a, q=half.q.double(), k=half.k.double(), x=half.x.double())
    exact = scores(encoding.double(), whole)
    assert (
        rounded.double() - exact
    ).abs().max() < 0.05  # that of q and k alone; sums in bfloat16 are off by radians


# -- vo_rope ---------------------------------------------------------------------------------------


def turned_values(a: Attention, weights: Tensor, theta: list[float]) -> Tensor:
    """sum_j w_ij v_jm e^{i (j - i) theta_m}, over the keys up to the query."""
    v, w, i_pos, j_pos = a.v.tolist(), weights.tolist(), a.q_pos.tolist(), a.k_pos.tolist()
    expected = torch.zeros_like(a.v)
    for b in range(a.v.shape[0]):
        for h in range(a.num_heads):
            for i in range(a.num_queries):
                for m, t in enumerate(theta):
                    total = 0j
                    for j in range(i + 1):
                        value = complex(v[b][h][j][m], v[b][h][j][m + PAIRS])
                        total += (
                            w[b][h][i][j] * value * cmath.exp(1j * (j_pos[b][j] - i_pos[b][i]) * t)
                        )
                    expected[b, h, i, m], expected[b, h, i, m + PAIRS] = total.real, total.imag
    return expected


def causal(z: Tensor) -> Tensor:
    return z.masked_fill(torch.ones_like(z).triu(1).bool(), -torch.inf).softmax(-1)


@pytest.mark.oracle("vo_rope", "double loop")
@everywhere
def test_vo_rope_turns_values_by_the_distance(positions: list[float]) -> None:
    for a in (call(positions), apart(call(positions))):
        encoding = VORoPE(WIDTH, BASE)
        same(scores(encoding, a), scores(RoPE(WIDTH, BASE), a))
        expected = turned_values(a, causal(scores(RoPE(WIDTH, BASE), a)), grid(PAIRS, BASE))
        allowed = torch.ones(1, 1, N, N, dtype=torch.bool)  # a mask, so that rows come in blocks
        by_rows = replace(encoding.encode(a), masks=(lambda rows: allowed[:, :, rows],))  # noqa: B023
        for plan in (encoding.encode(a), by_rows):
            for block in (1, 3, N):
                same(attend(plan, block), expected)


@pytest.mark.oracle("vo_rope", "double loop")
def test_vo_rope_keeps_the_length_of_values_under_a_factor() -> None:
    """A factor on cosine and sine is a temperature of the scores."""
    stretch, a = (1.0, 2.0, 3.5, math.inf), call(POSITIONS["with gaps"])
    theta = [t / s for t, s in zip(grid(PAIRS, BASE), stretch, strict=True)]
    host = stretched(RoPE(WIDTH, BASE), stretch, 1.3)
    expected = turned_values(a, causal(scores(host, a)), theta)
    same(attend(stretched(VORoPE(WIDTH, BASE), stretch, 1.3).encode(a)), expected)


@pytest.mark.oracle("vo_rope", "identity: at one position values stay")
def test_vo_rope_at_distance_zero_leaves_values_alone() -> None:
    a = call([3] * N)
    same(attend(VORoPE(WIDTH, BASE).encode(a)), attend(NoPE().encode(a)))


def test_vo_rope_offers_no_distance() -> None:
    """Keys with several positions at once have no one rotation to undo."""
    assert VORoPE(WIDTH).handles == RoPE(WIDTH).handles - {"distance"}


# -- vo_rope on a part of the channels -------------------------------------------------------------


def partly_turned_values(a: Attention, weights: Tensor, theta: list[float]) -> Tensor:
    """As `turned_values` on the first channels, and plain sums on the rest."""
    v, w, i_pos, j_pos = a.v.tolist(), weights.tolist(), a.q_pos.tolist(), a.k_pos.tolist()
    half = len(theta)
    expected = torch.zeros_like(a.v)
    for b in range(a.v.shape[0]):
        for h in range(a.num_heads):
            for i in range(a.num_queries):
                for j in range(i + 1):
                    share = w[b][h][i][j]
                    for m, t in enumerate(theta):
                        turn = cmath.exp(1j * (j_pos[b][j] - i_pos[b][i]) * t)
                        total = share * complex(v[b][h][j][m], v[b][h][j][m + half]) * turn
                        expected[b, h, i, m] += total.real
                        expected[b, h, i, m + half] += total.imag
                    for c in range(2 * half, WIDTH):
                        expected[b, h, i, c] += share * v[b][h][j][c]
    return expected


@pytest.mark.oracle("partial_vo_rope", "double loop")
@everywhere
@pytest.mark.parametrize("pairs", [1, 3])
def test_partial_vo_rope_turns_some_channels_of_values(pairs: int, positions: list[float]) -> None:
    for a in (call(positions), apart(call(positions))):
        encoding, host = (
            made(WIDTH, 2 * pairs / WIDTH, BASE) for made in (PartialVORoPE, PartialRoPE)
        )
        same(scores(encoding, a), scores(host, a))
        expected = partly_turned_values(a, causal(scores(host, a)), grid(pairs, BASE))
        allowed = torch.ones(1, 1, N, N, dtype=torch.bool)
        by_rows = replace(encoding.encode(a), masks=(lambda rows: allowed[:, :, rows],))  # noqa: B023
        for plan in (encoding.encode(a), by_rows):
            for block in (1, 3, N):
                same(attend(plan, block), expected)


@pytest.mark.oracle("partial_vo_rope", "double loop")
def test_partial_vo_rope_keeps_the_length_of_values_under_a_factor() -> None:
    stretch, a = (1.0, 3.5), call(POSITIONS["with gaps"])
    theta = [t / s for t, s in zip(grid(2, BASE), stretch, strict=True)]
    host, encoding = (
        stretched(made(WIDTH, 0.5, BASE), stretch, 1.3) for made in (PartialRoPE, PartialVORoPE)
    )
    same(attend(encoding.encode(a)), partly_turned_values(a, causal(scores(host, a)), theta))


@pytest.mark.oracle("partial_vo_rope", "identity: on all channels it is vo_rope")
@everywhere
def test_partial_vo_rope_on_all_channels_is_vo_rope(positions: list[float]) -> None:
    a = call(positions)
    plans = (PartialVORoPE(WIDTH, 1.0, BASE).encode(a), VORoPE(WIDTH, BASE).encode(a))
    same(attend(plans[0]), attend(plans[1]))
    assert PartialVORoPE.handles == VORoPE.handles


@pytest.mark.oracle("partial_vo_rope", "library: transformers DeepSeek V4")
@pytest.mark.parametrize("pairs", [1, 2, 4])
def test_partial_vo_rope_is_the_rotation_of_deepseek_v4(pairs: int) -> None:
    """There the last channels turn, neighbours in pairs, and keys serve as values."""
    module = pytest.importorskip("transformers.models.deepseek_v4.modeling_deepseek_v4")
    a = call()
    a = replace(a, v=a.k)
    r = 2 * pairs
    order = [*range(r, WIDTH), *(c + half for c in range(pairs) for half in (0, pairs))]
    angles = a.q_pos[..., None].double() * torch.tensor(grid(pairs, BASE)).double()
    cos, sin = angles.cos().float(), angles.sin().float()

    def turned(x: Tensor, sin: Tensor) -> Tensor:
        return module.apply_rotary_pos_emb(x.float()[..., order], cos, sin)

    q, k = turned(a.q, sin), turned(a.k, sin)
    theirs = module.apply_rotary_pos_emb(causal(a.scale * q @ k.mT) @ k, cos, -sin)
    ours = attend(PartialVORoPE(WIDTH, r / WIDTH, BASE).encode(a))[..., order]
    same(ours.float(), theirs, 1e-4)


# -- partial key offset ----------------------------------------------------------------------------


def offset_scores(a: Attention, theta: list[float], factor: float = 1.0) -> Tensor:
    """Pairs that turn, and other channels with the key of the token before."""
    q, k, i_pos, j_pos = a.q.tolist(), a.k.tolist(), a.q_pos.tolist(), a.k_pos.tolist()
    half = len(theta)

    def score(b: int, h: int, i: int, j: int) -> float:
        one, other, before = q[b][h][i], k[b][h][j], k[b][h][j - 1 if j else 0]
        total = 0.0
        for m, t in enumerate(theta):
            pair = complex(one[m], one[m + half]) * complex(other[m], -other[m + half])
            total += factor * (pair * cmath.exp(1j * (i_pos[b][i] - j_pos[b][j]) * t)).real
        return a.scale * (total + sum(one[c] * before[c] for c in range(2 * half, WIDTH)))

    return by_pairs(a, score)


@pytest.mark.oracle("key_offset", "double loop")
@everywhere
@pytest.mark.parametrize("pairs", [1, 2, 3])
def test_key_offset_matches_the_token_before(pairs: int, positions: list[float]) -> None:
    for a in (call(positions), apart(call(positions))):
        encoding = KeyOffset(WIDTH, 2 * pairs / WIDTH, BASE)
        expected = offset_scores(a, grid(pairs, BASE))
        same(scores(encoding, a), expected, 1e-9)
        same(attend(encoding.encode(a)), causal(expected) @ a.v, 1e-9)


@pytest.mark.oracle("key_offset", "double loop")
def test_key_offset_leaves_unrotated_channels_out_of_a_factor() -> None:
    stretch, a = (1.0, 3.5), call(POSITIONS["with gaps"])
    theta = [t / s for t, s in zip(grid(2, BASE), stretch, strict=True)]
    encoding = stretched(KeyOffset(WIDTH, 0.5, BASE), stretch, 1.3)
    same(scores(encoding, a), offset_scores(a, theta, 1.3**2), 1e-9)


@pytest.mark.oracle("key_offset", "identity: on all channels it is RoPE, and where keys repeat")
def test_key_offset_of_nothing_is_rope() -> None:
    a = call()
    same(scores(KeyOffset(WIDTH, 1.0, BASE), a), scores(RoPE(WIDTH, BASE), a))
    alike = replace(a, k=a.k[..., :1, :].expand_as(a.k))
    same(scores(KeyOffset(WIDTH, 0.5), alike), scores(PartialRoPE(WIDTH, 0.5), alike))


@pytest.mark.oracle("key_offset", "identity: one layer is an induction head")
def test_key_offset_finds_what_followed() -> None:
    """A query that equals an earlier key attends to the token after it."""
    a = call(range(5))
    rows = torch.eye(WIDTH, dtype=torch.float64)[[4, 5, 6, 7, 5]]
    q = k = (rows * (torch.arange(WIDTH) >= 4)).expand(*a.q.shape[:2], -1, -1)
    plan = KeyOffset(WIDTH, 0.5).encode(replace(a, q=q, k=k))
    assert (plan.logits(slice(4, 5)).argmax(-1) == 2).all()
