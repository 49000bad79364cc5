"""Encodings that differ by head or layer, temperatures, sinks, and positions that are drawn or
supplied.

As in `test_closed_forms`, the oracle is a double loop over (i, j) in Python floats. Where masks or
the normaliser are touched, outputs are compared as well. What is random is held against its
distribution.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from conftest import setup
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
    loop,
    product,
    same,
    scores,
)
from torch import Tensor

from posbench.attention import Attention, Heads, Plan, Regions, attend, dense
from posbench.encoding import Draw, EncodingStack, PositionEncoding, Wrapper
from posbench.encodings.abacus import Abacus
from posbench.encodings.alibi import ALiBi, alibi_slopes
from posbench.encodings.alibi_learned import LearnedALiBi
from posbench.encodings.bipe import BiPE
from posbench.encodings.cape import CAPE
from posbench.encodings.coupling import Coupling
from posbench.encodings.hard_alibi import HardALiBi
from posbench.encodings.headscale import HeadScale
from posbench.encodings.kerple_power import KerplePower
from posbench.encodings.learned import Learned
from posbench.encodings.nape import NAPE
from posbench.encodings.nope import NoPE
from posbench.encodings.random_floats import RandomFloats
from posbench.encodings.random_positions import RandomPositions
from posbench.encodings.rope import RoPE
from posbench.encodings.scale_invariant import ScaleInvariant
from posbench.encodings.shape import SHAPE
from posbench.encodings.sink import Sink
from posbench.encodings.sinusoidal import Sinusoidal
from posbench.encodings.sliding_window import SlidingWindow
from posbench.encodings.softmax_off_by_one import OffByOne
from posbench.encodings.ssmax import SSMax
from posbench.encodings.t5 import T5
from posbench.errors import ConfigError
from posbench.scoring import inputs

oracle = pytest.mark.oracle
Visible = Callable[[int, int, int], bool]
"""(head, i, j), by index -> whether query i sees key j <= i"""


def outputs(
    a: Attention,
    z: Tensor,
    visible: Visible = lambda h, i, j: True,
    extra: list[float] | None = None,
) -> Tensor:
    """Weighted sums of values from scores [batch, heads, n, n], term by term; `extra` is added to
    each denominator.
    """
    z, v, n = z.tolist(), a.v.tolist(), a.num_queries
    extra = extra or [0.0] * a.num_heads

    def row(b: int, h: int, i: int) -> list[float]:
        keys = [j for j in range(i + 1) if visible(h, i, j)]
        powers = [math.exp(z[b][h][i][j]) for j in keys]
        total = sum(powers) + extra[h]
        return [
            sum(p * v[b][h][j][c] for p, j in zip(powers, keys, strict=True)) / total
            for c in range(a.v.shape[-1])
        ]

    heads, batch = range(a.num_heads), range(a.v.shape[0])
    return torch.tensor(
        [[[row(b, h, i) for i in range(n)] for h in heads] for b in batch], dtype=torch.float64
    )


def every_way(encoding: PositionEncoding, a: Attention, expected: Tensor) -> None:
    """The dense path and the executor's choice, in one block and in several."""
    same(dense(encoding.encode(a)), expected)
    for block in (1, 3, N):
        same(attend(encoding.encode(a), block), expected)


def drawn(
    encoding: PositionEncoding, ids: Tensor, seed: int = 0, training: bool = True, batch: int = 4
) -> Tensor:
    return encoding.positions(ids, Draw(batch, torch.Generator().manual_seed(seed), training))


def many(
    encoding: PositionEncoding, ids: Tensor, draws: int, training: bool = True, batch: int = 1
) -> Tensor:
    """[draws, batch|1, n], one generator for all."""
    draw = Draw(batch, torch.Generator().manual_seed(5), training)
    return torch.stack([encoding.positions(ids, draw) for _ in range(draws)])


def marked(kind: str, **cases: tuple[object, ...]) -> list[Any]:
    """Cases of several methods, each with the mark of its own; the name of the method comes
    first.
    """
    return [
        pytest.param(name, *values, marks=oracle(name, kind), id=name)
        for name, values in cases.items()
    ]


INDEX = torch.arange(N)[None]


# -- ALiBi with learned slopes ---------------------------------------------------------------------


@oracle("alibi_learned", "double loop")
@everywhere
def test_learned_alibi_subtracts_the_exponential_times_the_distance(positions: list[float]) -> None:
    logs = [-0.3, 0.7, -2.0]
    a = call(positions)
    z = scores(given(LearnedALiBi(HEADS), log_slopes=logs), a)
    same(z, loop(a, lambda h, i, j: -math.exp(logs[h]) * (i - j)), 1e-9)


@oracle("alibi_learned", "identity: starts as ALiBi")
@pytest.mark.parametrize("heads", [1, 2, 3, 8, 12])
@pytest.mark.parametrize("steepness", [8.0, 3.0])
def test_learned_alibi_starts_as_alibi(heads: int, steepness: float) -> None:
    a = call(POSITIONS["with gaps"], heads)
    same(
        scores(LearnedALiBi(heads, steepness).double(), a), scores(ALiBi(heads, steepness), a), 1e-4
    )


@oracle("alibi_learned", "library: x-transformers AlibiPositionalBias")
def test_learned_alibi_starts_as_that_of_x_transformers() -> None:
    """Theirs has |i - j|; below the diagonal they are the same."""
    x_transformers = pytest.importorskip("x_transformers.x_transformers")
    theirs = x_transformers.AlibiPositionalBias(heads=6)(N, N).double()
    a = call(heads=6)
    same(
        scores(LearnedALiBi(6).double(), replace(a, q=0 * a.q)).tril(),
        theirs.tril().expand(BATCH, -1, -1, -1),
        1e-6,
    )


@oracle("alibi_learned", "identity: KERPLE power with exponent 1")
def test_learned_alibi_is_kerple_power_with_exponent_one() -> None:
    a, slopes = call(POSITIONS["with gaps"]), [0.03, 0.5, 1.8]
    ours = given(LearnedALiBi(HEADS), log_slopes=[math.log(slope) for slope in slopes])
    same(
        attend(ours.encode(a)),
        attend(given(KerplePower(HEADS), r1=slopes, r2=[1.0] * HEADS).encode(a)),
    )


def test_learned_alibi_keeps_differences_at_large_positions() -> None:
    """In float32 at position 30 million: i and j counted from 0 would round neighbouring keys
    together.
    """
    encoding, far = LearnedALiBi(HEADS), [30_000_000 + 3 * i for i in range(N)]
    a, near = call(far), call([3 * i for i in range(N)])
    a, near = (replace(t, q=t.q.float(), k=t.k.float(), v=t.v.float()) for t in (a, near))
    assert torch.equal(scores(encoding, a), scores(encoding, near))


def test_learned_alibi_has_slopes_in_every_layer_and_a_gradient() -> None:
    stack = EncodingStack([LearnedALiBi(HEADS) for _ in range(2)])
    assert len(list(stack.parameters())) == 2
    a = call(POSITIONS["with gaps"])
    encoding = given(LearnedALiBi(HEADS), log_slopes=[-0.3, 0.7, -2.0])
    total = float((a.q_pos[:, :, None] - a.k_pos[:, None, :]).tril().sum())
    scores(encoding, a).tril().sum().backward()
    same(encoding.log_slopes.grad, -encoding.log_slopes.detach().exp() * total, 1e-8)


# -- Hard-ALiBi and windows ------------------------------------------------------------------------


@oracle("hard_alibi", "double loop")
@everywhere
@pytest.mark.parametrize(
    ("heads", "masked", "shortest"), [(3, 2, 1), (3, 3, 0), (2, None, 1), (4, 1, 3)]
)
def test_hard_alibi_masks_all_but_the_last_tokens_by_index(
    heads: int, masked: int | None, shortest: int, positions: list[float]
) -> None:
    """Head h < M sees offsets 0..shortest + h, the rest see all; scores are plain products."""
    a = call(positions, heads)
    encoding = HardALiBi(heads, masked, shortest)
    count = masked if masked is not None else 1
    same(scores(encoding, a), loop(a, lambda h, i, j: 0.0))
    every_way(
        encoding,
        a,
        outputs(a, scores(NoPE(), a), lambda h, i, j: h >= count or i - j <= shortest + h),
    )


def test_hard_alibi_masks_two_thirds_of_the_heads() -> None:
    """The published 8 of 12, with reach 0 to 7; here every masked head reaches one token
    further.
    """
    reach = {heads: HardALiBi(heads).reach for heads in (1, 2, 3, 4, 8, 12)}
    assert {heads: len(r) for heads, r in reach.items()} == {1: 1, 2: 1, 3: 2, 4: 2, 8: 5, 12: 8}
    assert HardALiBi(12, shortest=0).reach == tuple(range(8)) and HardALiBi(2).reach == (1,)


@oracle("hard_alibi", "library: transformers sliding_window_causal_mask_function")
@oracle("hard_alibi", "identity: wide reach is NoPE")
def test_hard_alibi_heads_are_windows_of_transformers() -> None:
    masking = pytest.importorskip("transformers.masking_utils")
    a = call(heads=4)
    i = torch.arange(N)
    allowed = HardALiBi(4, 3).encode(a).allowed(slice(0, N))[0]
    for head, window in enumerate((2, 3, 4)):
        mask = masking.sliding_window_causal_mask_function(window)
        assert torch.equal(allowed[head], mask(0, head, i[:, None], i[None, :]))
    assert torch.equal(allowed[3], i[:, None] >= i[None, :])
    same(attend(HardALiBi(4, 4, shortest=N).encode(a)), attend(NoPE().encode(a)))


@oracle("sliding_window", "double loop")
@oracle("rope_window_nope", "double loop")
@everywhere
@pytest.mark.parametrize("window", [1, 2, 4, N, 100])
def test_a_window_of_w_sees_w_keys_its_own_included(window: int, positions: list[float]) -> None:
    a, host = call(positions), RoPE(WIDTH)
    encoding = SlidingWindow(host, window)
    every_way(encoding, a, outputs(a, scores(host, a), lambda h, i, j: i - window < j))
    seen = encoding.encode(a).allowed(slice(0, N)).sum(-1).flatten()
    assert seen.tolist() == [min(i + 1, window) for i in range(N)]


@oracle("sliding_window", "identity: a wide window is the host")
@pytest.mark.parametrize(
    "make", [lambda: RoPE(WIDTH), lambda: ALiBi(HEADS), lambda: NAPE(HEADS), NoPE]
)
def test_a_window_as_wide_as_the_sequence_is_its_host(make: Callable[[], PositionEncoding]) -> None:
    a = call(POSITIONS["with gaps"])
    same(attend(SlidingWindow(make(), N).encode(a)), attend(make().encode(a)))
    assert not torch.allclose(
        attend(SlidingWindow(make(), N - 1).encode(a)), attend(make().encode(a))
    )


def layer_of(module: Any, config: Any, index: int) -> Any:
    return module(config, layer_idx=index).double().eval()


def of_projections(layer: Any, x: Tensor, heads: int) -> Attention:
    """The call that a layer's own projections of x make."""
    q, k, v = (
        projection(x).unflatten(-1, (heads, -1)).transpose(1, 2)
        for projection in (layer.q_proj, layer.k_proj, layer.v_proj)
    )
    pos = torch.arange(x.shape[1])[None]
    return Attention(q, k, v, x, pos, pos, scale=q.shape[-1] ** -0.5)


@oracle("rope_nope", "library: transformers SmolLM3Attention")
def test_rope_and_nope_layers_are_those_of_smollm3() -> None:
    smollm3 = pytest.importorskip("transformers.models.smollm3.modeling_smollm3")
    from transformers import SmolLM3Config

    run = setup("encoding=rope_nope", "model.num_layers=4")
    encodings = run.model().encodings
    heads, width, n = run.config.model.num_heads, run.config.model.width, 12
    config = SmolLM3Config(
        hidden_size=width, num_attention_heads=heads, num_key_value_heads=heads,
        num_hidden_layers=4,
        no_rope_layers=[1, 0, 1, 0], max_position_embeddings=n, attn_implementation="eager",
        pad_token_id=0,
        rope_parameters={"rope_type": "default", "rope_theta": 10000.0},
    )  # fmt: skip
    x = torch.randn(
        BATCH, n, width, generator=torch.Generator().manual_seed(1), dtype=torch.float64
    )
    hidden = torch.full((n, n), -torch.inf, dtype=torch.float64).triu(1)[None, None]
    tables = smollm3.SmolLM3RotaryEmbedding(config)(x, torch.arange(n)[None])
    for index, encoding in enumerate(encodings):
        layer = layer_of(smollm3.SmolLM3Attention, config, index)
        theirs = layer(x, position_embeddings=tables, attention_mask=hidden)[0]
        out = attend(encoding.encode(of_projections(layer, x, heads)))
        same(layer.o_proj(out.transpose(1, 2).flatten(-2)), theirs, 1e-5)


@oracle("rope_window_nope", "library: transformers Cohere2Attention")
def test_window_and_full_layers_are_those_of_cohere2() -> None:
    """RoPE in the sliding layers, none in the full ones. Theirs rotates neighbours: layout is the
    one difference.
    """
    cohere2 = pytest.importorskip("transformers.models.cohere2.modeling_cohere2")
    from transformers import Cohere2Config
    from transformers.masking_utils import sliding_window_causal_mask_function

    run = setup("encoding=rope_window_nope", "+encoding.layers.0.host.layout=interleaved")
    encodings = run.model().encodings
    heads, width, n = run.config.model.num_heads, run.config.model.width, 20
    window = round(0.25 * run.train_positions)
    config = Cohere2Config(
        hidden_size=width, num_attention_heads=heads, num_key_value_heads=heads,
        num_hidden_layers=2,
        layer_types=["sliding_attention", "full_attention"], sliding_window=window,
        attn_implementation="eager",
        rope_parameters={"rope_type": "default", "rope_theta": 10000.0},
    )  # fmt: skip
    x = torch.randn(
        BATCH, n, width, generator=torch.Generator().manual_seed(1), dtype=torch.float64
    )
    i, zero = torch.arange(n), torch.zeros(n, n, dtype=torch.float64)
    seen = sliding_window_causal_mask_function(window)(0, 0, i[:, None], i[None, :])
    masks = [zero.masked_fill(~seen, -torch.inf), zero.masked_fill(i[:, None] < i, -torch.inf)]
    tables = cohere2.Cohere2RotaryEmbedding(config)(x, i[None])
    for index, (encoding, mask) in enumerate(zip(encodings, masks, strict=True)):
        layer = layer_of(cohere2.Cohere2Attention, config, index)
        theirs = layer(x, position_embeddings=tables, attention_mask=mask[None, None])[0]
        out = attend(encoding.encode(of_projections(layer, x, heads)))
        same(layer.o_proj(out.transpose(1, 2).flatten(-2)), theirs, 1e-5)
    assert window < n and encodings.layers[0].window == window


@pytest.mark.parametrize(
    "name", marked("identity: its layers are RoPE and NoPE", rope_nope=(), rope_window_nope=())
)
def test_hybrids_repeat_their_layers_over_the_depth(name: str) -> None:
    run = setup(f"encoding={name}", "model.num_layers=3", "model.width=16")
    a = call(POSITIONS["with gaps"], 2)
    expected = [RoPE(WIDTH), NoPE(), RoPE(WIDTH)]
    for layer, plain in zip(run.model().encodings, expected, strict=True):
        same(scores(layer, a), scores(plain, a))
        windowed = name == "rope_window_nope" and isinstance(plain, RoPE)
        assert bool(layer.encode(a).masks) == windowed


# -- NAPE ------------------------------------------------------------------------------------------


@oracle("nape", "double loop")
@everywhere
@pytest.mark.parametrize("heads", [2, 3, 4, 7])
def test_nape_biases_the_first_half_of_the_heads(heads: int, positions: list[float]) -> None:
    a = call(positions, heads)

    def bias(h: int, i: float, j: float) -> float:
        return -(i - j) / (h + 1) if h < heads // 2 else 0.0

    expected = loop(a, bias)
    same(scores(NAPE(heads), a), expected, 1e-9)
    if positions == POSITIONS["counted"]:
        every_way(NAPE(heads), a, outputs(a, expected))


@oracle("nape", "library: x-transformers AlibiPositionalBias")
def test_nape_is_x_transformers_alibi_on_some_heads() -> None:
    x_transformers = pytest.importorskip("x_transformers.x_transformers")
    theirs = x_transformers.AlibiPositionalBias(heads=3, total_heads=6, slopes=[1, 1 / 2, 1 / 3])(
        N, N
    ).double()
    a = call(heads=6)
    same(
        scores(NAPE(6), replace(a, q=0 * a.q)).tril(), theirs.tril().expand(BATCH, -1, -1, -1), 1e-6
    )


def test_nape_needs_no_score_matrix() -> None:
    assert NAPE(4).encode(call(heads=4)).path == "fused"


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


# -- positions that are drawn ----------------------------------------------------------------------


@oracle("random_positions", "distribution: every subset equally often")
@pytest.mark.parametrize("training", [True, False])
def test_random_positions_are_a_uniform_subset_in_order(training: bool) -> None:
    """Also at evaluation. One draw for a batch."""
    encoding, ids = RandomPositions(RoPE(WIDTH), 5), torch.arange(3)[None]
    found = many(encoding, ids, 5000, training, batch=4)
    assert found.shape == (5000, 1, 3) and (found.diff() > 0).all()
    counts = Counter(tuple(row) for row in found[:, 0].tolist())
    assert set(counts) == {
        (i, j, k) for i in range(5) for j in range(i + 1, 5) for k in range(j + 1, 5)
    }
    assert all(
        400 < count < 600 for count in counts.values()
    )  # 500 expected, standard deviation 21


@oracle("random_positions", "identity: with as many positions as tokens it is its host")
def test_random_positions_from_a_full_range_are_the_ids() -> None:
    assert torch.equal(drawn(RandomPositions(RoPE(WIDTH), N), INDEX), INDEX)
    assert RandomPositions(RoPE(WIDTH), 50).span(7) == 50


@pytest.mark.parametrize("make", [RandomPositions, RandomFloats])
def test_random_positions_keep_ids_together_that_a_task_couples(
    make: Callable[..., Wrapper],
) -> None:
    ids = torch.tensor([[0, 1, 2, 3, 1, 2, 3], [0, 1, 1, 2, 3, 2, 0]])
    pos = drawn(make(RoPE(WIDTH), 40), ids)
    assert pos.shape == ids.shape
    table = {int(i): float(p) for i, p in zip(ids[0], pos[0], strict=True)}
    assert pos.tolist() == [[table[i] for i in row] for row in ids.tolist()]
    assert table[0] < table[1] < table[2] < table[3]


def test_random_positions_refuse_what_does_not_fit() -> None:
    encoding = RandomPositions(RoPE(WIDTH), 6)
    assert drawn(encoding, torch.arange(6)[None]).tolist() == [list(range(6))]
    for attempt in (lambda: drawn(encoding, INDEX), lambda: encoding.span(7)):
        with pytest.raises(
            ConfigError, match=r"7 positions cannot be drawn from largest=6: raise it"
        ):
            attempt()
    with pytest.raises(ConfigError, match=r"cannot be drawn from largest=20: raise it"):
        setup("encoding=random_positions", "encoding.largest=20").model()


@oracle("random_floats", "distribution: order statistics of uniform numbers")
@pytest.mark.parametrize("training", [True, False])
def test_random_floats_are_sorted_uniform_numbers(training: bool) -> None:
    """The k-th of n lies at k / (n + 1) of the range on average, and in every part of it; also at
    evaluation.
    """
    found = many(RandomFloats(RoPE(WIDTH), 50), INDEX, 4000, training, batch=4)
    assert found.shape == (4000, 1, N) and (found.diff() >= 0).all()
    assert 0 <= found.min() < 0.1 and 49.9 < found.max() < 50
    expected = torch.tensor([50 * k / (N + 1) for k in range(1, N + 1)])
    torch.testing.assert_close(found.mean((0, 1)), expected, rtol=0, atol=0.5)
    shares = torch.histc(found, 10, 0, 50) / found.numel()
    assert shares.min() > 0.09 and shares.max() < 0.11
    assert (found.frac() != 0).any() and RandomFloats(RoPE(WIDTH), 50).span(7) == 50


@oracle("shape", "distribution: uniform shifts")
def test_shape_shifts_every_sequence_by_a_number_of_its_own() -> None:
    """Uniform in 0..K, both ends included."""
    encoding = SHAPE(Sinusoidal(8), 4)
    shift = many(encoding, INDEX, 500, batch=10) - INDEX
    assert (
        shift.shape == (500, 10, N)
        and (shift == shift[..., :1]).all()
        and not shift.is_floating_point()
    )
    counts = Counter(shift[..., 0].flatten().tolist())
    assert set(counts) == set(range(5)) and all(900 < count < 1100 for count in counts.values())
    assert any(len(set(row)) > 1 for row in shift[..., 0].tolist())
    assert encoding.span(7, training=True) == 11 and encoding.span(7) == 7


@oracle("cape", "distribution: uniform shift, jitter and log-scaling")
def test_cape_shifts_jitters_and_scales() -> None:
    def found(shift: float, jitter: float, scaling: float) -> Tensor:
        return many(CAPE(Sinusoidal(8), shift, jitter, scaling), INDEX, 300, batch=10).double()

    def uniform(values: Tensor, bound: float) -> None:
        """In [-bound, bound], near both ends, as much in each quarter."""
        assert (
            values.abs().max() <= bound * (1 + 1e-4)
            and values.min() < -0.98 * bound
            and values.max() > 0.98 * bound
        )
        shares = torch.histc(values.float(), 4, -bound, bound) / values.numel()
        assert shares.min() > 0.21 and shares.max() < 0.29

    shift = found(3.0, 0, 1) - INDEX
    assert shift.shape == (300, 10, N) and (shift - shift[..., :1]).abs().max() < 1e-5
    uniform(shift[..., 0], 3.0)
    assert (shift[:, 0, 0] != shift[:, 1, 0]).all()

    jitter = found(0, 0.4, 1) - INDEX
    uniform(jitter, 0.4)
    assert (jitter[..., 0] != jitter[..., 1]).all() and (jitter[:, 0] != jitter[:, 1]).any()

    scaling = found(0, 0, 2.0)[..., 1:] / INDEX[:, 1:]
    assert (scaling - scaling[..., :1]).abs().max() < 1e-5
    uniform(scaling[..., 0].log(), math.log(2.0))

    both = found(3.0, 0, 2.0)  # the shift is scaled as well: position 0 goes to lambda times delta
    slope = both[..., 1] - both[..., 0]
    uniform(both[..., 0] / slope, 3.0)
    assert both[..., 0].abs().max() > 5.0


def test_cape_span_bounds_every_position() -> None:
    encoding = CAPE(Sinusoidal(8), 3.0, 0.5, 2.0)
    found = many(encoding, INDEX, 2000)
    furthest = encoding.span(N, training=True)
    assert found.max() + 1 <= furthest == math.ceil(2.0 * (N - 1 + 3.5)) + 1 and found.max() > 17
    assert encoding.span(N) == N


@pytest.mark.parametrize(
    ("name", "make"),
    marked(
        "identity: nothing is drawn at evaluation",
        shape=(lambda: SHAPE(Sinusoidal(8), 4),),
        cape=(lambda: CAPE(Sinusoidal(8), 4.0, 0.5, 1.5),),
    ),
)
def test_shifts_and_jitter_are_for_training_only(
    name: str, make: Callable[[], PositionEncoding]
) -> None:
    assert torch.equal(drawn(make(), INDEX, training=False), INDEX)
    assert not torch.equal(drawn(make(), INDEX), INDEX.expand(4, -1))


DRAWN = ("random_positions", "random_floats", "shape", "cape", "coupling", "abacus")


@pytest.mark.parametrize("name", DRAWN)
def test_positions_depend_on_the_generator_alone(name: str) -> None:
    run = setup(f"encoding={name}", "task=copy")
    stack = run.model().encodings
    batch = run.task.batch(run.train_length, 4, 0, "train", 0)
    first, again, other = (inputs(batch, stack, seed, training=True).pos for seed in (1, 1, 2))
    assert torch.equal(first, again) and not torch.equal(first, other)
    classes = {"coupling": "task-supplied ids", "abacus": "task-supplied ids"}
    assert stack.method_class == classes.get(name, "trained beyond")


@pytest.mark.parametrize(
    ("name", "make", "host"),
    marked(
        "identity: the host at the positions drawn",
        random_positions=(lambda host: RandomPositions(host, 40), RoPE(WIDTH)),
        random_floats=(lambda host: RandomFloats(host, 40), ALiBi(HEADS)),
        shape=(lambda host: SHAPE(host, 9), Sinusoidal(HEADS * WIDTH)),
        cape=(lambda host: CAPE(host, 9.0, 0.5, 1.2), Sinusoidal(HEADS * WIDTH)),
        coupling=(lambda host: Coupling(host, 40), Learned(HEADS * WIDTH, 40)),
    ),
)
def test_a_sampler_leaves_the_formula_to_its_host(
    name: str, make: Callable[[PositionEncoding], Wrapper], host: PositionEncoding
) -> None:
    encoding = make(host)
    pos = drawn(encoding, INDEX, batch=BATCH).expand(BATCH, -1)
    a = call()
    a = a.at(pos, pos)
    same(scores(encoding, a), scores(host, a))
    same(encoding.embed(a.x, pos), host.embed(a.x, pos))
    assert (
        host.float_positions == encoding.float_positions
        and host.max_positions == encoding.max_positions
    )


# -- positions that a task supplies ----------------------------------------------------------------


@oracle("coupling", "enumeration: starts and ids")
def test_coupling_starts_anywhere_that_fits() -> None:
    """Uniform in 0..N - 1 - max id, one start a sequence; at evaluation the ids as they are."""
    ids = torch.tensor([[0, 1, 2, 3, 1, 2, 3]])
    encoding = Coupling(Learned(8, 8), 8)
    start = many(encoding, ids, 500, batch=10) - ids
    assert start.shape == (500, 10, 7) and (start == start[..., :1]).all()
    counts = Counter(start[..., 0].flatten().tolist())
    assert set(counts) == set(range(5)) and all(900 < count < 1100 for count in counts.values())
    assert any(len(set(row)) > 1 for row in start[..., 0].tolist())
    assert torch.equal(drawn(encoding, ids, training=False), ids)
    assert encoding.span(3) == 8 and encoding.ids == "coupled"


@oracle("coupling", "hand case: copy")
def test_coupled_tokens_of_copy_get_one_row() -> None:
    """`BOS c a b SEP c a b`: a symbol and its copy, in training wherever the start is."""
    run = setup("encoding=coupling", "task=copy")
    model, n = run.model(), run.train_length
    batch = run.task.batch(n, 64, 0, "train", 0)
    table = model.encodings.layers[0].table
    for training in (True, False):
        data = inputs(batch, model.encodings, 3, training)
        added = model.encodings.embed(torch.zeros(64, 2 * n + 2, table.shape[1]), data.pos)
        assert torch.equal(added[:, 1 : n + 1], added[:, n + 2 :])
        assert torch.equal(added, table[data.pos])
    starts = inputs(batch, model.encodings, 3, True).pos[:, 0]
    assert len(set(starts.tolist())) > 5 and inputs(batch, model.encodings, 3).pos[:, 0].max() == 0
    assert model.encodings.ids == "coupled" and run.test_positions == len(table)


@oracle("abacus", "enumeration: offsets and ids")
def test_abacus_moves_numbers_and_leaves_other_tokens() -> None:
    """One offset for a batch, uniform in 0..rows - 1 - max id; at evaluation none."""
    ids = torch.tensor([[0, 1, 2, 3, 0, 1, 2], [0, 1, 0, 1, 2, 3, 0]])
    encoding = Abacus(8, 8)
    found = many(encoding, ids, 5000)
    offset = (found - ids)[:, ids > 0]
    assert (found[:, ids == 0] == 0).all() and (offset == offset[:, :1]).all()
    counts = Counter(offset[:, 0].tolist())
    assert set(counts) == set(range(5)) and all(900 < count < 1100 for count in counts.values())
    assert torch.equal(drawn(encoding, ids, training=False), ids)
    assert encoding.ids == "within" and encoding.max_positions == encoding.span(3) == 8


@oracle("abacus", "double loop")
def test_abacus_adds_the_row_of_the_digit() -> None:
    encoding = given(
        Abacus(5, 9), table=torch.randn(9, 5, generator=torch.Generator().manual_seed(2)).double()
    )
    x, pos = torch.randn(2, 4, 5, dtype=torch.float64), torch.tensor([[0, 3, 4, 0], [8, 0, 1, 2]])
    table, added = encoding.table.tolist(), encoding.embed(x, pos).tolist()
    for b in range(2):
        for t in range(4):
            row = table[int(pos[b, t])]
            assert added[b][t] == pytest.approx(
                [u + r for u, r in zip(x[b, t].tolist(), row, strict=True)], abs=1e-12
            )
    a = call()
    same(scores(encoding, a), scores(NoPE(), a))


@oracle("abacus", "hand case: copy")
def test_abacus_rows_of_copy() -> None:
    """`BOS c a b SEP c a b`: rows 0 1 2 3 0 1 2 3, and one table for all layers."""
    run = setup("encoding=abacus", "task=copy", "model.num_layers=3")
    model, n = run.model(), run.train_length
    data = inputs(run.task.batch(n, 2, 0, "train", 0), model.encodings, 0)
    assert data.pos.tolist() == [[0, *range(1, n + 1), 0, *range(1, n + 1)]] * 2
    assert [name for name, _ in model.named_parameters() if "encodings" in name] == [
        "encodings.layers.0.table"
    ]
    with torch.random.fork_rng():
        torch.manual_seed(0)
        assert Abacus(100, 200, 0.3).table.std().item() == pytest.approx(0.3, rel=0.02)


PLACES = [[0, 1, 2, 3, 0, 1, 2], [1, 2, 1, 0, 0, 1, 2]]
SEGMENTS = [[0, 1, 1, 1, 1, 2, 2], [1, 1, 2, 2, 2, 3, 3]]
"""Of `PLACES`, counted by hand: a token of no segment belongs to the one before it."""


@oracle("bipe", "double loop")
@oracle("bipe", "hand case: segments")
def test_bipe_adds_places_and_gives_its_host_segments() -> None:
    a = call()
    a = a.at(torch.tensor(PLACES), torch.tensor(PLACES))
    encoding = given(
        BiPE(ALiBi(HEADS), 24, 6),
        table=torch.randn(6, 24, generator=torch.Generator().manual_seed(2)),
    )
    slopes, content = alibi_slopes(HEADS), product(a)

    def score(b: int, h: int, i: int, j: int) -> float:
        return content(b, h, i, j) - slopes[h] * (SEGMENTS[b][i] - SEGMENTS[b][j])

    same(scores(encoding, a), by_pairs(a, score))
    rotated = scores(RoPE(WIDTH), a.at(torch.tensor(SEGMENTS), torch.tensor(SEGMENTS)))
    same(scores(BiPE(RoPE(WIDTH), 24, 6), a), rotated)
    table, x, added = encoding.table.tolist(), a.x.tolist(), encoding.embed(a.x, a.q_pos).tolist()
    for b, row in enumerate(PLACES):
        for t, place in enumerate(row):
            assert added[b][t] == pytest.approx(
                [u + p for u, p in zip(x[b][t], table[place], strict=True)], abs=1e-12
            )
    absolute = given(BiPE(Sinusoidal(24), 24, 6), table=encoding.table.detach())
    expected = Sinusoidal(24).embed(encoding.embed(a.x, a.q_pos), torch.tensor(SEGMENTS))
    same(absolute.embed(a.x, a.q_pos), expected)


def test_bipe_asks_for_places_and_draws_nothing() -> None:
    """One table for all layers; what a host offers to extensions of distances or frequencies is not
    passed on.
    """
    run = setup("encoding=bipe", "task=copy", "model.num_layers=3")
    model, n = run.model(), run.train_length
    data = inputs(run.task.batch(n, 2, 0, "train", 0), model.encodings, 0, training=True)
    assert data.pos.tolist() == [[0, *range(1, n + 1), 0, *range(1, n + 1)]] * 2
    assert [name for name, _ in model.named_parameters() if "encodings" in name] == [
        "encodings.layers.0.table"
    ]
    assert model.encodings.method_class == "task-supplied ids"
    assert model.encodings.handles == PositionEncoding.handles
    assert BiPE(NoPE(), 8, 9).span(3) == 9 == BiPE(NoPE(), 8, 9).max_positions


@pytest.mark.parametrize(
    "make", [lambda: Coupling(Learned(8, 8), 4), lambda: Abacus(8, 4), lambda: BiPE(RoPE(8), 8, 4)]
)
def test_ids_that_do_not_fit_are_refused(make: Callable[[], PositionEncoding]) -> None:
    fits, too_many = torch.tensor([[0, 1, 2, 3]]), torch.tensor([[0, 1, 2, 4]])
    for training in (True, False):
        assert drawn(make(), fits, training=training).max() == 3
        with pytest.raises(
            ConfigError, match=r"ids up to 4, and (largest|num_rows)=4 leaves no room: raise it"
        ):
            drawn(make(), too_many, training=training)


@pytest.mark.parametrize("name", ["coupling", "abacus", "bipe"])
def test_a_task_without_the_ids_is_refused(name: str) -> None:
    with pytest.raises(ConfigError, match=r"asks the task for '?(coupled|within)'? position ids"):
        setup(f"encoding={name}", "task=passkey").model()


# -- settings --------------------------------------------------------------------------------------


HOSTED = ("ssmax", "headscale", "sink", "softmax_off_by_one", "scale_invariant", "sliding_window")


@pytest.mark.parametrize("name", HOSTED)
@pytest.mark.parametrize("host", ["alibi", "rope", "nape", "t5"])
def test_wrappers_take_their_host_from_the_command_line(name: str, host: str) -> None:
    run = setup(f"encoding={name}", f"encoding@encoding.host={host}")
    layer = next(iter(run.model().encodings))
    assert type(layer.host).__name__.lower() == host
    width = run.config.model.width // run.config.model.num_heads
    assert torch.isfinite(
        attend(layer.double().encode(call(range(9), run.config.model.num_heads, width)))
    ).all()
