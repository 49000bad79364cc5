"""Extensions by temperature, mask and table, and several in order.

As in `test_closed_forms`, the oracle is a plain loop in Python floats: of scores where a
temperature acts, of what each query sees where a mask does, of rows where a table is extended.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from conftest import composed, names
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
    shaken,
)
from omegaconf import OmegaConf
from torch import Tensor

from posbench.attention import Attention, Regions, attend, dense
from posbench.composing.building import build
from posbench.encoding import EncodingStack, PositionEncoding, Wrapper
from posbench.encodings.alibi import ALiBi, alibi_slopes
from posbench.encodings.coupling import Coupling
from posbench.encodings.learned import Learned
from posbench.encodings.multiplicative import Multiplicative
from posbench.encodings.nape import NAPE
from posbench.encodings.nope import NoPE
from posbench.encodings.projected_logits import ProjectedLogits
from posbench.encodings.random_positions import RandomPositions
from posbench.encodings.rope import RoPE
from posbench.encodings.shape import SHAPE
from posbench.encodings.sliding_window import SlidingWindow as WindowEncoding
from posbench.encodings.ssmax import SSMax
from posbench.encodings.stick_breaking import StickBreaking
from posbench.encodings.t5 import T5
from posbench.encodings.transformer_xl import TransformerXL
from posbench.encodings.xpos import XPos
from posbench.errors import IllegalExtension
from posbench.extension import Extension
from posbench.extensions.block_causal import BlockCausal
from posbench.extensions.both import Both
from posbench.extensions.chunked import Chunked
from posbench.extensions.direct import Direct
from posbench.extensions.inkling_temperature import InklingTemperature
from posbench.extensions.log_floor import LogFloor
from posbench.extensions.log_n import LogN
from posbench.extensions.ntk import NTK
from posbench.extensions.pi import PI
from posbench.extensions.sliding_window import SlidingWindow
from posbench.extensions.table_hierarchical import TableHierarchical
from posbench.extensions.table_interpolation import TableInterpolation
from posbench.extensions.table_tiling import TableTiling
from posbench.extensions.yarn import YaRN
from posbench.extensions.yarn_temperature import YarnTemperature

oracle = pytest.mark.oracle
L = 4  # positions seen in training, of N = 7
MODEL = 6

HOSTS: dict[str, Callable[[], PositionEncoding]] = {
    "rope": lambda: RoPE(WIDTH),
    "alibi": lambda: ALiBi(HEADS),
    "t5": lambda: T5(HEADS, 64, 4, 8),
    "txl": lambda: TransformerXL(HEADS, WIDTH, HEADS * WIDTH),
    "nape": lambda: NAPE(HEADS),
    "stick": lambda: StickBreaking(),
}
hosts = pytest.mark.parametrize("make", HOSTS.values(), ids=list(HOSTS))


def host(make: Callable[[], PositionEncoding]) -> PositionEncoding:
    torch.manual_seed(0)
    return shaken(make())


def extended(extension: Extension, base: PositionEncoding, test: int = N) -> PositionEncoding:
    return extension.apply(base, L, test)


def factors(a: Attention, tau: Callable[[int, float], float]) -> Tensor:
    rows = [[tau(i, p) for i, p in enumerate(row)] for row in a.q_pos.tolist()]
    return torch.tensor(rows, dtype=torch.float64)[:, None, :, None]


# -- temperatures ----------------------------------------------------------------------------------


def log_n(i: int, p: float) -> float:
    return max(1.0, math.log(i + 1) / math.log(L))


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


# -- masks -----------------------------------------------------------------------------------------

Rule = Callable[[int, int, int], bool]
"""(i, j, size) -> seen, for j <= i"""
MASKS: dict[str, tuple[type[Extension], Rule, int]] = {
    "sliding_window": (SlidingWindow, lambda i, j, w: i - w < j, L),
    "chunked": (Chunked, lambda i, j, c: math.floor(i / c) == math.floor(j / c), L),
    "block_causal": (
        BlockCausal,
        lambda i, j, b: math.floor(i / b) - math.floor(j / b) in (0, 1),
        L // 2,
    ),
}
masks = pytest.mark.parametrize(
    ("cls", "rule", "usual"),
    [
        pytest.param(*case, marks=oracle(name, "double loop"), id=name)
        for name, case in MASKS.items()
    ],
)


def weighted(a: Attention, z: Tensor, rule: Rule, size: int) -> Tensor:
    """Softmax over the keys that are seen, and the sum of their values, term by term."""
    z, v, n = z.tolist(), a.v.tolist(), a.num_queries

    def row(b: int, h: int, i: int) -> list[float]:
        power = {j: math.exp(z[b][h][i][j]) for j in range(i + 1) if rule(i, j, size)}
        return [
            sum(p * v[b][h][j][c] for j, p in power.items()) / sum(power.values())
            for c in range(WIDTH)
        ]

    return torch.tensor(
        [[[row(b, h, i) for i in range(n)] for h in range(HEADS)] for b in range(BATCH)],
        dtype=torch.float64,
    )


@everywhere
@pytest.mark.parametrize("size", [None, 1, 2, 3, N, 100])
@masks
def test_a_mask_hides_keys_by_index(
    cls: Any, rule: Rule, usual: int, size: int | None, positions: list[float]
) -> None:
    a, base = call(positions), RoPE(WIDTH)
    encoding = extended(cls(size), base)
    expected = weighted(a, scores(base, a), rule, usual if size is None else size)
    same(dense(encoding.encode(a)), expected)
    for block in (1, 3, N):
        same(attend(encoding.encode(a), block), expected)
    same(scores(encoding, a), scores(base, a))


@pytest.mark.parametrize("trained", [1, 2, 5, 6, 7])
@pytest.mark.parametrize("cls", [SlidingWindow, Chunked, BlockCausal])
def test_a_mask_hides_nothing_of_the_training_length_and_something_beyond(
    cls: Any, trained: int
) -> None:
    """Odd lengths as well: half of them is rounded up."""
    n = 3 * trained + 1
    allowed = cls().apply(NoPE(), trained, n).encode(call(range(n))).allowed(slice(0, n))[0, 0]
    causal = torch.ones(n, n, dtype=torch.bool).tril()
    assert torch.equal(allowed[:trained, :trained], causal[:trained, :trained])
    assert (
        not torch.equal(allowed, causal)
        and bool(allowed.diagonal().all())
        and not (allowed & ~causal).any()
    )
    assert cls().is_identity and not cls(trained).is_identity
    a = call(range(trained))
    assert torch.equal(dense(cls().apply(NoPE(), trained, n).encode(a)), dense(NoPE().encode(a)))


@oracle("sliding_window", "library: transformers sliding_window_causal_mask_function")
@oracle("chunked", "library: transformers chunked_causal_mask_function")
@pytest.mark.parametrize("size", [1, 3, 4, 50])
def test_windows_and_chunks_are_those_of_transformers(size: int) -> None:
    masking = pytest.importorskip("transformers.masking_utils")
    i, n = torch.arange(17), 17
    theirs = {
        SlidingWindow: masking.sliding_window_causal_mask_function(size),
        Chunked: masking.chunked_causal_mask_function(size, torch.zeros(1, dtype=torch.long)),
    }
    for cls, mask in theirs.items():
        allowed = extended(cls(size), NoPE()).encode(call(range(n))).allowed(slice(0, n))[0, 0]
        assert torch.equal(allowed, mask(0, 0, i[:, None], i[None, :]))


@oracle("sliding_window", "identity: the encoding of this name")
@hosts
def test_a_window_put_on_afterwards_is_the_window_of_the_encoding(
    make: Callable[[], PositionEncoding],
) -> None:
    """Also where the host counts or breaks among the keys that are seen."""
    a, base = call(), host(make)
    same(
        attend(extended(SlidingWindow(3), base).encode(a)),
        attend(WindowEncoding(base, 3).encode(a)),
    )
    same(
        attend(extended(SlidingWindow(), base).encode(a)), attend(WindowEncoding(base, L).encode(a))
    )


@oracle("chunked", "identity: every chunk is a sequence of its own")
@pytest.mark.parametrize("make", [lambda: RoPE(WIDTH), lambda: ALiBi(HEADS), NoPE])
def test_every_chunk_is_attended_to_by_itself(make: Callable[[], PositionEncoding]) -> None:
    a, base = call(), make()
    out = attend(extended(Chunked(3), base).encode(a))
    for start in range(0, N, 3):
        part = slice(start, min(start + 3, N))
        q, k, v, x = (getattr(a, name)[..., part, :] for name in ("q", "k", "v", "x"))
        alone = Attention(q, k, v, x, a.q_pos[:, part], a.k_pos[:, part], a.scale)
        same(out[:, :, part], attend(base.encode(alone)))


@oracle("block_causal", "enumeration: how many keys each place of a block sees")
@pytest.mark.parametrize("block", [1, 2, 3, 5])
def test_a_block_sees_itself_and_the_one_before(block: int) -> None:
    n = 17
    allowed = (
        extended(BlockCausal(block), XPos(WIDTH, 8.0))
        .encode(call(range(n)))
        .allowed(slice(0, n))[0, 0]
    )
    assert allowed.sum(-1).tolist() == [
        i + 1 if i < block else block + i % block + 1 for i in range(n)
    ]


def test_masks_meet() -> None:
    a = call(range(12))
    both = (
        extended(Both(SlidingWindow(3), Chunked(4)), NoPE()).encode(a).allowed(slice(0, 12))[0, 0]
    )
    expected = [[j <= i and i - j < 3 and i // 4 == j // 4 for j in range(12)] for i in range(12)]
    assert both.tolist() == expected


# -- tables ----------------------------------------------------------------------------------------


def table(rows: int = 40) -> Tensor:
    return torch.randn(rows, MODEL, generator=torch.Generator().manual_seed(2), dtype=torch.float64)


def learned(cls: type[Learned] = Learned, rows: int = 40) -> Learned:
    return given(cls(MODEL, rows), table=table(rows))  # type: ignore[return-value]


def interpolated(rows: list[list[float]], p: int, test: int) -> list[float]:
    u = p * (L - 1) / (test - 1)
    low = math.floor(u + 1e-9)
    f = u - low
    high = low + 1 if f > 1e-9 else low
    return [(1 - f) * x + f * y for x, y in zip(rows[low], rows[high], strict=True)]


def hierarchical(rows: list[list[float]], p: int, a: float) -> list[float]:
    """As J. Su writes it, with u in place of rows; positions from 1."""
    i, j = p // L + 1, p % L + 1

    def u(index: int) -> list[float]:
        return [
            (x - a * first) / (1 - a) for x, first in zip(rows[index - 1], rows[0], strict=True)
        ]

    return [a * x + (1 - a) * y for x, y in zip(u(i), u(j), strict=True)]


TABLES: dict[str, tuple[Extension, Callable[[list[list[float]], int, int], list[float]]]] = {
    "table_interpolation": (TableInterpolation(), interpolated),
    "table_tiling": (TableTiling(), lambda rows, p, test: rows[p % L]),
    "table_hierarchical": (TableHierarchical(), lambda rows, p, test: hierarchical(rows, p, 0.4)),
}
tables = pytest.mark.parametrize(
    ("extension", "rule"),
    [
        pytest.param(*case, marks=oracle(name, "double loop"), id=name)
        for name, case in TABLES.items()
    ],
)


@pytest.mark.parametrize("test", [L, L + 1, 9, L * L])
@pytest.mark.parametrize("cls", [Learned, Multiplicative])
@tables
def test_rows_are_those_of_the_formula(
    extension: Extension, rule: Any, cls: type[Learned], test: int
) -> None:
    base, rows = learned(cls), table().tolist()
    x = torch.randn(
        BATCH, test, MODEL, generator=torch.Generator().manual_seed(1), dtype=torch.float64
    )
    new = torch.tensor([rule(rows, p, test) for p in range(test)], dtype=torch.float64)
    expected = x + new if cls is Learned else x * (1 + new)
    encoding = extended(extension, base, test)
    same(encoding.embed(x, torch.arange(test)[None]), expected)
    order = torch.randperm(
        test, generator=torch.Generator().manual_seed(3)
    )  # each by its own position
    same(encoding.embed(x[:, order], order[None].expand(BATCH, -1)), expected[:, order])
    assert {*encoding.parameters()} == {*base.parameters()}
    a = call(range(test))
    assert torch.equal(attend(encoding.encode(a)), attend(base.encode(a)))


@pytest.mark.parametrize("cls", [Learned, Multiplicative])
@pytest.mark.parametrize("extension", [TableInterpolation(), TableTiling(), TableHierarchical()])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_trained_rows_are_unchanged_at_the_training_length_bit_for_bit(
    extension: Extension, cls: type[Learned], dtype: torch.dtype
) -> None:
    base, pos = learned(cls, 100).to(dtype), torch.arange(49)[None]
    x = torch.randn(1, 49, MODEL, generator=torch.Generator().manual_seed(1)).to(dtype)
    for test in (49, 20):
        assert torch.equal(extension.apply(base, 49, test).embed(x, pos), base.embed(x, pos))
    assert extension.is_identity and extension.apply(base, 49, 60).embed(x, pos).dtype == dtype


@oracle("table_interpolation", "library: torch interpolate with aligned corners")
@pytest.mark.parametrize(
    ("scale", "test"), [(None, 9), (None, 23), (2.0, 99), (2.6, 99), (1.0, 99)]
)
def test_interpolation_is_a_linear_resampling_with_aligned_corners(
    scale: float | None, test: int
) -> None:
    trained = 10
    longest = max(test, trained) if scale is None else round(scale * trained)
    resampled = F.interpolate(
        table()[None, :trained].mT, size=longest, mode="linear", align_corners=True
    ).mT
    pos = torch.arange(longest)[None]
    encoding = TableInterpolation(scale).apply(learned(), trained, test)
    same(encoding.embed(torch.zeros(1, longest, MODEL).double(), pos), resampled)
    assert TableInterpolation(scale).is_identity == (scale in (None, 1.0))


def test_interpolation_keeps_the_ends() -> None:
    """No rounding: a position that falls on a row is that row, at any length."""
    base = learned(rows=100)
    for test in range(30, 3000, 97):
        encoding = TableInterpolation().apply(base, 30, test)
        ends = torch.tensor([[0, test - 1]])
        out = encoding.embed(torch.zeros(1, 2, MODEL).double(), ends)[0]
        assert torch.equal(out, base.table[[0, 29]])


@oracle("table_tiling", "identity: rows of positions L apart")
def test_tiled_rows_repeat() -> None:
    out = extended(TableTiling(), learned(), 20).embed(
        torch.zeros(1, 20, MODEL).double(), torch.arange(20)[None]
    )[0]
    assert torch.equal(out, table()[:L].repeat(5, 1))


@oracle("table_hierarchical", "identity: digits add up")
def test_hierarchical_rows_are_sums_of_their_digits_and_all_different() -> None:
    def new(a: float) -> Tensor:
        encoding = extended(TableHierarchical(a), learned(), L * L)
        return encoding.embed(torch.zeros(1, L * L, MODEL).double(), torch.arange(L * L)[None])[
            0
        ].unflatten(0, (L, L))

    rows = new(0.4)
    assert torch.equal(rows[0], table()[:L])
    same(rows - rows[:, :1], (rows[:1] - rows[:1, :1]).expand(L, -1, -1))
    same(rows[:, 0] - rows[0, 0], (table()[:L] - table()[0]) * 2 / 3)
    assert torch.cdist(rows.flatten(0, 1), rows.flatten(0, 1)).fill_diagonal_(1).min() > 0.01
    nearly = new(0.5 + 1e-9)
    same(nearly, nearly.mT.mT.transpose(0, 1), 1e-6)  # why one half is refused


@pytest.mark.parametrize("test", [L, 9])
@pytest.mark.parametrize("extension", [TableInterpolation(), TableTiling(), TableHierarchical()])
def test_positions_that_have_no_row_raise_and_fractions_do(extension: Extension, test: int) -> None:
    encoding = extended(extension, learned(rows=9), test)
    limit, x = encoding.max_positions, torch.zeros(1, 1, MODEL).double()
    if limit is None:
        encoding.embed(x, torch.tensor([[100_000]]))
    else:
        encoding.embed(x, torch.tensor([[limit - 1]]))
        with pytest.raises(IndexError):
            encoding.embed(x, torch.tensor([[limit]]))
    assert not encoding.float_positions and "rows" not in encoding.handles and not encoding.relative
    with pytest.raises((IndexError, RuntimeError)):
        encoding.embed(x, torch.tensor([[0.25]]))


@pytest.mark.parametrize("extension", [TableInterpolation(), TableTiling(), TableHierarchical()])
def test_tables_inside_wrappers_are_extended(extension: Extension) -> None:
    x, pos = torch.zeros(1, 9, MODEL).double(), torch.arange(9)[None]
    plain = extended(extension, learned(), 9).embed(x, pos)
    for wrap in (
        lambda t: Coupling(t, 40),
        lambda t: SHAPE(t, 3),
        lambda t: SSMax(t, HEADS, L).double(),
    ):
        assert "rows" in wrap(learned()).handles
        assert torch.equal(extended(extension, wrap(learned()), 9).embed(x, pos), plain)


@pytest.mark.parametrize("name", names("encoding"))
def test_whatever_offers_rows_is_affine_in_the_row_of_each_position(name: str) -> None:
    """What the extensions of tables rest on: doubling the table doubles what it changes."""
    from posbench.catalogue.conformance import Subject

    layer = next(Subject(f"encoding={name}").layers())
    if "rows" not in layer.handles:
        return
    x = torch.randn(1, 6, 32, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    pos = torch.tensor([[3, 1, 4, 1, 5, 9]])
    once, mixed = layer.embed(x, pos), 0.3 * layer.embed(x, pos) + 0.7 * layer.embed(x, pos * 0)
    with torch.no_grad():
        layer.table[[1, 3, 4, 5, 9]] = 0.3 * layer.table[[1, 3, 4, 5, 9]] + 0.7 * layer.table[0]
    same(layer.embed(x, pos), mixed)
    assert not torch.allclose(layer.embed(x, pos), once)


# -- several in order ------------------------------------------------------------------------------


@oracle("both", "identity: one after the other")
@pytest.mark.parametrize(
    ("first", "second", "make"),
    [
        (YaRN(2.0), LogN(), lambda: RoPE(WIDTH)),
        (LogN(), YaRN(2.0), lambda: RoPE(WIDTH)),
        (SlidingWindow(3), NTK(4.0), lambda: RoPE(WIDTH)),
        (Chunked(3), InklingTemperature(0.4), lambda: ALiBi(HEADS)),
        (Direct(), LogFloor(), NoPE),
    ],
)
def test_a_sequence_is_the_second_after_the_first(
    first: Extension, second: Extension, make: Callable[[], PositionEncoding]
) -> None:
    a, base = call(), make()
    twice = attend(second.apply(first.apply(base, L, N), L, N).encode(a))
    stack = EncodingStack([base, base])
    for layer in Both(first, second).extend(stack, L, N):
        assert torch.equal(attend(layer.encode(a)), twice)
    assert torch.equal(attend(Both(first, second).apply(base, L, N).encode(a)), twice)
    for one in (first, second):
        assert not one.changes or not torch.allclose(
            attend(one.apply(base, L, N).encode(a)), attend(base.encode(a))
        )


@oracle("both", "double loop")
def test_pi_and_log_n_are_both_formulas_at_once() -> None:
    a = call()
    q, k, p = a.q.tolist(), a.k.tolist(), a.q_pos.tolist()
    half, s = WIDTH // 2, N / L

    def score(b: int, h: int, i: int, j: int) -> float:
        total = 0.0
        for m in range(half):
            angle = (p[b][i] - p[b][j]) * 10000 ** (-m / half) / s
            x, y = (
                complex(q[b][h][i][m], q[b][h][i][m + half]),
                complex(k[b][h][j][m], k[b][h][j][m + half]),
            )
            total += (x * y.conjugate() * complex(math.cos(angle), math.sin(angle))).real
        return log_n(i, 0) * a.scale * total

    same(scores(extended(Both(PI(), LogN()), RoPE(WIDTH)), a), by_pairs(a, score))


def test_a_sequence_declares_what_its_parts_do() -> None:
    class Tuned(Direct):
        method_class = "fine-tuned"

    plain = Both(Direct(), Direct())
    assert (plain.needs, plain.changes, plain.is_identity, plain.method_class) == (
        "",
        False,
        True,
        "zero-shot",
    )
    mixed = Both(NTK(), Both(LogN(), NTK(4.0)))
    assert mixed.needs == "frequencies and temperature and frequencies"
    assert mixed.changes and Both(Direct(), LogN()).changes and not mixed.is_identity
    assert Both(NTK(), LogN()).is_identity and not Both(NTK(), LogN(5)).is_identity
    assert Both(LogN(), Tuned()).method_class == Both(Tuned(), LogN()).method_class == "fine-tuned"
    assert Both(LogN(), LogFloor()).needs == "temperature"


def test_each_part_of_a_sequence_refuses_by_itself() -> None:
    alibi = EncodingStack([ALiBi(HEADS)])
    for parts in ((YaRN(), LogN()), (LogN(), YaRN())):
        with pytest.raises(IllegalExtension, match="YaRN needs frequencies"):
            Both(*parts).extend(alibi, L, N)
    with pytest.raises(
        IllegalExtension, match="TableTiling needs rows"
    ):  # the first has used them up
        Both(TableInterpolation(), TableTiling()).extend(EncodingStack([learned()]), L, N)


def test_each_part_of_a_sequence_takes_the_layers_that_it_can() -> None:
    hybrid = EncodingStack([RoPE(WIDTH), ALiBi(HEADS)], num_specifications=2)
    a = call()
    rope, alibi = Both(NTK(4.0), LogN()).extend(hybrid, L, N)
    same(scores(rope, a), scores(extended(LogN(), NTK(4.0).apply(RoPE(WIDTH), L, N)), a))
    same(scores(alibi, a), scores(extended(LogN(), ALiBi(HEADS)), a))


def chosen(*words: str) -> Extension:
    node = OmegaConf.to_container(composed("extension=both", *words).extension, resolve=True)
    return build(node, "extension")  # type: ignore[arg-type]


def kinds(extension: Extension) -> Any:
    return (
        [kinds(p) for p in extension.parts]
        if isinstance(extension, Both)
        else type(extension).__name__
    )


def test_a_sequence_is_chosen_on_the_command_line() -> None:
    assert kinds(chosen()) == ["YaRN", "LogN"]
    assert kinds(chosen("extension@extension.second=sliding_window")) == ["YaRN", "SlidingWindow"]
    three = chosen(
        "extension@extension.first=ntk",
        "extension@extension.second=both",
        "extension@extension.second.first=log_floor",
        "extension.second.first.beta=0.7",
    )
    assert kinds(three) == ["NTK", ["LogFloor", "LogN"]]
    assert three.parts[1].parts[0].beta == 0.7  # type: ignore[attr-defined]


# -- settings at their limit -----------------------------------------------------------------------


def test_the_smallest_settings_are_not_refused() -> None:
    for extension in (LogN(2), SlidingWindow(1), Chunked(1), BlockCausal(1), YarnTemperature(1.0)):
        attend(extended(extension, NoPE()).encode(call()))
    TableHierarchical().apply(learned(), 4, 16)
    TableInterpolation().apply(learned(), 2, 5)


@pytest.mark.parametrize("extension", [TableInterpolation(), TableTiling(), TableHierarchical()])
def test_tables_are_extended_where_there_is_one(extension: Extension) -> None:
    with pytest.raises(IllegalExtension, match="needs rows"):
        extension.extend(EncodingStack([RoPE(WIDTH)]), L, N)


def test_where_training_has_filled_the_range_of_positions_nothing_is_extended() -> None:
    stack = EncodingStack([RandomPositions(RoPE(WIDTH), 30)])
    spans = stack.span(L, training=True), stack.span(N)
    a = call()
    for extension in (
        LogN(),
        LogFloor(),
        InklingTemperature(),
        YarnTemperature(),
        SlidingWindow(),
        Chunked(),
    ):
        (layer,) = extension.extend(stack, *spans)
        assert torch.equal(attend(layer.encode(a)), dense(RoPE(WIDTH).encode(a))) or torch.allclose(
            attend(layer.encode(a)), attend(RoPE(WIDTH).encode(a))
        )
