"""Transformer-XL, XLNet and TENER, which look relative distances up in sinusoids, compute their
published formulas, for all pairs.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

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
    causal,
    everywhere,
    given,
    moved,
    placed,
    same,
    scores,
    shaken,
)
from torch import Tensor, nn
from vectors import applied, dot, plus

from posbench.core.attention import Attention, attend
from posbench.core.encoding import EncodingStack, PositionEncoding
from posbench.encodings.deberta import DeBERTa
from posbench.encodings.multiplicative import Multiplicative
from posbench.encodings.nope import NoPE
from posbench.encodings.projected_logits import ProjectedLogits
from posbench.encodings.scaled_sinusoidal import ScaledSinusoidal
from posbench.encodings.shaw import Shaw
from posbench.encodings.t5 import T5
from posbench.encodings.t5_bidirectional import BidirectionalT5
from posbench.encodings.tener import TENER
from posbench.encodings.transformer_xl import TransformerXL
from posbench.encodings.tupe import TUPE
from posbench.encodings.xlnet import XLNet
from posbench.extensions.pi import PI

D = HEADS * WIDTH
DOUBLE_LOOP = "double loop"


# -- Transformer-XL --------------------------------------------------------------------------------


def wave(t: float, width: int, base: float) -> list[float]:
    """All sines, then all cosines, of t b^(-2m/width)."""
    angles = [t / base ** (2 * m / width) for m in range(width // 2)]
    return [math.sin(x) for x in angles] + [math.cos(x) for x in angles]


def xl(a: Attention, encoding: TransformerXL, base: float) -> Callable[[int, int, int, int], float]:
    """The score c (<q + u, k> + <q + v, W R>)."""
    q, k, pi, pj = a.q.tolist(), a.k.tolist(), a.q_pos.tolist(), a.k_pos.tolist()
    u, v, w = encoding.u.tolist(), encoding.v.tolist(), encoding.w.tolist()

    def score(b: int, h: int, i: int, j: int) -> float:
        r = applied(w[h], wave(pi[b][i] - pj[b][j], len(w[h][0]), base))
        return a.scale * (dot(plus(q[b][h][i], u[h]), k[b][h][j]) + dot(plus(q[b][h][i], v[h]), r))

    return score


@pytest.mark.oracle("transformer_xl", DOUBLE_LOOP)
@pytest.mark.parametrize(("width", "base"), [(D, 10000.0), (2, 10000.0), (10, 77.0)])
@moved
@everywhere
def test_transformer_xl_is_the_product_with_projected_sinusoids(
    positions: list[float], ahead: int, width: int, base: float
) -> None:
    a = placed(positions, ahead)
    encoding = shaken(TransformerXL(HEADS, WIDTH, width, base))
    same(scores(encoding, a), by_pairs(a, xl(a, encoding, base)), 1e-9)


@pytest.mark.oracle("transformer_xl", "identity: the relative shift")
def test_transformer_xl_is_the_relative_shift_of_published_code() -> None:
    """Rows of R from distance n - 1 down to 0; each row of products is moved left by n - 1 - i."""
    n = 13
    a, encoding = call(range(n)), shaken(TransformerXL(HEADS, WIDTH, D))
    r = torch.tensor([wave(t, D, 10000.0) for t in range(n - 1, -1, -1)], dtype=torch.float64)
    products = torch.einsum("bhid,hdw,tw->bhit", a.q + encoding.v[:, None], encoding.w, r)
    padded = nn.functional.pad(products, (1, 0)).reshape(BATCH, HEADS, n + 1, n)
    shifted = padded[:, :, 1:].reshape(BATCH, HEADS, n, n)
    expected = a.scale * ((a.q + encoding.u[:, None]) @ a.k.mT + shifted)
    same(scores(encoding, a).masked_fill(~causal(n), 0), expected.masked_fill(~causal(n), 0))


@pytest.mark.oracle("transformer_xl", "identity: zero u, v and W are NoPE")
def test_transformer_xl_without_its_parameters_is_nope() -> None:
    """And with u, or with W, v being zero or not, it is not."""
    a, plain = call(POSITIONS["with gaps"]), scores(NoPE(), call(POSITIONS["with gaps"]))
    zero = {
        name: torch.zeros_like(each)
        for name, each in TransformerXL(HEADS, WIDTH, D).double().named_parameters()
    }
    same(scores(given(TransformerXL(HEADS, WIDTH, D), **zero), a), plain)
    for kept in (("u",), ("v", "w"), ("w",)):
        shaky = shaken(TransformerXL(HEADS, WIDTH, D))
        some = {name: each for name, each in shaky.named_parameters() if name in kept}
        encoding = given(TransformerXL(HEADS, WIDTH, D), **zero | some)
        assert (scores(encoding, a) - plain).abs().max() > 1e-3, kept


def xlnet_attention(width: int, encoding: TransformerXL) -> nn.Module:
    """The library's relative attention with our parameters."""
    modeling = pytest.importorskip("transformers.models.xlnet.modeling_xlnet")
    from transformers import XLNetConfig

    layer = (
        modeling.XLNetRelativeAttention(XLNetConfig(d_model=width, n_head=HEADS, dropout=0.0))
        .double()
        .eval()
    )
    with torch.no_grad():
        layer.r_w_bias.copy_(encoding.u)
        layer.r_r_bias.copy_(encoding.v)
        layer.r.copy_(encoding.w.permute(2, 0, 1))
        if isinstance(encoding, XLNet):
            layer.r_s_bias.copy_(encoding.r)
            layer.seg_embed.copy_(encoding.segments)
    return layer


def theirs(layer: nn.Module, a: Attention, segments: Tensor | None = None) -> Tensor:
    """The output of the library's attention, causal, with R from distance n down to 1 - n."""
    n = a.num_queries
    r = torch.tensor([wave(t, D, 10000.0) for t in range(n, -n, -1)], dtype=torch.float64)
    r = torch.einsum("td,dnh->tnh", r, layer.r)[:, None].expand(-1, BATCH, -1, -1)
    hidden = (~causal(n)).double()[:, :, None, None]
    differ = None
    if segments is not None:
        apart = segments.T[:, None] != segments.T[None, :]
        differ = torch.stack((~apart, apart), -1).double()
    q, k, v = (t.permute(2, 0, 1, 3) for t in (a.q, a.k, a.v))
    return layer.rel_attn_core(q, k, v, r, seg_mat=differ, attn_mask=hidden).permute(1, 2, 0, 3)


def as_they_scale(n: int) -> Attention:
    return replace(call(range(n)), scale=WIDTH**-0.5)


@pytest.mark.oracle("transformer_xl", "library: transformers XLNet without segments")
def test_transformer_xl_is_xlnets_attention_without_segments() -> None:
    a, encoding = as_they_scale(15), shaken(TransformerXL(HEADS, WIDTH, D))
    same(attend(encoding.encode(a)), theirs(xlnet_attention(D, encoding), a))


@pytest.mark.oracle("transformer_xl", "identity: PI divides positions")
@pytest.mark.oracle("tener", "identity: PI divides positions")
@pytest.mark.parametrize(
    "make",
    [lambda: TransformerXL(HEADS, WIDTH, D), lambda: TENER(HEADS, WIDTH)],
    ids=["xl", "tener"],
)
def test_pi_is_dividing_positions(make: Callable[[], PositionEncoding]) -> None:
    a, encoding = call(POSITIONS["with gaps"]), shaken(make())
    divided = a.at(a.q_pos / 4, a.k_pos / 4)
    same(scores(PI(4.0).apply(encoding, 42, 42), a), scores(encoding, divided))


# -- XLNet -----------------------------------------------------------------------------------------

SEGMENTS = torch.tensor([[0, 0, 3, 3, 1, 0, 1], [1, 1, 1, 0, 0, 0, 0]])


@pytest.mark.oracle("xlnet", DOUBLE_LOOP)
@pytest.mark.parametrize(
    "segments", [SEGMENTS, SEGMENTS[:1], None], ids=["each its own", "the same for all", "none"]
)
@moved
@everywhere
def test_xlnet_adds_the_product_with_the_vector_of_same_or_other(
    positions: list[float], ahead: int, segments: Tensor | None
) -> None:
    a = replace(placed(positions, ahead), segments=segments)
    encoding = shaken(XLNet(HEADS, WIDTH, D))
    content, q, r, vectors = (
        xl(a, encoding, 10000.0),
        a.q.tolist(),
        encoding.r.tolist(),
        encoding.segments.tolist(),
    )
    parts = (torch.zeros(BATCH, N) if segments is None else segments.expand(BATCH, -1)).tolist()

    def score(b: int, h: int, i: int, j: int) -> float:
        vector = vectors[0 if parts[b][i] == parts[b][j] else 1][h]
        return content(b, h, i, j) + a.scale * dot(plus(q[b][h][i], r[h]), vector)

    same(scores(encoding, a), by_pairs(a, score), 1e-9)


@pytest.mark.oracle("xlnet", "library: transformers XLNet")
@pytest.mark.parametrize("bounds", [(0, 15), (4, 15), (4, 9)])
def test_xlnet_is_xlnets_attention(bounds: tuple[int, int]) -> None:
    """From `bounds` on another segment; before the first and after the second the same one."""
    n = 15
    a, encoding = as_they_scale(n), shaken(XLNet(HEADS, WIDTH, D))
    segments = torch.tensor(
        [[int(bounds[0] <= i < bounds[1]) for i in range(n)], [0] * 7 + [1] * 8]
    )
    out = attend(encoding.encode(replace(a, segments=segments)))
    same(out, theirs(xlnet_attention(D, encoding), a, segments))


@pytest.mark.oracle("xlnet", "identity: one segment is Transformer-XL")
def test_xlnet_in_one_segment_is_transformer_xl() -> None:
    """The term is then the same for all keys of a query."""
    a, encoding = call(POSITIONS["counted"]), shaken(XLNet(HEADS, WIDTH, D))
    plain = given(TransformerXL(HEADS, WIDTH, D), u=encoding.u, v=encoding.v, w=encoding.w)
    same(attend(encoding.encode(a)), attend(plain.encode(a)))
    same(
        attend(encoding.encode(replace(a, segments=torch.full((1, N), 9)))), attend(plain.encode(a))
    )
    apart = attend(encoding.encode(replace(a, segments=SEGMENTS)))
    assert not torch.allclose(apart, attend(plain.encode(a)), atol=1e-3)


def test_layers_share_what_the_papers_share() -> None:
    """Transformer-XL shares u and v, XLNet and TENER nothing, DeBERTa its table, Shaw nothing."""
    for make, shared in (
        (lambda: TransformerXL(HEADS, WIDTH, D), {"u", "v"}),
        (lambda: XLNet(HEADS, WIDTH, D), set()),
        (lambda: TENER(HEADS, WIDTH), set()),
        (lambda: DeBERTa(HEADS, WIDTH, D, 4), {"table"}),
        (lambda: Shaw(WIDTH, 4), set()),
        (lambda: ProjectedLogits(HEADS, D, 4, 4), set()),
        (lambda: ScaledSinusoidal(D), {"scale"}),
        (
            lambda: TUPE(T5(HEADS, D, 4, 9), HEADS, WIDTH, D, 9),
            {"rows", "rows_norm.weight", "rows_norm.bias", "rows_to_q", "rows_to_k", "host.table"},
        ),
        (lambda: Multiplicative(D, 9), {"table"}),
        (lambda: BidirectionalT5(HEADS, D, 4, 9), {"table"}),
    ):
        first, second = EncodingStack([make() for _ in range(2)])  # type: ignore[operator]
        tied = {
            name
            for name, parameter in first.named_parameters()
            if parameter is second.get_parameter(name)
        }
        assert tied == shared, type(first).__name__


# -- TENER -----------------------------------------------------------------------------------------


@pytest.mark.oracle("tener", DOUBLE_LOOP)
@pytest.mark.parametrize(("base", "scale"), [(10000.0, 1.0), (40.0, 0.3)])
@moved
@everywhere
def test_tener_is_the_unscaled_product_with_sinusoids_of_the_distance(
    positions: list[float], ahead: int, base: float, scale: float
) -> None:
    """Sine and cosine in turns; the scale of attention does not enter."""
    a = placed(positions, ahead)
    encoding = shaken(TENER(HEADS, WIDTH, base, scale))
    q, k, pi, pj = a.q.tolist(), a.k.tolist(), a.q_pos.tolist(), a.k_pos.tolist()
    u, v = encoding.u.tolist(), encoding.v.tolist()

    def score(b: int, h: int, i: int, j: int) -> float:
        r = []
        for m in range(WIDTH // 2):
            angle = (pi[b][i] - pj[b][j]) * base ** (-2 * m / WIDTH)
            r += [math.sin(angle), math.cos(angle)]
        return scale * (dot(plus(q[b][h][i], u[h]), k[b][h][j]) + dot(plus(q[b][h][i], v[h]), r))

    same(scores(encoding, a), by_pairs(a, score))


@pytest.mark.oracle("tener", "identity: Transformer-XL whose projection orders channels")
def test_tener_is_transformer_xl_whose_projection_orders_channels() -> None:
    """R of a head's width, row 2m of W picking sine m and row 2m + 1 cosine m."""
    a, encoding = call(POSITIONS["with gaps"]), shaken(TENER(HEADS, WIDTH, scale=0.37))
    order = torch.zeros(WIDTH, WIDTH, dtype=torch.float64)
    for m in range(WIDTH // 2):
        order[2 * m, m] = order[2 * m + 1, m + WIDTH // 2] = 1
    larger = given(
        TransformerXL(HEADS, WIDTH, WIDTH),
        u=encoding.u,
        v=encoding.v,
        w=order.expand(HEADS, -1, -1),
    )
    same(scores(encoding, a), scores(larger, a))


def test_sines_tell_direction() -> None:
    """A head that looks for a sine prefers keys of one side; one that looks for cosines cannot."""
    zero = torch.zeros(1, 1, 3, 4, dtype=torch.float64)
    pos = torch.tensor([[0, 1, 2]])
    a = Attention(zero, zero, zero, torch.zeros(1, 3, 4), pos, pos, 1.0)
    for channel, direction in ((0, True), (1, False)):
        vector = torch.zeros(1, 4)
        vector[0, channel] = 1.0
        earlier, _, later = scores(given(TENER(1, 4), u=torch.zeros(1, 4), v=vector), a)[
            0, 0, 1
        ].tolist()
        assert (earlier > later + 1) == direction and (abs(earlier - later) < 1e-12) == (
            not direction
        )
