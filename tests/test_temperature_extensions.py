"""Extensions by temperature are held against plain loops of scores in Python floats."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch
from extending import L, extended, host, hosts, log_n
from loops import (
    BATCH,
    HEADS,
    POSITIONS,
    WIDTH,
    N,
    by_pairs,
    call,
    everywhere,
    given,
    product,
    same,
    scores,
)
from torch import Tensor

from posbench.core.attention import Attention, Regions, attend, dense
from posbench.core.encoding import PositionEncoding, Wrapper
from posbench.core.extension import Extension
from posbench.encodings.alibi import ALiBi, alibi_slopes
from posbench.encodings.nape import NAPE
from posbench.encodings.nope import NoPE
from posbench.encodings.projected_logits import ProjectedLogits
from posbench.encodings.rope import RoPE
from posbench.encodings.ssmax import SSMax
from posbench.extensions.both import Both
from posbench.extensions.inkling_temperature import InklingTemperature
from posbench.extensions.log_floor import LogFloor
from posbench.extensions.log_n import LogN
from posbench.extensions.pi import PI
from posbench.extensions.yarn import YaRN
from posbench.extensions.yarn_temperature import YarnTemperature

oracle = pytest.mark.oracle


def factors(a: Attention, tau: Callable[[int, float], float]) -> Tensor:
    rows = [[tau(i, p) for i, p in enumerate(row)] for row in a.q_pos.tolist()]
    return torch.tensor(rows, dtype=torch.float64)[:, None, :, None]


# -- temperatures ----------------------------------------------------------------------------------


def log_floor(i: int, p: float) -> float:
    return 1 + 0.3 * math.log(1 + math.floor(max(p, 0) / L))


def inkling(i: int, p: float) -> float:
    return 1 + 0.3 * math.log(max((p + 1) / L, 1))


def yarn(i: int, p: float) -> float:
    return (0.1 * math.log(N / L) + 1) ** 2


TEMPERATURES: dict[str, tuple[Extension, Callable[[int, float], float], bool]] = {
    "log_n": (LogN(), log_n, False),
    "log_floor": (LogFloor(0.3), log_floor, False),
    "inkling_temperature": (InklingTemperature(0.3), inkling, True),
    "yarn_temperature": (YarnTemperature(), yarn, False),
}
temperatures = pytest.mark.parametrize(
    ("extension", "tau", "on_bias"),
    [
        pytest.param(*case, marks=oracle(name, "double loop"), id=name)
        for name, case in TEMPERATURES.items()
    ],
)


@everywhere
@temperatures
def test_a_temperature_multiplies_the_content_and_the_bias_where_it_says_so(
    extension: Extension, tau: Callable[[int, float], float], on_bias: bool, positions: list[float]
) -> None:
    a = call(positions)
    content, i_pos, j_pos = product(a), a.q_pos.tolist(), a.k_pos.tolist()
    slopes = alibi_slopes(HEADS)

    def score(b: int, h: int, i: int, j: int) -> float:
        t, bias = tau(i, i_pos[b][i]), -slopes[h] * (i_pos[b][i] - j_pos[b][j])
        return t * (content(b, h, i, j) + bias) if on_bias else t * content(b, h, i, j) + bias

    same(scores(extended(extension, ALiBi(HEADS)), a), by_pairs(a, score))


@temperatures
@hosts
def test_a_temperature_acts_the_same_on_every_path_and_host(
    extension: Extension,
    tau: Callable[[int, float], float],
    on_bias: bool,
    make: Callable[[], PositionEncoding],
) -> None:
    """The bias of a plan of one call is read off it; that of several, off a call whose queries are
    zero.
    """
    a, base = call(), host(make)
    t = factors(a, tau)
    full = scores(base, a)
    plan = base.encode(a)
    bias = (
        plan.bias(slice(0, N))
        if isinstance(plan, Attention)
        else scores(base, replace(a, q=0 * a.q))
    )
    bias = 0.0 if bias is None else bias
    expected = t * full if on_bias else t * (full - bias) + bias
    hot = extended(extension, base)
    same(scores(hot, a), expected)
    for block in (1, 3, N):
        same(attend(hot.encode(a), block), dense(hot.encode(a)))
    assert "temperature" in hot.handles and {*hot.parameters()} == {*base.parameters()}


def test_negative_positions_count_as_the_first() -> None:
    a = call([-5.5, -2.0, -0.1, 0.0, 3.9, 4.0, 8.0])
    first = a.at(a.q_pos[:1], a.k_pos[:1])  # the second of the batch is shifted
    for extension, expected in (
        (LogFloor(1.0), [1, 1, 1, 1, 1, 1 + math.log(2), 1 + math.log(3)]),
        (
            InklingTemperature(1.0),
            [1, 1, 1, 1, 1 + math.log(4.9 / 4), 1 + math.log(5 / 4), 1 + math.log(9 / 4)],
        ),
    ):
        t = torch.tensor(expected, dtype=torch.float64)[:, None]
        same(scores(extended(extension, NoPE()), first), t * scores(NoPE(), a))


@pytest.mark.parametrize("length", [1, 2, L])
@pytest.mark.parametrize("extension", [LogN(), LogFloor(), InklingTemperature(), YarnTemperature()])
def test_up_to_the_trained_length_a_temperature_is_one_bit_for_bit(
    extension: Extension, length: int
) -> None:
    a, base = call(range(length)), ALiBi(HEADS)
    a = a.at(a.q_pos[:1], a.k_pos[:1])
    assert extension.is_identity
    assert torch.equal(scores_of(extension.apply(base, L, length), a), scores_of(base, a))
    assert torch.equal(attend(extension.apply(base, L, length).encode(a)), attend(base.encode(a)))


def scores_of(encoding: PositionEncoding, a: Attention) -> Tensor:
    return encoding.encode(a).logits(slice(0, a.num_queries))


def test_the_last_trained_query_and_the_first_new_one() -> None:
    """Ministral 3's step comes with position L; Llama 4's, a position earlier, would change the
    last trained query.
    """
    a = call()
    a = a.at(a.q_pos[:1], a.k_pos[:1])
    changed = {}
    for name, (extension, *_) in TEMPERATURES.items():
        difference = scores(extended(extension, NoPE()), a) != scores(NoPE(), a)
        changed[name] = [bool(difference[:, :, i].any()) for i in range(N)]
    late = [False] * L + [True] * (N - L)
    assert changed == {
        "log_n": late,
        "log_floor": late,
        "inkling_temperature": late,
        "yarn_temperature": [True] * N,
    }


@oracle("log_n", "identity: q times the ratio of logarithms")
def test_log_n_counts_keys_by_index_whatever_the_positions() -> None:
    counted, moved = call(), call(POSITIONS["with gaps"])
    ratio = torch.tensor([max(1.0, math.log(n, L)) for n in range(1, N + 1)], dtype=torch.float64)[
        :, None
    ]
    for a in (counted, moved):
        same(scores(extended(LogN(), NoPE()), a), scores(NoPE(), replace(a, q=ratio * a.q)))
    assert abs(float(ratio[-1]) - math.log(7) / math.log(4)) < 1e-12


@oracle("log_n", "identity: SSMax from L on")
def test_log_n_is_ssmax_at_its_start_but_for_the_maximum() -> None:
    a = call()
    ours, ssmax = scores(extended(LogN(), NoPE()), a), scores(SSMax(NoPE(), HEADS, L).double(), a)
    same(ours[:, :, L - 1 :], ssmax[:, :, L - 1 :].detach(), 1e-6)
    assert not torch.allclose(ours[:, :, : L - 1], ssmax[:, :, : L - 1])


@oracle("log_floor", "library: transformers get_llama_4_attn_scale of Ministral 3")
@pytest.mark.parametrize("length", [2, 3, 4, 100])
def test_log_floor_is_that_of_ministral_3(length: int) -> None:
    modeling = pytest.importorskip("transformers.models.ministral3.modeling_ministral3")
    a = call(range(20))
    tau = LogFloor(0.1, length).apply(NoPE(), L, 20).encode(a).temperature
    same(tau, modeling.get_llama_4_attn_scale(a.q_pos, 0.1, length).double(), 1e-6)


@oracle("log_floor", "library: transformers Llama4TextAttention")
def test_log_floor_is_that_of_llama_4_attention_one_position_on() -> None:
    modeling = pytest.importorskip("transformers.models.llama4.modeling_llama4")
    from transformers.models.llama4.configuration_llama4 import Llama4TextConfig

    heads, width, n = 2, 8, 11
    config = Llama4TextConfig(
        hidden_size=heads * width, num_attention_heads=heads, num_key_value_heads=heads,
        head_dim=width,
        num_hidden_layers=1, no_rope_layers=[0], floor_scale=3, attn_scale=0.3,
        attn_temperature_tuning=True,
        use_qk_norm=False, attn_implementation="eager",
    )  # fmt: skip
    torch.manual_seed(0)
    layer = modeling.Llama4TextAttention(config, layer_idx=0).double().eval()
    x = torch.randn(
        BATCH, n, heads * width, generator=torch.Generator().manual_seed(1), dtype=torch.float64
    )
    hidden = torch.full((n, n), -torch.inf, dtype=torch.float64).triu(1)[None, None]
    theirs = layer(x, position_embeddings=torch.zeros(1, n, width), attention_mask=hidden)[0]
    q, k, v = (
        projection(x).unflatten(-1, (heads, width)).transpose(1, 2)
        for projection in (layer.q_proj, layer.k_proj, layer.v_proj)
    )
    pos = torch.arange(1, n + 1)[None]  # one on: (p + 1) / n0
    out = attend(
        LogFloor(0.3).apply(NoPE(), 3, n).encode(Attention(q, k, v, x, pos, pos, width**-0.5))
    )
    same(layer.o_proj(out.transpose(1, 2).flatten(-2)), theirs, 1e-5)


@oracle("inkling_temperature", "library: transformers InklingAttention")
def test_inkling_temperature_on_projected_logits_is_inklings_attention() -> None:
    modeling = pytest.importorskip("transformers.models.inkling.modeling_inkling")
    heads, width, curves, extent, n, floor = 2, 8, 3, 5, 11, 4
    config = SimpleNamespace(
        layer_types=["full"], head_dim=width, num_attention_heads=heads, num_key_value_heads=heads,
        rel_extent=extent, attention_dropout=0.0, hidden_size=heads * width, d_rel=curves,
        sconv_kernel_size=2,
        rms_norm_eps=1e-6, log_scaling_n_floor=floor, log_scaling_alpha=0.3,
        _attn_implementation="eager",
    )  # fmt: skip
    torch.manual_seed(0)
    layer = modeling.InklingAttention(config, 0).double().eval()
    torch.nn.init.normal_(layer.rel_logits_proj.proj)
    x = torch.randn(
        BATCH, n, heads * width, generator=torch.Generator().manual_seed(1), dtype=torch.float64
    )
    hidden = torch.full((n, n), -torch.inf, dtype=torch.float64).triu(1)[None, None]
    theirs = layer(x, attention_mask=hidden)[0]

    def split(t: Tensor) -> Tensor:
        return t.unflatten(-1, (heads, width))

    q = layer.q_norm(split(layer.q_proj(x))).transpose(1, 2)
    k = layer.k_norm(
        split(layer.k_sconv(layer.k_proj(x), past_key_values=None, conv_mask=None))
    ).transpose(1, 2)
    v = split(layer.v_sconv(layer.v_proj(x), past_key_values=None, conv_mask=None)).transpose(1, 2)
    base = given(
        ProjectedLogits(heads, heads * width, curves, extent),
        w=layer.r_proj.weight.detach().unflatten(0, (heads, curves)),
        bank=layer.rel_logits_proj.proj.detach(),
    )
    pos = torch.arange(n)[None]
    a = Attention(q, k, v, x, pos, pos, scale=1 / width)
    out = attend(InklingTemperature(0.3).apply(base, floor, n).encode(a))
    same(layer.o_proj(out.transpose(1, 2).flatten(-2)), theirs, 1e-5)
    plain = attend(LogFloor(0.3).apply(base, floor, n).encode(a))
    assert not torch.allclose(out, plain, atol=1e-3)


def test_a_temperature_of_the_host_or_around_it_does_not_reach_the_bias_through_inklings() -> None:
    a, bias = call(), scores(ALiBi(HEADS), replace(call(), q=0 * call().q))
    t = factors(a, inkling)
    ssmax = SSMax(ALiBi(HEADS), HEADS, L).double()
    inside = scores(extended(InklingTemperature(0.3), ssmax), a)
    same(inside, t * scores(ssmax, a))
    log = torch.tensor([log_n(i, 0) for i in range(N)], dtype=torch.float64)[:, None]
    content = scores(ALiBi(HEADS), a) - bias
    for first, second in ((InklingTemperature(0.3), LogN()), (LogN(), InklingTemperature(0.3))):
        same(scores(extended(Both(first, second), ALiBi(HEADS)), a), log * t * content + t * bias)


def test_inklings_temperature_multiplies_a_bias_that_is_heated_already_once() -> None:
    class AllHot(PositionEncoding):
        def encode(self, a: Attention) -> Attention:
            a = a.plus(lambda rows: a.distance(rows)[:, None].double())
            return a.heated(torch.full((1, 1, 1, 1), 3.0, dtype=torch.float64), scales_bias=True)

    a = call()
    t = factors(a, inkling)
    same(scores(extended(InklingTemperature(0.3), AllHot()), a), t * scores(AllHot(), a))


def test_inklings_temperature_reaches_every_part_of_a_plan() -> None:
    class Far(Wrapper):
        def encode(self, a: Attention) -> Regions:
            parts = (self.host.encode(a), self.host.encode(a.at(a.q_pos * 0 + 2, a.k_pos * 0)))
            return Regions(lambda rows: (a.offset(rows) > 2)[None, None].long(), parts)  # type: ignore[arg-type]

    a = call()
    t = factors(a, inkling)
    for base in (Far(ALiBi(HEADS)), NAPE(HEADS)):
        same(scores(extended(InklingTemperature(0.3), base), a), t * scores(base, a))


@oracle("yarn_temperature", "identity: PI and it are YaRN with every pair interpolated")
@pytest.mark.parametrize("scale", [None, 1.0, 8.0])
def test_yarns_temperature_is_the_square_of_its_factor_on_cosine_and_sine(
    scale: float | None,
) -> None:
    a, s = call(), N / L if scale is None else scale
    base = RoPE(WIDTH)
    yarn = base.variant(
        frequencies=base.frequencies.stretched((s,) * (WIDTH // 2), YaRN().magnitude(42, s))
    )
    same(scores(extended(Both(PI(scale), YarnTemperature(scale)), base), a), scores(yarn, a))


@oracle("yarn_temperature", "library: transformers yarn")
def test_yarns_temperature_is_the_squared_attention_factor_of_transformers() -> None:
    utilities = pytest.importorskip("transformers.modeling_rope_utils")
    from transformers import LlamaConfig

    parameters = {
        "rope_type": "yarn",
        "rope_theta": 1e4,
        "factor": 8.0,
        "original_max_position_embeddings": 64,
    }
    config = LlamaConfig(
        hidden_size=WIDTH,
        num_attention_heads=1,
        head_dim=WIDTH,
        max_position_embeddings=512,
        rope_parameters=parameters,
    )
    _, factor = utilities.ROPE_INIT_FUNCTIONS["yarn"](config, device="cpu")
    a = call()
    same(scores(YarnTemperature().apply(NoPE(), 64, 512), a), factor**2 * scores(NoPE(), a), 1e-6)


def test_temperatures_of_low_precision_queries_are_formed_in_float32() -> None:
    a = call(range(600, 607))
    a = replace(a, q=a.q.bfloat16(), k=a.k.bfloat16(), v=a.v.bfloat16())
    for extension, tau, _ in TEMPERATURES.values():
        hot = extended(extension, NoPE()).encode(a)
        assert hot.temperature.dtype == torch.float32 and attend(hot).dtype == torch.bfloat16
        row = [tau(i, p) for i, p in enumerate(a.q_pos[0].tolist())]
        same(
            hot.temperature[0].expand(1, N, 1).double(),
            torch.tensor(row, dtype=torch.float64)[None, :, None],
            1e-5,
        )
