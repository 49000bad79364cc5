"""The generalised Gaussian prior of the Bayesian attention mechanism, alone and with scalable
softmax.
"""

from __future__ import annotations

import math

import pytest
import torch
from authors import published, tensor
from loops import (
    HEADS,
    POSITIONS,
    Bias,
    bias_of,
    by_pairs,
    call,
    everywhere,
    given,
    loop,
    product,
    same,
    scores,
)

from posbench.base.errors import ConfigError
from posbench.core.attention import attend, dense
from posbench.encodings.alibi import ALiBi, alibi_slopes
from posbench.encodings.bam import BAM
from posbench.encodings.bam_ssmax import SSMaxWithBias
from posbench.encodings.kerple_power import KerplePower
from posbench.encodings.nope import NoPE

oracle = pytest.mark.oracle
SCALES, SHAPES = [0.3, -0.8, 0.1], [0.6, 1.7, -0.4]


def prior(scales: list[float], shapes: list[float]) -> Bias:
    def bias(h: int, i: float, j: float) -> float:
        d = max(i - j, j - i) + 1e-5
        return -math.exp(scales[h] + shapes[h] * math.log(d))

    return bias


@oracle("bam", "double loop")
@everywhere
def test_bam_is_a_power_of_the_distance(positions: list[float]) -> None:
    a, encoding = call(positions), given(BAM(HEADS), log_scale=SCALES, shape=SHAPES)
    expected = loop(a, prior(SCALES, SHAPES))
    torch.testing.assert_close(scores(encoding, a), expected, rtol=1e-10, atol=1e-8)
    same(attend(encoding.encode(a), 3), dense(encoding.encode(a)))


@oracle("bam_ssmax", "double loop")
@everywhere
def test_bam_with_scalable_softmax_scales_content_and_prior(positions: list[float]) -> None:
    s, a, bias = [0.4, 1.3, -0.2], call(positions), prior(SCALES, SHAPES)
    host = given(BAM(HEADS), log_scale=SCALES, shape=SHAPES)
    content, p = product(a), a.q_pos.tolist()

    def score(b: int, h: int, i: int, j: int) -> float:
        return s[h] * math.log(i + 1) * (content(b, h, i, j) + bias(h, p[b][i], p[b][j]))

    found = scores(given(SSMaxWithBias(host, HEADS, 5), s=s), a)
    torch.testing.assert_close(found, by_pairs(a, score), rtol=1e-10, atol=1e-8)


@oracle("bam", "published numbers")
@oracle("bam_ssmax", "published numbers")
def test_bam_gives_the_authors_numbers() -> None:
    data = published("bam")
    heads = len(data["theta_alpha"])
    encoding = given(BAM(heads), log_scale=data["theta_alpha"], shape=data["theta_beta"])
    a, expected = call(range(5), heads=heads), tensor(data["bias"]).expand(2, -1, -1, -1)
    same(bias_of(encoding, a), expected, 1e-8)
    plain, scaled = (
        given(SSMaxWithBias(host, heads, 5), s=[1.0] * heads) for host in (NoPE(), encoding)
    )
    growth = torch.arange(1, 6).double().log()[:, None]
    same(scores(scaled, a) - scores(plain, a), growth * expected, 1e-7)


@oracle("bam_ssmax", "weights as powers of the number of keys")
def test_scalable_softmax_of_bam_is_a_softmax_to_the_base_n() -> None:
    """n^(s z) instead of e^z, of the whole score z."""
    s, a = torch.tensor([0.4, 1.3, -0.2], dtype=torch.float64), call(POSITIONS["with gaps"])
    host = given(BAM(HEADS), log_scale=SCALES, shape=SHAPES)
    z, n = scores(host, a), torch.arange(1, a.num_queries + 1).double()
    powers = (n[:, None] ** (s[:, None, None] * z)).tril()
    expected = (powers / powers.sum(-1, keepdim=True)) @ a.v
    plan = given(SSMaxWithBias(host, HEADS, 5), s=s).encode(a)
    assert plan.path == "fused by rows"
    same(attend(plan, 3), expected)
    same(dense(plan), expected)


@oracle("bam", "identity: shape 1 is ALiBi, shapes of KERPLE are KERPLE power")
def test_bam_is_alibi_with_shape_one_and_the_power_of_kerple() -> None:
    a, slopes = call(POSITIONS["with gaps"]), alibi_slopes(HEADS)
    encoding = given(BAM(HEADS), log_scale=torch.tensor(slopes).log(), shape=[1.0] * HEADS)
    same(scores(encoding, a).tril(), scores(ALiBi(HEADS), a).tril(), 1e-4)
    r1, r2 = [0.3, 0.05, 1.1], [0.8, 1.4, 0.9]
    encoding = given(BAM(HEADS), log_scale=torch.tensor(r1).log(), shape=r2)
    kerple = given(KerplePower(HEADS), r1=r1, r2=r2)
    found, expected = (bias_of(each, a).tril() for each in (encoding, kerple))
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-3)


@oracle("bam", "identity: starts as NoPE")
def test_bam_starts_as_nope_and_leaves_it() -> None:
    a, encoding = call(POSITIONS["with gaps"]), BAM(HEADS).double()
    same(attend(encoding.encode(a)), attend(NoPE().encode(a)))
    (attend(encoding.encode(a)) * torch.linspace(0, 1, 7)[:, None]).sum().backward()
    assert (encoding.shape.grad != 0).all()


def test_a_shape_below_zero_looks_away_from_what_is_near() -> None:
    a = call()
    encoding = given(BAM(HEADS), log_scale=SCALES, shape=[-0.5] * HEADS)
    row = bias_of(encoding, a)[0, 0, -1]
    assert (row.diff() < 0).all() and torch.isfinite(row).all()


def test_bam_needs_a_head() -> None:
    with pytest.raises(ConfigError, match=r"there must be one, got 0"):
        BAM(0)
