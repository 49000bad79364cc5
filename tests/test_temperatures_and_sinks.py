"""Temperatures, sinks and scale-invariant attention compute their published formulas; where the
normaliser is touched, outputs are compared as well.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch
from loops import (
    BATCH,
    HEADS,
    POSITIONS,
    WIDTH,
    N,
    by_pairs,
    call,
    every_way,
    everywhere,
    given,
    oracle,
    outputs,
    product,
    same,
    scores,
)

from posbench.base.errors import ConfigError
from posbench.core.attention import Attention, Heads, Plan, Regions, attend, dense
from posbench.core.encoding import PositionEncoding, Wrapper
from posbench.encodings.alibi import ALiBi, alibi_slopes
from posbench.encodings.headscale import HeadScale
from posbench.encodings.nape import NAPE
from posbench.encodings.nope import NoPE
from posbench.encodings.rope import RoPE
from posbench.encodings.scale_invariant import ScaleInvariant
from posbench.encodings.sink import Sink
from posbench.encodings.sliding_window import SlidingWindow
from posbench.encodings.softmax_off_by_one import OffByOne
from posbench.encodings.ssmax import SSMax
from posbench.encodings.t5 import T5

INDEX = torch.arange(N)[None]


# -- temperatures ----------------------------------------------------------------------------------


@oracle("ssmax", "double loop")
@everywhere
def test_ssmax_multiplies_content_by_s_times_the_log_of_the_number_of_keys(
    positions: list[float],
) -> None:
    """Keys are counted by index, whatever the positions; the bias of a host keeps its size."""
    s, a = [0.4, 1.3, -0.2], call(positions)
    content, i_pos = product(a), a.q_pos.tolist()
    slopes = alibi_slopes(HEADS)

    def score(b: int, h: int, i: int, j: int) -> float:
        return s[h] * math.log(i + 1) * content(b, h, i, j)

    def biased(b: int, h: int, i: int, j: int) -> float:
        return score(b, h, i, j) - slopes[h] * (i_pos[b][i] - i_pos[b][j])

    same(scores(given(SSMax(NoPE(), HEADS, 5), s=s), a), by_pairs(a, score))
    same(scores(given(SSMax(ALiBi(HEADS), HEADS, 5), s=s), a), by_pairs(a, biased), 1e-9)


@oracle("ssmax", "identity: powers of the number of keys")
def test_ssmax_weights_are_powers_of_the_number_of_keys() -> None:
    """The paper's definition: n^(s z_j) over the sum of all."""
    s, a = [0.4, 1.3, 0.9], call()
    plan, z = given(SSMax(NoPE(), HEADS, 5), s=s).encode(a), by_pairs(a, product(a)).tolist()
    weights = dense(replace(plan, v=torch.eye(N, dtype=torch.float64).expand(BATCH, HEADS, N, N)))
    for h in range(HEADS):
        for i in range(N):
            powers = [(i + 1) ** (s[h] * z[0][h][i][j]) for j in range(i + 1)]
            assert weights[0, h, i, : i + 1].tolist() == pytest.approx(
                [p / sum(powers) for p in powers], abs=1e-10
            )


@oracle("ssmax", "library: transformers MistralLarge4TextSoftmaxScaling")
def test_ssmax_is_the_softmax_scaling_of_mistral_large() -> None:
    """Theirs multiplies queries, and has a bias beside s, here 0."""
    module = pytest.importorskip("transformers.models.mistral_large4.modeling_mistral_large4")
    theirs = module.MistralLarge4TextSoftmaxScaling(HEADS).double()
    s, a = torch.tensor([0.4, 1.3, 0.9], dtype=torch.float64), call()
    with torch.no_grad():
        theirs.scale.copy_(s)
        theirs.bias.zero_()
    q = theirs(a.q, INDEX.expand(BATCH, -1), head_dim_first=True)
    same(scores(given(SSMax(NoPE(), HEADS, 5), s=s), a), scores(NoPE(), replace(a, q=q)), 1e-6)


def test_ssmax_starts_at_temperature_one_at_the_length_given() -> None:
    a = call()
    z, plain = scores(SSMax(NoPE(), HEADS, 5).double(), a), scores(NoPE(), a)
    same(z[:, :, 4], plain[:, :, 4], 1e-6)
    assert z[:, :, 0].abs().max() == 0
    encoding = given(SSMax(NoPE(), HEADS, 5), s=[0.5] * HEADS)
    scores(encoding, a).sum().backward()
    assert (encoding.s.grad != 0).all()


@oracle("headscale", "double loop")
@everywhere
def test_headscale_multiplies_the_content_of_each_head(positions: list[float]) -> None:
    tau, a = [0.4, 1.3, -0.2], call(positions)
    content, i_pos, slopes = product(a), a.q_pos.tolist(), alibi_slopes(HEADS)

    def biased(b: int, h: int, i: int, j: int) -> float:
        return tau[h] * content(b, h, i, j) - slopes[h] * (i_pos[b][i] - i_pos[b][j])

    same(scores(given(HeadScale(ALiBi(HEADS), HEADS), tau=tau), a), by_pairs(a, biased), 1e-9)


@oracle("headscale", "identity: starts as its host")
@pytest.mark.parametrize("make", [lambda: RoPE(WIDTH), lambda: NAPE(HEADS), NoPE])
def test_headscale_starts_as_its_host(make: Callable[[], PositionEncoding]) -> None:
    a = call(POSITIONS["with gaps"])
    same(scores(HeadScale(make(), HEADS), a), scores(make(), a))


@pytest.mark.parametrize("wrap", [lambda host: SSMax(host, 4, 5), lambda host: HeadScale(host, 4)])
def test_temperatures_reach_every_head_of_a_host_that_splits_them(
    wrap: Callable[[PositionEncoding], Wrapper],
) -> None:
    """And each head its own."""
    a, own = call(heads=4), [0.4, 1.3, -0.2, 0.7]
    split, whole = (wrap(host).double() for host in (NAPE(4), NoPE()))
    for encoding in (split, whole):
        with torch.no_grad():
            next(encoding.parameters()).copy_(torch.tensor(own, dtype=torch.float64))
    same(scores(split, a) - scores(whole, a), scores(NAPE(4), a) - scores(NoPE(), a))


# -- sinks -----------------------------------------------------------------------------------------


class OwnWeights(PositionEncoding):
    """A host that normalises in its own way."""

    def encode(self, a: Attention) -> Attention:
        return replace(a, normalise=lambda logits, allowed: logits.sigmoid() * allowed)


class Rectified(Wrapper):
    """A host of two regions."""

    def encode(self, a: Attention) -> Plan:
        far = self.host.encode(a.at(torch.full_like(a.q_pos, 3), a.k_pos * 0))
        return Regions(
            lambda rows: (a.distance(rows) >= 3)[:, None].long(), (self.host.encode(a), far)
        )


@oracle("sink", "double loop")
@everywhere
def test_a_sink_is_one_more_term_of_the_denominator(positions: list[float]) -> None:
    """It takes weight and gives no value; scores stay those of the host."""
    sinks, a, host = [-0.7, 0.2, 1.9], call(positions), RoPE(WIDTH)
    encoding = given(Sink(host, HEADS), logits=sinks)
    same(scores(encoding, a), scores(host, a))
    every_way(encoding, a, outputs(a, scores(host, a), extra=[math.exp(s) for s in sinks]))


@oracle("sink", "library: transformers gpt-oss eager_attention_forward")
@oracle("sink", "library: x-transformers Attend")
def test_a_sink_is_that_of_gpt_oss_and_of_x_transformers() -> None:
    gpt_oss = pytest.importorskip("transformers.models.gpt_oss.modeling_gpt_oss")
    attend_module = pytest.importorskip("x_transformers.attend")
    a, sinks = call(), torch.tensor([-0.7, 0.2, 1.9], dtype=torch.float64)
    ours = attend(given(Sink(NoPE(), HEADS), logits=sinks).encode(a))
    module = SimpleNamespace(num_key_value_groups=1, sinks=sinks, training=False)
    hidden = torch.full((N, N), -torch.inf, dtype=torch.float64).triu(1)[None, None]
    theirs = gpt_oss.eager_attention_forward(module, a.q, a.k, a.v, hidden, a.scale)[0].transpose(
        1, 2
    )
    same(ours, theirs)
    other = attend_module.Attend(
        causal=True, heads=HEADS, head_learned_sink=True, scale=a.scale
    ).double()
    with torch.no_grad():
        other.head_attn_sink.copy_(sinks)
    same(ours, other(a.q, a.k, a.v)[0], 1e-6)  # its softmax is in float32


@oracle("softmax_off_by_one", "double loop")
@everywhere
def test_softmax_off_by_one_adds_one_to_the_denominator(positions: list[float]) -> None:
    a, host = call(positions), RoPE(WIDTH)
    every_way(OffByOne(host), a, outputs(a, scores(host, a), extra=[1.0] * HEADS))
    same(scores(OffByOne(host), a), scores(host, a))


@oracle("softmax_off_by_one", "library: torch multi_head_attention_forward with add_zero_attn")
def test_softmax_off_by_one_is_the_zero_attention_of_torch() -> None:
    """Their module scales by 1 / sqrt(width); weights that are the identity hand q, k and v
    through.
    """
    a = replace(call(heads=1), scale=WIDTH**-0.5)
    theirs = torch.nn.MultiheadAttention(
        WIDTH, 1, bias=False, add_zero_attn=True, batch_first=True
    ).double()
    with torch.no_grad():
        theirs.in_proj_weight.copy_(torch.eye(WIDTH).repeat(3, 1))
        theirs.out_proj.weight.copy_(torch.eye(WIDTH))
    hidden = torch.ones(N, N, dtype=torch.bool).triu(1)
    out = theirs(a.q[:, 0], a.k[:, 0], a.v[:, 0], attn_mask=hidden)[0]
    same(attend(OffByOne(NoPE()).encode(a))[:, 0], out)


@oracle("sink", "identity: a logit of -inf is the softmax, 0 is off by one")
@oracle("softmax_off_by_one", "identity: a sink with logit 0")
@pytest.mark.parametrize(
    "make", [lambda: RoPE(WIDTH), lambda: ALiBi(HEADS), lambda: NAPE(HEADS), NoPE]
)
def test_a_sink_of_minus_infinity_is_none_and_of_zero_off_by_one(
    make: Callable[[], PositionEncoding],
) -> None:
    a = call(POSITIONS["with gaps"])
    same(
        attend(given(Sink(make(), HEADS), logits=[-1e9] * HEADS).encode(a)),
        attend(make().encode(a)),
    )
    same(attend(Sink(make(), HEADS).double().encode(a)), attend(OffByOne(make()).encode(a)))


def test_each_head_keeps_its_sink_where_a_host_splits_heads() -> None:
    a, sinks = call(heads=5), [-0.7, 0.2, 1.9, 0.4, -1.3]
    encoding = given(Sink(NAPE(5), 5), logits=sinks)
    assert isinstance(encoding.encode(a), Heads)
    every_way(encoding, a, outputs(a, scores(NAPE(5), a), extra=[math.exp(s) for s in sinks]))


def test_each_head_keeps_its_sink_where_a_host_has_regions() -> None:
    a, sinks, host = call(), [-0.7, 0.2, 1.9], Rectified(T5(HEADS, 8, 4, 8)).double()
    encoding = given(Sink(host, HEADS), logits=sinks)
    every_way(encoding, a, outputs(a, scores(host, a).detach(), extra=[math.exp(s) for s in sinks]))


def test_sinks_work_around_and_inside_other_wrappers() -> None:
    """The temperature is that of the content, not of the sink, in either order; a window hides
    keys, not the sink.
    """
    a, sinks, s = call(), [-0.7, 0.2, 1.9], [0.4, 1.3, 0.5]
    outer = given(Sink(SSMax(NoPE(), HEADS, 5), HEADS), logits=sinks)
    inner = given(SSMax(Sink(NoPE(), HEADS), HEADS, 5), s=s)
    given(outer.host, s=s), given(inner.host, logits=sinks)
    expected = outputs(
        a,
        scores(given(SSMax(NoPE(), HEADS, 5), s=s), a).detach(),
        extra=[math.exp(x) for x in sinks],
    )
    every_way(outer, a, expected)
    every_way(inner, a, expected)
    windowed = OffByOne(SlidingWindow(NoPE(), 2))
    every_way(
        windowed, a, outputs(a, scores(NoPE(), a), lambda h, i, j: i - j < 2, extra=[1.0] * HEADS)
    )


@pytest.mark.parametrize("wrap", [lambda host: Sink(host, HEADS), OffByOne])
def test_a_sink_refuses_a_host_with_weights_of_its_own(
    wrap: Callable[[PositionEncoding], Wrapper],
) -> None:
    with pytest.raises(ConfigError, match=r"normalises its weights in its own way: choose a host"):
        wrap(OwnWeights()).encode(call())


def test_sinks_get_a_gradient_and_large_scores_stay_finite() -> None:
    a = call()
    encoding = given(Sink(NoPE(), HEADS), logits=[0.1, -0.4, 2.0])
    attend(encoding.encode(a)).sum().backward()
    assert (encoding.logits.grad != 0).all()
    for factor in (1e4, -1e4):
        assert torch.isfinite(attend(OffByOne(NoPE()).encode(replace(a, scale=factor)))).all()


# -- scale-invariant attention ---------------------------------------------------------------------


@oracle("scale_invariant", "double loop")
@everywhere
@pytest.mark.parametrize("tau", [10.0, 0.7])
def test_scale_invariant_attention_stretches_and_shifts_by_distance(
    tau: float, positions: list[float]
) -> None:
    """A later key counts as distance 0; a bias of the host is added as it is."""
    a = call(positions)
    i_pos, slopes = a.q_pos.tolist(), alibi_slopes(HEADS)

    def spread(z: float, b: int, i: int, j: int) -> float:
        growth = 2 * math.log(1 + max(i_pos[b][i] - i_pos[b][j], 0) / tau)
        return math.sqrt(1 + growth) * z - growth

    content = product(a)
    same(
        scores(ScaleInvariant(NoPE(), tau), a),
        by_pairs(a, lambda b, h, i, j: spread(content(b, h, i, j), b, i, j)),
    )
    rotated = scores(RoPE(WIDTH), a).tolist()
    expected = by_pairs(a, lambda b, h, i, j: spread(rotated[b][h][i][j], b, i, j))
    same(scores(ScaleInvariant(RoPE(WIDTH), tau), a), expected)

    def biased(b: int, h: int, i: int, j: int) -> float:
        return spread(content(b, h, i, j), b, i, j) - slopes[h] * (i_pos[b][i] - i_pos[b][j])

    same(scores(ScaleInvariant(ALiBi(HEADS), tau), a), by_pairs(a, biased), 1e-9)
    every_way(ScaleInvariant(RoPE(WIDTH), tau), a, outputs(a, expected))


@oracle("scale_invariant", "identity: expected weight falls as 1 / (1 + d / tau)")
def test_standard_normal_scores_weigh_as_one_over_the_distance_in_expectation() -> None:
    """The theorem of the paper: E exp(A z + M) = sqrt(e) / (1 + d / tau) for z from N(0, 1)."""
    n, tau = 200, 10.0
    pos = torch.arange(n)[None]
    one = torch.ones(1, 1, n, 1, dtype=torch.float64)
    a = Attention(one, one, one, one[0], pos, pos, scale=1.0)  # z = 1 for all pairs
    at_one = scores(ScaleInvariant(NoPE(), tau), a)[0, 0, -1]
    at_zero = scores(ScaleInvariant(NoPE(), tau), replace(a, scale=0.0))[0, 0, -1]
    stretch, shift = at_one - at_zero, at_zero
    expected = [math.sqrt(math.e) / (1 + (n - 1 - j) / tau) for j in range(n)]
    same((shift + stretch**2 / 2).exp(), torch.tensor(expected, dtype=torch.float64))
    assert stretch[-1] == 1 and shift[-1] == 0


def test_scale_invariant_attention_takes_the_distance_of_each_region_and_every_head() -> None:
    """Around a host of regions d is the rectified distance; around one that splits heads all heads
    are stretched.
    """
    a = call()
    z = scores(ScaleInvariant(Rectified(NoPE()), 2.0), a)
    content = product(a)

    def score(b: int, h: int, i: int, j: int) -> float:
        growth = 2 * math.log(1 + min(max(i - j, 0), 3) / 2.0)
        return math.sqrt(1 + growth) * content(b, h, i, j) - growth

    same(z, by_pairs(a, score))
    split, plain = (
        scores(ScaleInvariant(NAPE(HEADS), 2.0), a),
        scores(ScaleInvariant(NoPE(), 2.0), a),
    )
    same(split - plain, scores(NAPE(HEADS), a) - scores(NoPE(), a))


def test_scale_invariant_scores_are_formed_in_float32() -> None:
    a = call()
    low = replace(a, q=a.q.bfloat16(), k=a.k.bfloat16(), v=a.v.bfloat16())
    exact = replace(a, q=low.q.double(), k=low.k.double())
    same(
        scores(ScaleInvariant(NoPE(), 1.0), low).double(),
        scores(ScaleInvariant(NoPE(), 1.0), exact),
        1e-5,
    )
    with torch.autocast("cpu", torch.bfloat16):
        same(
            scores(ScaleInvariant(NoPE(), 1.0), low).double(),
            scores(ScaleInvariant(NoPE(), 1.0), exact),
            1e-5,
        )
