"""Sinks that tokens have for themselves, and queries and keys of bounded length: Inkling 2's."""

from __future__ import annotations

import math
from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch
from extending import extended
from loops import HEADS, POSITIONS, WIDTH, N, call, every_way, everywhere, given, same, scores
from rotations import MODEL, wave
from torch import Tensor

from posbench.base.errors import ConfigError
from posbench.core.attention import Attention, attend
from posbench.core.encoding import PositionEncoding
from posbench.encodings.alibi import ALiBi
from posbench.encodings.nape import NAPE
from posbench.encodings.nope import NoPE
from posbench.encodings.projected_logits import ProjectedLogits
from posbench.encodings.rope import RoPE
from posbench.encodings.sink import Sink
from posbench.encodings.sliding_window import SlidingWindow
from posbench.encodings.stick_breaking import StickBreaking
from posbench.encodings.token_sink import LARGEST, TokenSink
from posbench.extensions.inkling_temperature import InklingTemperature

oracle = pytest.mark.oracle


def sunk(host: PositionEncoding, heads: int = HEADS) -> TokenSink:
    encoding = TokenSink(host, heads, WIDTH, heads * WIDTH)
    return given(encoding, gain=1 + 0.5 * wave(heads, WIDTH, start=1.0)).double()


def shortened(vector: list[float], longest: float) -> list[float]:
    length = math.sqrt(sum(e * e for e in vector))
    return [e * min(1.0, longest / length) for e in vector]


def expected(a: Attention, encoding: TokenSink, host: PositionEncoding, window: int = N) -> Tensor:
    """Scores of the host from clipped queries and keys, in float lists, and one more term in every
    denominator.
    """
    longest = math.sqrt(LARGEST / a.scale)
    gain, read = encoding.gain.tolist(), encoding.read.weight.tolist()
    q = [
        [
            [shortened([g * e for g, e in zip(gain[h], v, strict=True)], longest) for v in vectors]
            for h, vectors in enumerate(each)
        ]
        for each in a.q.tolist()
    ]
    k = [[[shortened(v, longest) for v in vectors] for vectors in each] for each in a.k.tolist()]
    z = scores(
        host,
        replace(
            a,
            q=torch.tensor(q, dtype=torch.float64),
            k=torch.tensor(k, dtype=torch.float64),
        ),
    ).tolist()
    x, v, out = a.x.tolist(), a.v.tolist(), torch.zeros_like(a.v)
    for b in range(len(x)):
        for h in range(a.num_heads):
            for i in range(a.num_queries):
                sink = sum(w * e for w, e in zip(read[h], x[b][i], strict=True))
                keys = range(max(0, i - window + 1), i + 1)
                powers = [math.exp(z[b][h][i][j]) for j in keys]
                whole = math.exp(sink) + sum(powers)
                for j, power in zip(keys, powers, strict=True):
                    out[b, h, i] += power / whole * torch.tensor(v[b][h][j], dtype=torch.float64)
    return out


@oracle("token_sink", "double loop")
@everywhere
@pytest.mark.parametrize("factor", [1.0, 6.0], ids=["short", "clipped"])
def test_a_token_sink_is_one_more_term_of_the_denominator(
    factor: float, positions: list[float]
) -> None:
    a = call(positions)
    a = replace(a, q=factor * a.q, k=factor * a.k)
    host = RoPE(WIDTH)
    encoding = sunk(host)
    longest = math.sqrt(LARGEST / a.scale)
    assert bool((a.q.norm(dim=-1) > longest).any()) == (factor > 1)
    every_way(encoding, a, expected(a, encoding, host).detach())


@oracle("token_sink", "identity: one sink for all tokens is the sink")
def test_token_sinks_that_are_alike_are_the_sink_of_the_head() -> None:
    a, logits = call(POSITIONS["with gaps"]), [-0.7, 0.2, 1.9]
    a = replace(a, x=torch.ones_like(a.x))
    encoding = TokenSink(ALiBi(HEADS), HEADS, WIDTH, MODEL).double()
    with torch.no_grad():
        encoding.read.weight.copy_(torch.tensor(logits)[:, None].expand(-1, MODEL) / MODEL)
    sink = given(Sink(ALiBi(HEADS), HEADS), logits=logits)
    same(attend(encoding.encode(a)), attend(sink.encode(a)), 1e-6)


def test_each_token_keeps_its_sink_in_windows_and_split_heads() -> None:
    a = call()
    encoding = sunk(SlidingWindow(NoPE(), 2))
    every_way(encoding, a, expected(a, encoding, NoPE(), window=2).detach())
    a = call(heads=5)
    encoding = sunk(NAPE(5), heads=5)
    every_way(encoding, a, expected(a, encoding, NAPE(5)).detach())


def test_scores_of_clipped_queries_and_keys_are_bounded_whatever_their_length() -> None:
    a = call()
    for factor in (1e3, 1e6):
        z = scores(TokenSink(NoPE(), HEADS, WIDTH, MODEL).double(), replace(a, q=factor * a.q))
        assert z.abs().max() <= LARGEST + 1e-9
    huge = replace(a, q=1e6 * a.q, k=1e6 * a.q)
    z = scores(TokenSink(NoPE(), HEADS, WIDTH, MODEL).double(), huge)
    same(z.diagonal(dim1=-2, dim2=-1), torch.full((2, HEADS, N), LARGEST, dtype=torch.float64))


@oracle("token_sink", "library: transformers Inkling2FullAttention")
@pytest.mark.parametrize("large", [1.0, 40.0])
def test_token_sinks_on_projected_logits_are_inkling_2s_attention(large: float) -> None:
    """Its relative states are clipped as well, here far from where that acts; values are
    normalised and outputs gated, which is the transformer's.
    """
    modeling = pytest.importorskip("transformers.models.inkling2.modeling_inkling2")
    heads, width, curves, extent, n, floor = 2, 8, 3, 5, 11, 4
    longest = math.sqrt(LARGEST * width**0.5)
    config = SimpleNamespace(
        layer_types=["full"], head_dim=width, num_attention_heads=heads, num_key_value_heads=heads,
        rel_extent=extent, attention_dropout=0.0, hidden_size=heads * width, d_rel=curves,
        sconv_kernel_size=2, rms_norm_eps=1e-6, log_scaling_n_floor=floor, log_scaling_alpha=0.3,
        qk_l2_clip_threshold=longest, rel_l2_clip_threshold=1e6, sliding_window_size=5,
        _attn_implementation="eager",
    )  # fmt: skip
    torch.manual_seed(0)
    layer = modeling.Inkling2FullAttention(config, 0).double().eval()
    with torch.no_grad():
        for parameter in layer.parameters():
            torch.nn.init.normal_(parameter, std=0.3)
        layer.q_l2_clip.scale.copy_(1 + 0.5 * wave(heads, width, start=1.0))
        layer.q_proj.weight.mul_(large)
        layer.rel_l2_clip.scale.fill_(1.0)
    x = torch.randn(
        2, n, heads * width, generator=torch.Generator().manual_seed(1), dtype=torch.float64
    )
    hidden = torch.full((n, n), -torch.inf, dtype=torch.float64).triu(1)[None, None]
    pos = torch.arange(n)[None]
    theirs = layer(x, x, x, attention_mask=hidden, position_ids=pos.expand(2, -1))[0]

    def split(t: Tensor) -> Tensor:
        return t.unflatten(-1, (heads, width))

    alone = {"past_key_values": None, "conv_mask": None}
    q = split(layer.q_proj(x)).transpose(1, 2)
    k = split(layer.k_sconv(layer.k_proj(x), x, **alone)).transpose(1, 2)
    v = layer.v_norm(split(layer.v_sconv(layer.v_proj(x), x, **alone)))
    base = given(
        ProjectedLogits(heads, heads * width, curves, extent),
        w=layer.r_proj.weight.detach().unflatten(0, (heads, curves)),
        bank=layer.rel_logits_proj.proj.detach(),
    )
    encoding = given(TokenSink(base, heads, width, heads * width), gain=layer.q_l2_clip.scale)
    with torch.no_grad():
        encoding.read.weight.copy_(layer.sink_proj.weight)
    a = Attention(q, k, v.transpose(1, 2), x, pos, pos, scale=width**-0.5)
    out = attend(InklingTemperature(0.3).apply(encoding, floor, n).encode(a))
    gated = out.transpose(1, 2).flatten(-2) * layer.gate_proj(x).sigmoid()
    same(layer.o_proj(gated), theirs, 1e-5)


def test_token_sinks_refuse_other_normalisers_and_no_heads() -> None:
    with pytest.raises(ConfigError, match="normalises its weights in its own way"):
        TokenSink(StickBreaking(), HEADS, WIDTH, MODEL).double().encode(call())
    with pytest.raises(ConfigError, match="at least one, got 0"):
        TokenSink(NoPE(), 0, WIDTH, MODEL)


def test_a_temperature_around_token_sinks_does_not_reach_them() -> None:
    a = call()
    plain = extended(InklingTemperature(0.3), NoPE())
    inside, outside = (
        TokenSink(plain, HEADS, WIDTH, MODEL).double(),
        TokenSink(NoPE(), HEADS, WIDTH, MODEL).double(),
    )
    outside.load_state_dict(
        {name.replace("host.host", "host"): value for name, value in inside.state_dict().items()}
    )
    around = extended(InklingTemperature(0.3), outside)
    same(attend(around.encode(a)), attend(inside.encode(a)))
