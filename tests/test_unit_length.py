"""Queries and keys of length one, before and after a rotation, compute their formulas."""

from __future__ import annotations

import cmath
import math
from dataclasses import replace

import pytest
import torch
from loops import (
    HEADS,
    WIDTH,
    N,
    by_pairs,
    call,
    every_way,
    everywhere,
    given,
    marked,
    oracle,
    outputs,
    same,
    scores,
)
from torch import Tensor

from posbench.base.errors import ConfigError
from posbench.core.attention import Attention
from posbench.core.encoding import PositionEncoding
from posbench.core.layers import QKNorm
from posbench.encodings.nape import NAPE
from posbench.encodings.nope import NoPE
from posbench.encodings.pope import PoPE
from posbench.encodings.rope import RoPE
from posbench.encodings.unit_length import UnitLength
from posbench.encodings.unit_length_after import UnitLengthAfter
from posbench.extensions.rerope import ReRoPE


def unit(x: list[float], scale: list[float]) -> list[float]:
    length = math.sqrt(sum(c * c for c in x))
    return [s * c / length for s, c in zip(scale, x, strict=True)]


def rope(x: list[float], position: float) -> list[float]:
    half = len(x) // 2
    turned = [
        complex(x[m], x[m + half]) * cmath.exp(1j * position * 10000.0 ** (-m / half))
        for m in range(half)
    ]
    return [t.real for t in turned] + [t.imag for t in turned]


def of_length_one(a: Attention, s: list[list[float]], *, after: bool) -> Tensor:
    q, k, i_pos, j_pos = a.q.tolist(), a.k.tolist(), a.q_pos.tolist(), a.k_pos.tolist()

    def made(x: list[float], position: float, scale: list[float]) -> list[float]:
        return unit(rope(x, position), scale) if after else rope(unit(x, scale), position)

    def score(b: int, h: int, i: int, j: int) -> float:
        one, other = made(q[b][h][i], i_pos[b][i], s[h]), made(k[b][h][j], j_pos[b][j], s[h])
        return a.scale * WIDTH * sum(x * y for x, y in zip(one, other, strict=True))

    return by_pairs(a, score)


LENGTHS = {"unit_length": UnitLength, "unit_length_after": UnitLengthAfter}
FIRST = marked("double loop", **{name: (cls,) for name, cls in LENGTHS.items()})
SCALES = [[0.3 + 0.2 * h + 0.15 * c for c in range(WIDTH)] for h in range(HEADS)]


def scaled(cls: type[UnitLength], host: PositionEncoding) -> PositionEncoding:
    return given(cls(host, HEADS, WIDTH), channel_scale=SCALES)


@everywhere
@pytest.mark.parametrize(("name", "cls"), FIRST)
def test_queries_and_keys_have_length_one_times_a_scale(
    name: str, cls: type[UnitLength], positions: list[float]
) -> None:
    a = call(positions)
    encoding, after = scaled(cls, RoPE(WIDTH)), name == "unit_length_after"
    expected = of_length_one(a, SCALES, after=after)
    same(scores(encoding, a), expected, 1e-9)
    every_way(encoding, a, outputs(a, expected))


BEFORE = marked("identity: a norm does not see lengths", **{n: (c,) for n, c in LENGTHS.items()})


@pytest.mark.parametrize(("name", "cls"), BEFORE)
def test_lengths_of_queries_and_keys_do_not_matter(name: str, cls: type[UnitLength]) -> None:
    a, sizes = call(), 1 + torch.arange(float(N), dtype=torch.float64)[:, None]
    encoding = scaled(cls, RoPE(WIDTH))
    longer = replace(a, q=sizes * a.q, k=a.k / sizes)
    same(scores(encoding, longer), scores(encoding, a))
    same(scores(encoding, replace(a, scale=2 * a.scale)), 2 * scores(encoding, a))


@oracle("unit_length_after", "identity: with a scale of 1, it does not matter which comes first")
@everywhere
def test_without_scales_the_norm_comes_before_or_after(positions: list[float]) -> None:
    a = call(positions)
    one, other = (cls(RoPE(WIDTH), HEADS, WIDTH).double() for cls in LENGTHS.values())
    same(scores(one, a), scores(other, a), 1e-9)


@oracle("unit_length", "identity: the norm of the model, at the start")
def test_length_one_is_the_norm_of_the_model_at_the_start() -> None:
    a, norm = call(), QKNorm(WIDTH).double()
    norm.q.eps = norm.k.eps = 0.0
    q, k = norm(a.q, a.k)
    normed = scores(RoPE(WIDTH), replace(a, q=q, k=k))
    same(scores(UnitLength(RoPE(WIDTH), HEADS, WIDTH).double(), a), normed)


@oracle("unit_length_after", "identity: a factor on cosine and sine is lost")
def test_a_norm_after_the_rotation_undoes_a_factor() -> None:
    a = call()
    for cls, ratio in ((UnitLength, 1.3**2), (UnitLengthAfter, 1.0)):
        plain = scaled(cls, RoPE(WIDTH))
        factor = plain.variant(frequencies=plain.frequencies.stretched((1.0,) * (WIDTH // 2), 1.3))
        same(scores(factor, a), ratio * scores(plain, a))


def test_scores_are_functions_of_the_distance_where_scales_come_before() -> None:
    a, later = call(), call([p + 1001 for p in range(N)])
    for cls, relative in ((UnitLength, True), (UnitLengthAfter, False)):
        encoding = scaled(cls, RoPE(WIDTH))
        change = (scores(encoding, later) - scores(encoding, a)).abs().max()
        assert (change < 1e-8) == relative == encoding.relative


def test_each_region_is_normed() -> None:
    a = call()
    for cls in LENGTHS.values():
        inside, outside = (
            ReRoPE(4).apply(scaled(cls, RoPE(WIDTH)), 4, N),
            scaled(cls, ReRoPE(4).apply(RoPE(WIDTH), 4, N)),
        )
        same(scores(inside, a), scores(outside, a))


def test_heads_that_are_split_keep_their_scales() -> None:
    a = call(heads=5)
    scale = [[0.5 + 0.1 * h] * WIDTH for h in range(5)]
    one, other = (given(cls(NAPE(5), 5, WIDTH), channel_scale=scale) for cls in LENGTHS.values())
    same(scores(other, a), scores(one, a))


def test_what_has_no_product_of_queries_and_keys_is_refused() -> None:
    with pytest.raises(ConfigError, match="choose a host that turns q and k"):
        UnitLengthAfter(PoPE(HEADS, WIDTH), HEADS, WIDTH).double().encode(call())
    with pytest.raises(ConfigError, match=r"leave model\.qk_norm at false"):
        UnitLength(NoPE(), HEADS, WIDTH, qk_norm=True)
    with pytest.raises(ConfigError, match="at least one, got 0"):
        UnitLength(NoPE(), 0, WIDTH)


def test_lengths_are_taken_in_full_precision() -> None:
    a = call(range(40), width=WIDTH)
    half = replace(a, q=a.q.bfloat16(), k=a.k.bfloat16())
    encoding = UnitLength(NoPE(), HEADS, WIDTH)
    rough = encoding.encode(half)
    assert rough.q.dtype == torch.bfloat16
    assert ((rough.q.double().norm(dim=-1) - 1).abs() < 0.004).all()
