"""Temperatures and biases by powers of a length: SSMax and log-n with an exponent, SSMax with an
offset, Beam's power of the position, and APE's three terms compute their published formulas.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

import pytest
import torch
from extending import L, extended
from loops import (
    BATCH,
    HEADS,
    POSITIONS,
    N,
    bias_of,
    by_pairs,
    call,
    every_way,
    everywhere,
    given,
    loop,
    outputs,
    placed,
    product,
    same,
    scores,
)

from posbench.base.errors import ConfigError
from posbench.core.attention import dense
from posbench.core.encoding import PositionEncoding
from posbench.encodings.alibi import ALiBi, alibi_slopes
from posbench.encodings.ape_bias import APEBias
from posbench.encodings.beam_temperature import BeamTemperature
from posbench.encodings.kerple_log import KerpleLog
from posbench.encodings.nope import NoPE
from posbench.encodings.ssmax import SSMax
from posbench.encodings.ssmax_bias import SSMaxBias
from posbench.extensions.log_n import LogN

oracle = pytest.mark.oracle
INDEX = torch.arange(N)[None]
POWERS = [("ssmax_root", 0.5), ("ssmax", 1.0), ("ssmax_square", 2.0)]


# -- SSMax with an exponent ------------------------------------------------------------------------


@pytest.mark.parametrize(
    "power", [pytest.param(p, marks=oracle(name, "double loop"), id=name) for name, p in POWERS]
)
@everywhere
def test_ssmax_raises_the_logarithm_to_its_power(power: float, positions: list[float]) -> None:
    s, a = [0.4, 1.3, -0.2], call(positions)
    content, i_pos, slopes = product(a), a.q_pos.tolist(), alibi_slopes(HEADS)

    def biased(b: int, h: int, i: int, j: int) -> float:
        growth = math.exp(power * math.log(math.log(i + 1))) if i else 0.0
        return s[h] * growth * content(b, h, i, j) - slopes[h] * (i_pos[b][i] - i_pos[b][j])

    same(scores(given(SSMax(ALiBi(HEADS), HEADS, 5, power), s=s), a), by_pairs(a, biased), 1e-9)


@pytest.mark.parametrize(
    "power",
    [
        pytest.param(p, marks=oracle(name, "identity: NoPE at the length it starts from"), id=name)
        for name, p in POWERS
    ],
)
def test_ssmax_of_any_power_starts_at_one_at_its_length(power: float) -> None:
    """Below it a larger power is flatter, beyond it sharper."""
    a = call()
    z, plain = scores(SSMax(NoPE(), HEADS, 5, power).double(), a), scores(NoPE(), a)
    same(z[:, :, 4], plain[:, :, 4], 1e-6)
    ratio = (z / plain)[0, 0, :, 0].tolist()
    linear = [math.log(i + 1) / math.log(5) for i in range(N)]
    assert all(r == pytest.approx(t**power, abs=1e-6) for r, t in zip(ratio, linear, strict=True))


# -- SSMax with an offset --------------------------------------------------------------------------


@oracle("ssmax_bias", "double loop")
@everywhere
def test_ssmax_with_an_offset_multiplies_content_by_a_line_in_the_logarithm(
    positions: list[float],
) -> None:
    s, b0, a = [0.4, 1.3, -0.2], [0.9, -0.3, 2.0], call(positions)
    content, i_pos, slopes = product(a), a.q_pos.tolist(), alibi_slopes(HEADS)

    def biased(b: int, h: int, i: int, j: int) -> float:
        tau = s[h] * math.log(i + 1) + b0[h]
        return tau * content(b, h, i, j) - slopes[h] * (i_pos[b][i] - i_pos[b][j])

    encoding = given(SSMaxBias(ALiBi(HEADS), HEADS, 5), s=s, b=b0)
    same(scores(encoding, a), by_pairs(a, biased), 1e-9)


@oracle("ssmax_bias", "library: transformers MistralLarge4TextSoftmaxScaling")
def test_ssmax_with_an_offset_is_the_softmax_scaling_of_mistral_large() -> None:
    module = pytest.importorskip("transformers.models.mistral_large4.modeling_mistral_large4")
    theirs = module.MistralLarge4TextSoftmaxScaling(HEADS).double()
    s, b0 = (torch.tensor(t, dtype=torch.float64) for t in ([0.4, 1.3, 0.9], [0.9, -0.3, 2.0]))
    a = call()
    with torch.no_grad():
        theirs.scale.copy_(s)
        theirs.bias.copy_(b0)
    q = theirs(a.q, INDEX.expand(BATCH, -1), head_dim_first=True)
    ours = scores(given(SSMaxBias(NoPE(), HEADS, 5), s=s, b=b0), a)
    same(ours, scores(NoPE(), replace(a, q=q)), 1e-6)


@oracle("ssmax_bias", "identity: without offset SSMax, without slope a factor a head")
def test_ssmax_with_an_offset_starts_as_ssmax_and_holds_a_constant() -> None:
    a = call()
    same(scores(SSMaxBias(NoPE(), HEADS, 5), a), scores(SSMax(NoPE(), HEADS, 5), a), 0)
    still = given(SSMaxBias(NoPE(), HEADS, 5), s=[0.0] * HEADS, b=[0.5, 1.0, 2.0])
    factor = torch.tensor([0.5, 1.0, 2.0], dtype=torch.float64)[:, None, None]
    same(scores(still, a), factor * scores(NoPE(), a))
    scores(still, a).square().sum().backward()
    assert (still.s.grad != 0).all() and (still.b.grad != 0).all()


# -- log-n with an exponent ------------------------------------------------------------------------


@pytest.mark.parametrize(
    "power",
    [
        pytest.param(0.5, marks=oracle("log_n_root", "double loop"), id="log_n_root"),
        pytest.param(1.0, marks=oracle("log_n", "double loop"), id="log_n"),
        pytest.param(2.0, marks=oracle("log_n_square", "double loop"), id="log_n_square"),
    ],
)
@everywhere
def test_log_n_raises_the_ratio_to_its_power(power: float, positions: list[float]) -> None:
    """With 4 positions seen in training: nothing up to there."""
    a = call(positions)
    content = product(a)

    def score(b: int, h: int, i: int, j: int) -> float:
        ratio = math.log(i + 1, L) if i + 1 > L else 1.0
        return math.exp(power * math.log(ratio)) * content(b, h, i, j)

    same(scores(extended(LogN(power=power), NoPE()), a), by_pairs(a, score))


@pytest.mark.parametrize(
    "power",
    [
        pytest.param(0.5, marks=oracle("log_n_root", "identity: SSMax from L on")),
        pytest.param(2.0, marks=oracle("log_n_square", "identity: SSMax from L on")),
    ],
)
def test_log_n_of_a_power_is_ssmax_of_that_power_from_the_length_on(power: float) -> None:
    a = call()
    ours = scores(extended(LogN(power=power), NoPE()), a)
    ssmax = scores(SSMax(NoPE(), HEADS, L, power).double(), a).detach()
    same(ours[:, :, L - 1 :], ssmax[:, :, L - 1 :], 1e-6)
    assert torch.equal(ours[:, :, :L], scores(NoPE(), a)[:, :, :L])
    assert LogN(power=power).is_identity


# -- Beam ------------------------------------------------------------------------------------------


@oracle("beam_temperature", "double loop")
@everywhere
def test_beams_temperature_is_a_power_of_the_position(positions: list[float]) -> None:
    """On the content alone."""
    a = call(positions)
    content, i_pos, slopes = product(a), a.q_pos.tolist(), alibi_slopes(HEADS)

    def biased(b: int, h: int, i: int, j: int) -> float:
        p = i_pos[b][i]
        tau = math.exp(0.3 * math.log(1 + (p + 1) / 2.5))
        return tau * content(b, h, i, j) - slopes[h] * (p - i_pos[b][j])

    encoding = BeamTemperature(ALiBi(HEADS), 2.5, 0.3)
    same(scores(encoding, a), by_pairs(a, biased), 1e-9)
    z = scores(encoding, a)
    every_way(encoding, a, outputs(a, z))


@oracle("beam_temperature", "library: transformers Beam compute_attention_scaling")
def test_beams_temperature_is_beams() -> None:
    beam = pytest.importorskip("transformers.models.beam.modeling_beam")
    a = call([0, 1, 2047, 2048, 8191, 40_000, 1_000_000])
    ours = BeamTemperature(NoPE(), 2048).encode(a).temperature
    same(ours, beam.compute_attention_scaling(a.q_pos).double(), 1e-6)


def test_beams_temperature_takes_negative_positions_for_the_first() -> None:
    a = call([-5.5, -2.0, -0.1, 0.0, 3.9, 4.0, 8.0])
    first = BeamTemperature(NoPE(), 4.0).encode(a).temperature[0, 0, :, 0]
    assert torch.equal(first[:4], first[3].expand(4)) and (first.diff()[3:] > 0).all()


# -- APE's bias ------------------------------------------------------------------------------------

RATES = {"linear": [0.3, 0.02, 1.1], "log": [0.7, 1.9, 0.1], "root": [0.25, 0.6, 2.0]}


def ape(**rates: object) -> PositionEncoding:
    return given(APEBias(HEADS, 40), **(RATES | rates))


@oracle("ape_bias", "double loop")
@everywhere
@pytest.mark.parametrize("ahead", [0, 5])
def test_apes_bias_has_a_linear_a_logarithmic_and_a_root_term(
    ahead: int, positions: list[float]
) -> None:
    """A later key counts as distance 0."""
    a = placed(positions, ahead)

    def bias(h: int, i: float, j: float) -> float:
        d = max(i - j, 0)
        linear, log, root = (RATES[name][h] for name in ("linear", "log", "root"))
        return -(linear * d + log * math.log(1 + d) + root * math.sqrt(d))

    same(scores(ape(), a), loop(a, bias), 1e-8)


@oracle("ape_bias", "identity: the linear term is ALiBi, the logarithm KERPLE-log")
def test_the_terms_of_apes_bias_alone_are_alibi_and_kerple_log() -> None:
    a, none = call(POSITIONS["with gaps"]), [0.0] * HEADS
    lower = torch.ones(N, N).tril().bool()

    def alone(encoding: PositionEncoding) -> torch.Tensor:
        return bias_of(encoding, a)[..., lower]

    same(alone(ape(linear=alibi_slopes(HEADS), log=none, root=none)), alone(ALiBi(HEADS)), 1e-6)
    kerple = given(KerpleLog(HEADS), r1=RATES["log"], r2=[1.0] * HEADS)
    same(alone(ape(linear=none, root=none)), alone(kerple), 1e-9)


@oracle("ape_bias", "identity: at the training length its start is ALiBi's")
@pytest.mark.parametrize("length", [1, 40, 512])
def test_apes_bias_starts_as_alibis_at_the_training_length(length: int) -> None:
    """A third from each term."""
    a = call([0, length, *range(length + 1, length + 6)])
    encoding = APEBias(HEADS, length, 5.0).double()
    ours, alibi = bias_of(encoding, a), bias_of(ALiBi(HEADS, 5.0), a)
    torch.testing.assert_close(ours[:, :, 1, 0], alibi[:, :, 1, 0], rtol=1e-6, atol=0)
    for name in ("linear", "log", "root"):
        others = {each: [0.0] * HEADS for each in RATES if each != name}
        alone = bias_of(given(APEBias(HEADS, length, 5.0), **others), a)
        torch.testing.assert_close(3 * alone[:, :, 1, 0], alibi[:, :, 1, 0], rtol=1e-6, atol=0)


def test_rates_of_apes_bias_act_as_at_least_zero_and_can_come_back() -> None:
    a, below = call(), [-0.4] * HEADS
    encoding = ape(linear=below, log=below, root=below)
    same(scores(encoding, a), scores(NoPE(), a))
    scores(encoding, a).square().sum().backward()
    for name in RATES:
        assert (encoding.get_parameter(name).grad != 0).all()


# -- all of them -----------------------------------------------------------------------------------


def test_weights_of_ssmax_with_a_power_add_up_to_one() -> None:
    a = call()
    for encoding in (SSMax(NoPE(), HEADS, 5, 0.5), SSMaxBias(NoPE(), HEADS, 5)):
        plan = encoding.double().encode(replace(a, v=torch.ones_like(a.v)))
        same(dense(plan), torch.ones_like(a.v))


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda: SSMax(NoPE(), HEADS, 5, 0.0), "power is that of the logarithm .* got 0.0"),
        (lambda: SSMaxBias(NoPE(), HEADS, 1), "at least 2, got 1"),
        (lambda: LogN(power=-1.0), "power is that of the ratio .* got -1.0"),
        (lambda: BeamTemperature(NoPE(), 0), "length is a number of positions .* got 0"),
        (lambda: BeamTemperature(NoPE(), 4, 0.0), "beta is the power .* got 0.0"),
        (lambda: APEBias(HEADS, 0), "at least 1, got 0"),
        (lambda: APEBias(0, 40), "at least one head, got 0"),
    ],
)
def test_settings_that_cannot_work_are_refused(make: Callable[[], object], sentence: str) -> None:
    with pytest.raises(ConfigError, match=sentence):
        make()
