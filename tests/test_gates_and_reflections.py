"""Forget gates and PaTH, which accumulate over the tokens between query and key, compute their
published formulas, projections included.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

import pytest
import torch
from authors import FLOAT32, MODEL, published, published_call, tensor
from loops import (
    BATCH,
    HEADS,
    SCALE,
    WIDTH,
    N,
    Score,
    bias_of,
    by_pairs,
    call,
    everywhere,
    outputs,
    plus,
    same,
    scores,
    shaken,
)
from torch import Tensor, nn
from vectors import dot, linear, sigmoid

from posbench.base.errors import ConfigError
from posbench.core.attention import Attention, attend, dense
from posbench.encodings import path
from posbench.encodings.alibi import ALiBi
from posbench.encodings.cable import Cable
from posbench.encodings.cable_open import OpenCable
from posbench.encodings.fox import FoX
from posbench.encodings.fox_pro import FoXPro
from posbench.encodings.nope import NoPE
from posbench.encodings.path import PaTH, reflected
from posbench.encodings.path_blocked import BlockedPaTH
from posbench.encodings.path_fox import PaTHFoX
from posbench.encodings.path_fox_blocked import BlockedPaTHFoX
from posbench.encodings.per_row_dda import PerRowForgetting

oracle = pytest.mark.oracle


# -- forget gates ----------------------------------------------------------------------------------


def between(log_gates: list[list[list[float]]]) -> Score:
    """The sum of the logarithms of gates [batch][token][head] after j up to i; its negative for a
    later key.
    """

    def bias(b: int, h: int, i: int, j: int) -> float:
        total = sum(log_gates[b][s][h] for s in range(min(i, j) + 1, max(i, j) + 1))
        return total if j <= i else -total

    return bias


def apply(
    function: Callable[[float], float], values: list[list[list[float]]]
) -> list[list[list[float]]]:
    return [[[function(value) for value in row] for row in rows] for rows in values]


@oracle("fox", "double loop")
@everywhere
def test_fox_adds_the_logarithms_of_the_gates_in_between(positions: list[float]) -> None:
    a, encoding = call(positions), shaken(FoX(MODEL, HEADS))
    gates = apply(lambda u: math.log(sigmoid(u)), linear(encoding.gate, a.x))
    same(scores(encoding, a), plus(a, between(gates)))


@pytest.mark.slow
@oracle("fox", "library: x-transformers DataDependentAlibi")
@pytest.mark.parametrize("bias_init", [5.0, -1.0])
def test_fox_is_x_transformers(bias_init: float) -> None:
    library = pytest.importorskip("x_transformers.x_transformers")
    theirs = library.DataDependentAlibi(MODEL, HEADS, bias_init=bias_init).double()
    a, ours = call(range(N)), FoX(MODEL, HEADS, bias_init).double()
    ours.gate.load_state_dict({**theirs.to_forget_gates[0].state_dict(), "bias": ours.gate.bias})
    same(bias_of(ours, a), theirs(a.x))


def constant(encoding: FoX, logits: list[float]) -> FoX:
    """Gates that do not look at the content."""
    encoding = encoding.double()
    with torch.no_grad():
        encoding.gate.weight.zero_()
        encoding.gate.bias.copy_(tensor(logits))
    return encoding


@oracle("fox", "identity: constant gates are ALiBi")
def test_fox_with_constant_gates_is_alibi() -> None:
    a, alibi = call(range(N)), ALiBi(HEADS)
    fox = constant(FoX(MODEL, HEADS), [-math.log(math.exp(slope) - 1) for slope in alibi.slopes])
    same(scores(fox, a), scores(alibi, a))


@oracle("fox", "identity: open gates are NoPE")
def test_fox_with_open_gates_is_nope() -> None:
    a = call(range(N))
    same(scores(constant(FoX(MODEL, HEADS), [800.0] * HEADS), a), scores(NoPE(), a))


@pytest.mark.parametrize("make", [FoX, Cable])
def test_forget_gates_run_fused_in_two_channels(make: type[FoX]) -> None:
    plan = shaken(make(MODEL, HEADS)).encode(call(range(N)))
    assert plan.path == "fused" and plan.bias_q is not None and plan.bias_q.shape[-1] == 2
    same(attend(plan), dense(plan))


def test_fox_starts_with_a_memory_of_150_tokens() -> None:
    gate = FoX(MODEL, HEADS).gate.bias.sigmoid()
    assert (-1 / gate.log()).tolist() == pytest.approx([149] * HEADS, rel=0.01)
    assert FoX(MODEL, HEADS, -2.0).gate.bias.tolist() == [-2.0] * HEADS


def mixed_with_the_one_before(
    values: list[list[list[list[float]]]], alpha: list[list[list[float]]], first: int
) -> list[list[list[list[float]]]]:
    """[batch][head][token][channel] by gates [batch][token][two heads], those of k or of v."""
    return [
        [
            [
                [
                    alpha[b][t][first + h] * (tokens[t - 1][c] if t else 0.0)
                    + (1 - alpha[b][t][first + h]) * tokens[t][c]
                    for c in range(len(tokens[t]))
                ]
                for t in range(len(tokens))
            ]
            for h, tokens in enumerate(heads)
        ]
        for b, heads in enumerate(values)
    ]


@oracle("fox_pro", "double loop")
@everywhere
def test_fox_pro_shifts_keys_and_values_and_normalises_what_it_found(
    positions: list[float],
) -> None:
    a, encoding = call(positions), shaken(FoXPro(MODEL, HEADS, WIDTH))
    alpha = apply(sigmoid, linear(encoding.shift, a.x))
    k, v = (
        tensor(mixed_with_the_one_before(side.tolist(), alpha, first))
        for side, first in ((a.k, 0), (a.v, HEADS))
    )
    shifted = replace(a, k=k, v=v)
    gates = apply(lambda u: math.log(sigmoid(u)), linear(encoding.gate, a.x))
    z = plus(shifted, between(gates))
    same(scores(encoding, a), z)
    found = outputs(shifted, z).tolist()
    scale = encoding.output_scale.tolist()
    expected = [
        [
            [
                [
                    scale[h][0][c] * number / math.sqrt(sum(x * x for x in row) / WIDTH + 1e-6)
                    for c, number in enumerate(row)
                ]
                for row in rows
            ]
            for h, rows in enumerate(heads)
        ]
        for heads in found
    ]
    for way in (attend, dense):
        same(way(encoding.encode(a)), tensor(expected))


@oracle("fox_pro", "identity: without shift and norm it is FoX")
def test_fox_pro_without_shift_is_fox_of_length_one() -> None:
    a, encoding, plain = call(range(N)), FoXPro(MODEL, HEADS, WIDTH).double(), FoX(MODEL, HEADS)
    plain.gate.double().load_state_dict(encoding.gate.state_dict())
    x = torch.ones_like(a.x) / a.x.shape[-1]
    with torch.no_grad():
        encoding.shift.weight.fill_(-800.0)
    closed = replace(a, x=x)
    same(scores(encoding, closed), scores(plain, closed))
    out = attend(plain.encode(closed))
    size = out.square().mean(-1, keepdim=True) + 1e-6
    same(attend(encoding.encode(closed)), out / size.sqrt())


def test_fox_pro_starts_as_its_parts_do() -> None:
    wide = FoXPro(512, 4, 16)
    assert wide.gate.bias.tolist() == [5.0] * 4 and bool((wide.output_scale == 1).all())
    assert wide.shift.weight.std().item() == pytest.approx(512**-0.5, rel=0.1)
    assert FoXPro(8, 2, 4, bias_init=-1.0).gate.bias.tolist() == [-1.0] * 2


@oracle("cable", "double loop")
@everywhere
def test_cable_subtracts_the_softplus_of_the_tokens_in_between(positions: list[float]) -> None:
    a, encoding = call(positions), shaken(Cable(MODEL, HEADS))
    gates = apply(lambda u: -math.log(1 + math.exp(u)), linear(encoding.gate, a.x))
    same(scores(encoding, a), plus(a, between(gates)))


@oracle("cable", "identity: FoX with the gate's input negated")
def test_cable_is_fox_with_the_opposite_gate() -> None:
    a, cable, fox = call(range(N)), shaken(Cable(MODEL, HEADS)), FoX(MODEL, HEADS).double()
    with torch.no_grad():
        for ours, theirs in zip(cable.gate.parameters(), fox.gate.parameters(), strict=True):
            theirs.copy_(-ours)
    same(scores(cable, a), scores(fox, a))


@oracle("cable", "published numbers")
def test_cable_gives_the_authors_numbers() -> None:
    data = published("cable")
    a = published_call(data, 1.0, tensor(data["x"]))
    encoding = Cable(4, 2).double()
    encoding.gate.load_state_dict({name: tensor(data[name]) for name in ("weight", "bias")})
    same(attend(encoding.encode(a)), tensor(data["output"]), FLOAT32)


def test_cable_starts_near_alibi_with_slope_ln_2() -> None:
    with torch.random.fork_rng():
        torch.manual_seed(0)
        gate = Cable(100, 50).gate
    assert (gate.bias == 0).all() and gate.weight.std().item() == pytest.approx(0.02, rel=0.05)
    alibi = -math.log(2) * call(range(N)).offset(slice(0, N)).double().expand(BATCH, HEADS, N, N)
    same(bias_of(constant(Cable(MODEL, HEADS), [0.0] * HEADS), call(range(N))), alibi)


@oracle("cable_open", "double loop")
@everywhere
def test_open_cable_is_cable_from_another_start(positions: list[float]) -> None:
    a, encoding = call(positions), shaken(OpenCable(MODEL, HEADS))
    gates = apply(lambda u: -math.log(1 + math.exp(u)), linear(encoding.gate, a.x))
    same(scores(encoding, a), plus(a, between(gates)))


@oracle("cable_open", "identity: starts as FoX, where no token is read")
def test_open_cable_starts_as_fox_does() -> None:
    for openness in (0.0, 5.0):
        ours, theirs = OpenCable(MODEL, HEADS, openness), FoX(MODEL, HEADS, openness)
        with torch.no_grad():
            for each in (ours, theirs):
                each.gate.weight.zero_()
        a = call(range(N))
        same(bias_of(ours.double(), a), bias_of(theirs.double(), a), 1e-6)
    with torch.random.fork_rng():
        torch.manual_seed(0)
        gate = OpenCable(100, 50).gate
    assert gate.bias.tolist() == [-5.0] * 50
    assert gate.weight.std().item() == pytest.approx(0.02, rel=0.05)
    with pytest.raises(ConfigError, match="0 or more, got -1"):
        OpenCable(MODEL, HEADS, -1.0)


GATE = 5  # channels of the gates in these tests


@oracle("per_row_dda", "double loop")
@everywhere
def test_per_row_gates_are_made_by_query_and_key(positions: list[float]) -> None:
    """Key included, query not; a later key has the empty sum."""
    a, encoding = call(positions), shaken(PerRowForgetting(MODEL, HEADS, GATE))
    both = linear(encoding.gates, a.x)

    def part(which: int, b: int, h: int, i: int) -> list[float]:
        start = (which * HEADS + h) * GATE
        return both[b][i][start : start + GATE]

    def bias(b: int, h: int, i: int, j: int) -> float:
        logits = [dot(part(0, b, h, i), part(1, b, h, s)) / math.sqrt(GATE) for s in range(j, i)]
        return sum(-math.log(1 + math.exp(-u)) for u in logits)

    same(scores(encoding, a), plus(a, bias))


@oracle("per_row_dda", "library: x-transformers PerRowDataDependentAlibi")
def test_per_row_gates_are_x_transformers() -> None:
    library = pytest.importorskip("x_transformers.x_transformers")
    theirs = library.PerRowDataDependentAlibi(MODEL, HEADS, dim_head=GATE).double()
    a, ours = call(range(N)), PerRowForgetting(MODEL, HEADS, GATE).double()
    ours.gates.load_state_dict(theirs.to_forget_gates[0].state_dict())
    same(bias_of(ours, a), theirs(a.x))


@oracle("per_row_dda", "identity: half-open gates are ALiBi with slope ln 2")
def test_half_open_per_row_gates_are_alibi() -> None:
    a, encoding = call(range(N)), PerRowForgetting(MODEL, HEADS, GATE).double()
    with torch.no_grad():
        encoding.gates.weight.zero_()
    expected = -math.log(2) * a.offset(slice(0, N)).clamp(min=0).double()
    same(bias_of(encoding, a), expected.expand(BATCH, HEADS, N, N))


# -- PaTH ------------------------------------------------------------------------------------------

RANK, KERNEL = 5, 3
Vectors = list[list[list[list[float]]]]  # [batch][head][token][channel]


def running(
    q: list[float], k: list[list[float]], w: list[list[float]], beta: list[float], i: int
) -> list[float]:
    """<q, k_j> for all j: the query is reflected by every token it passes on its way back from
    i.
    """
    found = [dot(q, key) for key in k]  # a later key: nothing lies in between
    for s in range(i, -1, -1):
        found[s] = dot(q, k[s])
        share = beta[s] * dot(q, w[s])
        q = [x - share * y for x, y in zip(q, w[s], strict=True)]
    return found


def reflections(encoding: PaTH, a: Attention) -> tuple[Vectors, list[list[list[float]]]]:
    """W and beta of every token, from the projections."""
    low = torch.tensor(linear(encoding.down, a.x), dtype=torch.float64)
    high, taps = linear(encoding.up, low), encoding.conv.weight[:, 0].tolist()
    kernel = len(taps[0])

    def one(b: int, h: int, s: int) -> list[float]:
        values = []
        for c in range(h * WIDTH, (h + 1) * WIDTH):
            u = sum(
                taps[c][t] * high[b][s - kernel + 1 + t][c]
                for t in range(kernel)
                if s - kernel + 1 + t >= 0
            )
            values.append(u * sigmoid(u))
        length = math.sqrt(dot(values, values))
        return [value / length for value in values]

    tokens, batch = range(a.num_queries), range(len(high))
    strength = apply(lambda u: 2 * sigmoid(u), linear(encoding.strength, a.x))
    w = [[[one(b, h, s) for s in tokens] for h in range(HEADS)] for b in batch]
    return w, [[[strength[b][s][h] for s in tokens] for h in range(HEADS)] for b in batch]


def accumulated(a: Attention, w: Vectors, beta: list[list[list[float]]]) -> Score:
    """The scores of PaTH by one running query for each (batch, head, i)."""
    q, k = a.q.tolist(), a.k.tolist()
    rows = {
        (b, h, i): running(q[b][h][i], k[b][h], w[b][h], beta[b][h], i)
        for b in range(len(q))
        for h in range(len(q[b]))
        for i in range(len(q[b][h]))
    }
    return lambda b, h, i, j: a.scale * rows[b, h, i][j]


@oracle("path", "double loop")
@pytest.mark.parametrize("chunk", [1, 2, 4, 64])
@everywhere
def test_path_reflects_the_query_by_every_token_it_passes(
    positions: list[float], chunk: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Projections, convolution and all; 7 tokens in chunks of several sizes."""
    monkeypatch.setattr(path, "CHUNK", chunk)
    a, encoding = call(positions), shaken(PaTH(MODEL, HEADS, WIDTH, RANK, KERNEL))
    same(scores(encoding, a), by_pairs(a, accumulated(a, *reflections(encoding, a))))


@oracle("path_blocked", "double loop")
@everywhere
def test_path_in_blocks_reflects_the_query_by_every_token_it_passes(positions: list[float]) -> None:
    """Of later keys, which are masked, the blocks compute nothing."""
    a, encoding = call(positions), shaken(BlockedPaTH(MODEL, HEADS, WIDTH, RANK, KERNEL))
    expected = by_pairs(a, accumulated(a, *reflections(encoding, a)))
    same(scores(encoding, a).tril(), expected.tril())


@pytest.mark.parametrize(("rank", "kernel"), [(1, 1), (2, 9)])
def test_path_takes_any_rank_and_kernel(rank: int, kernel: int) -> None:
    a, encoding = call(range(N)), shaken(PaTH(MODEL, HEADS, WIDTH, rank, kernel))
    same(scores(encoding, a), by_pairs(a, accumulated(a, *reflections(encoding, a))))


def drawn(n: int, largest: float = 2.0) -> tuple[Attention, Tensor, Tensor]:
    """A call of n tokens with w and beta drawn at random."""
    a, generator = call(range(n)), torch.Generator().manual_seed(5)
    w = torch.randn(a.q.shape, generator=generator, dtype=torch.float64)
    beta = largest * torch.rand(a.q.shape[:-1], generator=generator, dtype=torch.float64)
    return a, nn.functional.normalize(w, dim=-1), beta


@oracle("path", "running query over 16 chunks")
@pytest.mark.parametrize(
    "rows",
    [slice(0, 1), slice(999, 1000), slice(60, 70), slice(128, 192), slice(500, 777)],
    ids=str,
)
def test_path_by_chunks_is_the_running_query(rows: slice) -> None:
    """Rows that begin and end inside chunks, for every key: those before, beside and after."""
    a, w, beta = drawn(1000)
    found = reflected(a.q, a.k, w, beta)(rows)
    for i in range(rows.start, rows.stop, 31):
        q, expected = a.q[:, :, i], a.q[:, :, i, None] @ a.k.mT
        for s in range(i, -1, -1):
            expected[:, :, 0, s] = (q * a.k[:, :, s]).sum(-1)
            q = q - (beta[..., s] * (q * w[:, :, s]).sum(-1))[..., None] * w[:, :, s]
        same(found[:, :, i - rows.start, None], expected)


@oracle("path", "identity: beta = 0 is NoPE")
def test_path_without_strength_is_nope() -> None:
    a, encoding = call(range(N)), PaTH(MODEL, HEADS, WIDTH, RANK, KERNEL).double()
    with torch.no_grad():
        encoding.strength.bias.fill_(-1000)
    same(scores(encoding, a), scores(NoPE(), a), 0.0)


@oracle("path", "identity: one mirror for all tokens")
def test_path_with_one_mirror_alternates() -> None:
    """Beta = 2 and the same w everywhere: two mirrors undo each other; beta = 1: the direction is
    erased for good.
    """
    a, w, beta = drawn(150)
    w = w[:, :, :1].expand_as(w)
    inside = SCALE * (a.q * w).sum(-1)[..., None] * (a.k * w).sum(-1)[..., None, :]
    plain, d = scores(NoPE(), a), a.offset(slice(0, 150))
    for strength, lost in ((2.0, 2.0 * (d % 2)), (1.0, 1.0)):
        found = SCALE * reflected(a.q, a.k, w, torch.full_like(beta, strength))(slice(0, 150))
        same(found, torch.where(d > 0, plain - lost * inside, plain))


def test_path_lengthens_no_vector_and_mirrors_shorten_none() -> None:
    """With no reflection among the first tokens, whose keys are the unit vectors, their scores are
    the query itself.
    """
    a, w, beta = drawn(400)
    k = torch.cat(
        (torch.eye(WIDTH, dtype=torch.float64).expand(BATCH, HEADS, -1, -1), a.k[:, :, WIDTH:]), 2
    )
    beta[..., :WIDTH] = 0
    length = a.q[:, :, -1].norm(dim=-1)
    left = reflected(a.q, k, w, beta)(slice(399, 400))[:, :, 0, :WIDTH].norm(dim=-1)
    assert (left < length).all()
    mirrors = torch.where(beta > 0, 2.0, 0.0)
    same(reflected(a.q, k, w, mirrors)(slice(399, 400))[:, :, 0, :WIDTH].norm(dim=-1), length)


@oracle("path", "published numbers")
@pytest.mark.parametrize("chunk", [3, 4, 64])
def test_path_gives_the_authors_numbers(chunk: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(path, "CHUNK", chunk)
    data = published("path")
    a, encoding = published_call(data, data["scale"]), PaTH(MODEL, 2, 4, RANK, KERNEL).double()
    monkeypatch.setattr(encoding, "directions", lambda x: (tensor(data["w"]), tensor(data["beta"])))
    same(attend(encoding.encode(a)), tensor(data["path"]), FLOAT32)


@pytest.mark.slow
def test_path_is_differentiable_across_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(path, "CHUNK", 3)
    leaves = [torch.randn(1, 1, 7, 2, dtype=torch.float64, requires_grad=True) for _ in range(3)]
    beta = torch.rand(1, 1, 7, dtype=torch.float64, requires_grad=True)

    def blocks(q: Tensor, k: Tensor, w: Tensor, beta: Tensor) -> Tensor:
        product = reflected(q, k, nn.functional.normalize(w, dim=-1), beta)
        return torch.cat([product(slice(0, 5)), product(slice(5, 7))], -2)

    assert torch.autograd.gradcheck(blocks, (*leaves, beta))


@pytest.mark.parametrize(
    "cls",
    [
        pytest.param(PaTHFoX, marks=oracle("path_fox", "double loop")),
        pytest.param(BlockedPaTHFoX, marks=oracle("path_fox_blocked", "double loop")),
    ],
)
@everywhere
def test_path_fox_adds_the_gates_of_fox_after_the_scale(
    positions: list[float], cls: type[PaTHFoX | BlockedPaTHFoX]
) -> None:
    a, encoding = call(positions), shaken(cls(MODEL, HEADS, WIDTH, RANK, KERNEL))
    content = accumulated(a, *reflections(encoding.path, a))
    gates = between(apply(lambda u: math.log(sigmoid(u)), linear(encoding.fox.gate, a.x)))
    expected = by_pairs(a, lambda b, h, i, j: content(b, h, i, j) + gates(b, h, i, j))
    same(scores(encoding, a).tril(), expected.tril())  # later keys are masked


@oracle("path_fox", "identity: beta = 0 is FoX, open gates are PaTH")
def test_path_fox_is_fox_without_strength_and_path_without_forgetting() -> None:
    a, encoding = call(range(N)), shaken(PaTHFoX(MODEL, HEADS, WIDTH, RANK, KERNEL))
    both = scores(encoding, a)
    constant(encoding.fox, [800.0] * HEADS)
    same(scores(encoding, a), scores(encoding.path, a))
    assert not torch.allclose(both, scores(encoding, a))
    encoding = shaken(PaTHFoX(MODEL, HEADS, WIDTH, RANK, KERNEL))
    with torch.no_grad():
        encoding.path.strength.bias.fill_(-1000)
    same(scores(encoding, a), scores(encoding.fox, a))


@oracle("path_fox", "published numbers")
def test_path_fox_gives_the_authors_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Their gates are multiplied by the scale, ours are not."""
    data = published("path")
    a, encoding = published_call(data, data["scale"]), PaTHFoX(MODEL, 2, 4, RANK, KERNEL).double()
    monkeypatch.setattr(
        encoding.path, "directions", lambda x: (tensor(data["w"]), tensor(data["beta"]))
    )
    monkeypatch.setattr(
        encoding.fox, "log_gate", lambda logits: data["scale"] * tensor(data["log_gates"]).mT
    )
    same(attend(encoding.encode(a)), tensor(data["path_fox"]), FLOAT32)


def test_path_fox_starts_with_the_gates_of_fox() -> None:
    assert PaTHFoX(MODEL, HEADS, WIDTH, RANK, KERNEL).fox.gate.bias.tolist() == [5.0] * HEADS
    assert PaTHFoX(MODEL, HEADS, WIDTH, RANK, KERNEL, -1.0).fox.gate.bias.tolist() == [-1.0] * HEADS
