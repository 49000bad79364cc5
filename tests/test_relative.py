"""Relative tables compute their published formulas, for all pairs, those hidden by the causal mask
included: Shaw, DeBERTa, TUPE, projected logits and T5 in both directions.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
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
    causal,
    everywhere,
    given,
    loop,
    moved,
    placed,
    product,
    same,
    scores,
    shaken,
    whole,
)
from torch import Tensor, nn
from vectors import applied, dot

from posbench.core.attention import Attention, attend, dense
from posbench.core.encoding import PositionEncoding
from posbench.encodings.deberta import DeBERTa
from posbench.encodings.learned import Learned
from posbench.encodings.multiplicative import Multiplicative
from posbench.encodings.nope import NoPE
from posbench.encodings.projected_logits import ProjectedLogits
from posbench.encodings.shaw import Shaw
from posbench.encodings.t5 import T5
from posbench.encodings.t5_bidirectional import BidirectionalT5
from posbench.encodings.tener import TENER
from posbench.encodings.transformer_xl import TransformerXL
from posbench.encodings.tupe import TUPE
from posbench.encodings.xlnet import XLNet

D = HEADS * WIDTH
FLOAT32 = 1e-5  # of libraries that keep their tables in float32
DOUBLE_LOOP = "double loop"


def clip(x: int, low: int, high: int) -> int:
    return low if x < low else high if x > high else x


# -- Shaw ------------------------------------------------------------------------------------------


@pytest.mark.oracle("shaw", DOUBLE_LOOP)
@pytest.mark.parametrize("k", [1, 3, 50])
@moved
@whole
def test_shaw_adds_the_product_with_the_key_of_the_clipped_distance(
    positions: list[int], ahead: int, k: int
) -> None:
    """Scaled with the score; j - i counts from -k, row 0, to k, row 2k."""
    a = placed(positions, ahead)
    encoding = shaken(Shaw(WIDTH, k))
    content, q, table = product(a), a.q.tolist(), encoding.keys.tolist()
    pi, pj = a.q_pos.tolist(), a.k_pos.tolist()

    def score(b: int, h: int, i: int, j: int) -> float:
        return content(b, h, i, j) + a.scale * dot(
            q[b][h][i], table[clip(pj[b][j] - pi[b][i], -k, k) + k]
        )

    assert encoding.keys.shape == encoding.values.shape == (2 * k + 1, WIDTH)
    same(scores(encoding, a), by_pairs(a, score))


@pytest.mark.oracle("shaw", DOUBLE_LOOP)
@pytest.mark.parametrize("k", [1, 3, 50])
@moved
@whole
def test_shaw_adds_the_value_of_the_clipped_distance(
    positions: list[int], ahead: int, k: int
) -> None:
    """o_i = sum over j <= i of w_ij (v_j + a_r), with the softmax by hand."""
    a = placed(positions, ahead)
    encoding = shaken(Shaw(WIDTH, k))
    z, v, table = scores(encoding, a).tolist(), a.v.tolist(), encoding.values.tolist()
    pi, pj = a.q_pos.tolist(), a.k_pos.tolist()
    expected = torch.zeros_like(a.v)
    for b in range(BATCH):
        for h in range(HEADS):
            for i in range(N):
                total = sum(math.exp(z[b][h][i][j]) for j in range(i + 1))
                out = [0.0] * WIDTH
                for j in range(i + 1):
                    w = math.exp(z[b][h][i][j]) / total
                    row = table[clip(pj[b][j] - pi[b][i], -k, k) + k]
                    out = [o + w * (x + y) for o, x, y in zip(out, v[b][h][j], row, strict=True)]
                expected[b, h, i] = torch.tensor(out, dtype=torch.float64)
    for block in (1, 3, N):
        same(attend(encoding.encode(a), block), expected)


@pytest.mark.oracle("shaw", "identity: zero tables are NoPE")
def test_shaw_with_zero_tables_is_nope() -> None:
    a = call(POSITIONS["with gaps"])
    encoding = given(Shaw(WIDTH, 3), keys=torch.zeros(7, WIDTH), values=torch.zeros(7, WIDTH))
    same(scores(encoding, a), scores(NoPE(), a))
    same(attend(encoding.encode(a)), attend(a))


@pytest.mark.oracle("shaw", "identity: one value for all distances is added once")
def test_one_value_for_all_distances_is_added_once() -> None:
    """Weights sum to 1."""
    a, vector = call(POSITIONS["with gaps"]), torch.arange(WIDTH, dtype=torch.float64)
    encoding = given(Shaw(WIDTH, 3), keys=torch.zeros(7, WIDTH), values=vector.expand(7, -1))
    same(attend(encoding.encode(a)), attend(a) + vector)


@pytest.mark.oracle("shaw", "library: transformers Wav2Vec2-BERT relative_key")
@pytest.mark.parametrize("k", [1, 4, 40])
def test_shaw_keys_are_those_of_wav2vec2_bert(k: int) -> None:
    modeling = pytest.importorskip("transformers.models.wav2vec2_bert.modeling_wav2vec2_bert")
    a, encoding = call(range(24)), shaken(Shaw(WIDTH, k))
    module = SimpleNamespace(
        left_max_position_embeddings=k,
        right_max_position_embeddings=k,
        distance_embedding=nn.Embedding.from_pretrained(encoding.keys.detach()),
        scaling=a.scale,
    )
    _, theirs = modeling._apply_relative_key_position_encoding(module, a.q, a.k)
    same(scores(encoding, a) - a.scale * a.q @ a.k.mT, theirs, 1e-12)


@pytest.mark.oracle("shaw", "the naive [n, n, width] product")
def test_shaw_is_the_naive_product_over_pairs() -> None:
    n, k = 70, 6
    a, encoding = call(range(n)), shaken(Shaw(WIDTH, k))
    index = torch.tensor([[clip(j - i, -k, k) + k for j in range(n)] for i in range(n)])
    z = a.scale * (a.q @ a.k.mT + torch.einsum("bhid,ijd->bhij", a.q, encoding.keys[index]))
    w = z.masked_fill(~causal(n), -torch.inf).softmax(-1)
    out = w @ a.v + torch.einsum("bhij,ijd->bhid", w, encoding.values[index])
    same(attend(encoding.encode(a), 16), out)


@pytest.mark.slow
def test_shaw_sums_weights_in_float32() -> None:
    """2,000 weights of one row of the table sum to 1 in bfloat16 too."""
    n = 2000
    zero = torch.zeros(1, 1, n, WIDTH, dtype=torch.bfloat16)
    pos = torch.arange(n)[None]
    a = Attention(zero, zero, zero, torch.zeros(1, n, WIDTH), pos, pos, 1.0)
    encoding = Shaw(WIDTH, 1)
    with torch.no_grad():
        encoding.values.fill_(1.0)
        out = dense(encoding.encode(a), 500)
    assert out.dtype == torch.bfloat16
    assert (out[0, 0, -500:].float() - 1).abs().max() < 0.01


# -- DeBERTa ---------------------------------------------------------------------------------------


@pytest.mark.oracle("deberta", DOUBLE_LOOP)
@pytest.mark.parametrize("index", ["paper", "published"])
@pytest.mark.parametrize("k", [1, 3, 60])
@moved
@whole
def test_deberta_is_the_sum_of_three_products(
    positions: list[int], ahead: int, k: int, index: str
) -> None:
    """All three scaled by c / sqrt 3; the key looks at delta(j, i), or as published at delta(i,
    j).
    """
    a = placed(positions, ahead)
    encoding = shaken(DeBERTa(HEADS, WIDTH, D, k, index))
    table, w_k, w_q = encoding.table.tolist(), encoding.w_k.tolist(), encoding.w_q.tolist()
    keys, queries = (
        [[applied(w[h], row) for row in table] for h in range(HEADS)] for w in (w_k, w_q)
    )
    q, key, pi, pj = a.q.tolist(), a.k.tolist(), a.q_pos.tolist(), a.k_pos.tolist()

    def delta(x: int, y: int) -> int:
        return clip(x - y + k, 0, 2 * k - 1)

    def score(b: int, h: int, i: int, j: int) -> float:
        x, y = pi[b][i], pj[b][j]
        back = delta(y, x) if index == "paper" else delta(x, y)
        total = dot(q[b][h][i], key[b][h][j])
        total += dot(q[b][h][i], keys[h][delta(x, y)]) + dot(key[b][h][j], queries[h][back])
        return a.scale * total / math.sqrt(3)

    assert encoding.table.shape == (2 * k, D)
    same(scores(encoding, a), by_pairs(a, score), 1e-9)


@pytest.mark.oracle("deberta", "library: transformers DeBERTa-v2")
@pytest.mark.parametrize("k", [2, 5, 30])
def test_deberta_as_published_is_debertas_attention(k: int) -> None:
    """Weights copied; scores of all pairs, and the output of a causal layer."""
    modeling = pytest.importorskip("transformers.models.deberta_v2.modeling_deberta_v2")
    from transformers import DebertaV2Config

    n = 17
    config = DebertaV2Config(
        hidden_size=D,
        num_attention_heads=HEADS,
        relative_attention=True,
        pos_att_type=["c2p", "p2c"],
        max_relative_positions=k,
        position_buckets=-1,
        share_att_key=False,
        hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0,
    )
    layer, encoding = (
        modeling.DisentangledSelfAttention(config).double().eval(),
        shaken(DeBERTa(HEADS, WIDTH, D, k, "published")),
    )
    with torch.no_grad():
        layer.pos_key_proj.weight.copy_(encoding.w_k.flatten(0, 1))
        layer.pos_query_proj.weight.copy_(encoding.w_q.flatten(0, 1))
        layer.pos_key_proj.bias.zero_()
        layer.pos_query_proj.bias.zero_()
    a = replace(call(range(n)), scale=WIDTH**-0.5)
    x = a.x
    q, k_, v = (
        p(x).unflatten(-1, (HEADS, WIDTH)).transpose(1, 2)
        for p in (layer.query_proj, layer.key_proj, layer.value_proj)
    )
    a = replace(a, q=q, k=k_, v=v)
    bias = layer.disentangled_attention_bias(
        q.flatten(0, 1), k_.flatten(0, 1), None, encoding.table, 3
    )
    content = a.scale / math.sqrt(3) * q @ k_.mT
    same(scores(encoding, a) - content, bias.unflatten(0, (BATCH, HEADS)), FLOAT32)
    out = layer(x, causal(n).expand(BATCH, 1, n, n), rel_embeddings=encoding.table)[0]
    same(attend(encoding.encode(a)).transpose(1, 2).flatten(-2), out, FLOAT32)
    paper = shaken(DeBERTa(HEADS, WIDTH, D, k))
    assert not torch.allclose(scores(paper, a), scores(encoding, a), atol=1e-3)


@pytest.mark.oracle("deberta", "identity: a zero table is NoPE at a scale of c over the root of 3")
def test_deberta_with_a_zero_table_is_nope_at_its_scale() -> None:
    a = call(POSITIONS["with gaps"])
    encoding = given(DeBERTa(HEADS, WIDTH, D, 3), table=torch.zeros(6, D))
    same(scores(encoding, a), scores(NoPE(), a) / math.sqrt(3))


@pytest.mark.oracle("deberta", "identity: a mirrored table exchanges the two indices")
def test_the_two_indices_of_deberta_are_mirrors() -> None:
    """Row r of the one is row 2k - r of the other, as long as no distance is clipped."""
    k, a = 9, call(POSITIONS["counted"])
    paper = shaken(DeBERTa(HEADS, WIDTH, D, k, "paper"))
    rows = [min(2 * k - r, 2 * k - 1) for r in range(2 * k)]

    def key_part(index: str, table: Tensor) -> Tensor:
        encoding = given(
            DeBERTa(HEADS, WIDTH, D, k, index), table=table, w_k=0 * paper.w_k, w_q=paper.w_q
        )
        return scores(encoding, a)

    same(key_part("published", paper.table[rows]), key_part("paper", paper.table))


# -- TUPE ------------------------------------------------------------------------------------------


def normed(row: Sequence[float], norm: nn.LayerNorm) -> list[float]:
    mean = sum(row) / len(row)
    deviation = math.sqrt(sum((x - mean) ** 2 for x in row) / len(row) + norm.eps)
    gain, offset = norm.weight.tolist(), norm.bias.tolist()
    return [g * (x - mean) / deviation + o for x, g, o in zip(row, gain, offset, strict=True)]


@pytest.mark.oracle("tupe", DOUBLE_LOOP)
@pytest.mark.parametrize("make_host", [NoPE, lambda: T5(HEADS, D, 4, 9)], ids=["A", "R"])
@moved
@pytest.mark.parametrize(
    "positions", [list(range(N)), [0, 3, 4, 9, 20, 21, 30], [12, 11, 7, 7, 5, 2, 0]]
)
def test_tupe_adds_the_product_of_projected_rows(
    positions: list[int], ahead: int, make_host: Callable[[], PositionEncoding]
) -> None:
    """Both products scaled by c / sqrt 2, the host's bias after that."""
    a, host = placed(positions, ahead), make_host()
    encoding = shaken(TUPE(host, HEADS, WIDTH, D, 40))
    content, u, w = product(a), encoding.rows_to_q.tolist(), encoding.rows_to_k.tolist()
    rows = [normed(row, encoding.rows_norm) for row in encoding.rows.tolist()]
    queries, keys = ([[applied(m[h], row) for row in rows] for h in range(HEADS)] for m in (u, w))
    pi, pj = a.q_pos.tolist(), a.k_pos.tolist()

    def score(b: int, h: int, i: int, j: int) -> float:
        x, y = pi[b][i], pj[b][j]
        bias = host.table.tolist()[bucket(max(x - y, 0), 4, 9)][h] if isinstance(host, T5) else 0.0
        return (content(b, h, i, j) + a.scale * dot(queries[h][x], keys[h][y])) / math.sqrt(
            2
        ) + bias

    same(scores(encoding, a), by_pairs(a, score), 1e-9)


@pytest.mark.oracle(
    "tupe", "identity: without a projection it is the host at a scale of c over the root of 2"
)
def test_tupe_without_a_projection_is_its_host_at_its_scale() -> None:
    a, host = call(POSITIONS["counted"]), T5(HEADS, D, 4, 9).double()
    encoding = given(TUPE(host, HEADS, WIDTH, D, 9), rows_to_q=torch.zeros(HEADS, WIDTH, D))
    same(attend(encoding.encode(a)), attend(host.encode(replace(a, scale=a.scale / math.sqrt(2)))))


def test_tupe_has_the_limits_of_its_rows_and_of_its_host() -> None:
    assert TUPE(NoPE(), HEADS, WIDTH, D, 40).max_positions == 40
    assert TUPE(Learned(D, 30), HEADS, WIDTH, D, 40).max_positions == 30
    assert TUPE(Learned(D, 50), HEADS, WIDTH, D, 40).max_positions == 40
    assert TUPE(T5(HEADS, D, 4, 9), HEADS, WIDTH, D, 40).handles == {"mask", "temperature"}


# -- projected logits ------------------------------------------------------------------------------


@pytest.mark.oracle("projected_logits", DOUBLE_LOOP)
@pytest.mark.parametrize(("curves", "extent"), [(4, 5), (1, 1), (3, 400)])
@moved
@whole
def test_projected_logits_mix_curves_by_the_input_of_the_query(
    positions: list[int], ahead: int, curves: int, extent: int
) -> None:
    """After the scale; nothing from the extent on, and nothing for later keys."""
    a = placed(positions, ahead)
    encoding = shaken(ProjectedLogits(HEADS, D, curves, extent))
    content, x, w, bank = product(a), a.x.tolist(), encoding.w.tolist(), encoding.bank.tolist()
    pi, pj = a.q_pos.tolist(), a.k_pos.tolist()

    def score(b: int, h: int, i: int, j: int) -> float:
        d = pi[b][i] - pj[b][j]
        bias = dot(applied(w[h], x[b][i]), [curve[d] for curve in bank]) if 0 <= d < extent else 0.0
        return content(b, h, i, j) + bias

    same(scores(encoding, a), by_pairs(a, score))


@pytest.mark.oracle("projected_logits", "library: x-transformers RelativeProjPositionalBias")
@pytest.mark.parametrize("extent", [3, 16, 50])
def test_projected_logits_are_x_transformers(extent: int) -> None:
    library = pytest.importorskip("x_transformers.x_transformers")
    a, encoding = call(range(16)), shaken(ProjectedLogits(HEADS, D, 5, extent))
    module = library.RelativeProjPositionalBias(
        D, HEADS, num_distance_basis=5, max_dist=extent
    ).double()
    with torch.no_grad():
        module.to_distance_weights[0].weight.copy_(encoding.w.flatten(0, 1))
        module.to_distance_weights[0].bias.zero_()
        module.distance_bank.copy_(encoding.bank)
    same(scores(encoding, a) - a.scale * a.q @ a.k.mT, module(a.x))


@pytest.mark.oracle("projected_logits", "library: transformers Inkling")
@pytest.mark.parametrize("extent", [3, 16, 50])
def test_projected_logits_are_inklings(extent: int) -> None:
    modeling = pytest.importorskip("transformers.models.inkling.modeling_inkling")
    a, encoding = call(range(16)), shaken(ProjectedLogits(HEADS, D, 5, extent))
    module = modeling.InklingRelativeLogits(5, extent).double()
    with torch.no_grad():
        module.proj.copy_(encoding.bank)
    states = torch.einsum("bnd,hcd->bnhc", a.x, encoding.w)
    same(
        scores(encoding, a) - a.scale * a.q @ a.k.mT,
        module(states, torch.arange(16), torch.arange(16)),
    )


# -- T5 in both directions -------------------------------------------------------------------------


def bucket(distance: float, num_buckets: int, max_distance: int) -> int:
    """As in `test_closed_forms`: by counting the edges passed, without a logarithm."""
    exact = num_buckets // 2
    if distance < exact:
        return int(distance)
    far = num_buckets - exact
    return exact + max(
        r for r in range(far) if distance**far * exact**r >= max_distance**r * exact**far
    )


@pytest.mark.oracle("t5_bidirectional", DOUBLE_LOOP)
@pytest.mark.parametrize(("num_buckets", "max_distance"), [(6, 11), (2, 9), (7, 50)])
@moved
@everywhere
def test_t5_in_both_directions_has_buckets_of_their_own_for_later_keys(
    positions: list[float], ahead: int, num_buckets: int, max_distance: int
) -> None:
    a = placed(positions, ahead)
    encoding = BidirectionalT5(HEADS, 16, num_buckets, max_distance).double()
    entries = encoding.table.tolist()

    def bias(h: int, i: float, j: float) -> float:
        later = num_buckets if j > i else 0
        return entries[later + bucket(abs(i - j), num_buckets, max_distance)][h]

    assert len(entries) == 2 * num_buckets
    same(scores(encoding, a), loop(a, bias))


@pytest.mark.oracle("t5_bidirectional", "library: transformers T5 encoder")
def test_t5_in_both_directions_adds_the_bias_that_a_t5_encoder_adds() -> None:
    modeling = pytest.importorskip("transformers.models.t5.modeling_t5")
    from transformers import T5Config

    config = T5Config(
        d_model=32,
        d_kv=8,
        num_heads=HEADS,
        relative_attention_num_buckets=16,
        relative_attention_max_distance=20,
    )
    module = modeling.T5Attention(config, has_relative_attention_bias=True, layer_idx=0).double()
    a, encoding = call(range(24)), shaken(BidirectionalT5(HEADS, 32, 8, 20))
    with torch.no_grad():
        module.relative_attention_bias.weight.copy_(encoding.table)
    bias = scores(encoding, a) - a.scale * a.q @ a.k.mT
    same(bias, module.compute_bias(24, 24).expand_as(bias))


@pytest.mark.oracle("t5_bidirectional", "identity: where positions count up it is T5")
def test_t5_in_both_directions_is_t5_where_positions_count_up() -> None:
    a, encoding = call(POSITIONS["with gaps"]), shaken(BidirectionalT5(HEADS, 16, 6, 11))
    one_way = given(T5(HEADS, 16, 6, 11), table=encoding.table[:6])
    same(attend(encoding.encode(a)), attend(one_way.encode(a)))
    back = call(POSITIONS["running back"])
    assert not torch.allclose(
        attend(encoding.encode(back)), attend(one_way.encode(back)), atol=1e-3
    )


# -- all of them -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("make", "path"),
    [
        (lambda: TransformerXL(HEADS, WIDTH, D), "fused"),
        (lambda: TENER(HEADS, WIDTH), "fused"),
        (lambda: XLNet(HEADS, WIDTH, D), "fused by rows"),
        (lambda: DeBERTa(HEADS, WIDTH, D, 3), "fused by rows"),
        (lambda: ProjectedLogits(HEADS, D, 3, 3), "fused by rows"),
        (lambda: TUPE(NoPE(), HEADS, WIDTH, D, 9), "fused"),
        (lambda: TUPE(T5(HEADS, D, 4, 9), HEADS, WIDTH, D, 9), "fused by rows"),
        (lambda: Shaw(WIDTH, 3), "dense"),
    ],
)
def test_the_path_is_the_cheapest_there_is(make: Callable[[], PositionEncoding], path: str) -> None:
    plan = make().double().encode(call())
    assert plan.path == path  # type: ignore[attr-defined]


STARTS: list[tuple[Callable[[], PositionEncoding], dict[str, float]]] = [
    (lambda: Shaw(64, 500, 0.7), {"keys": 0.7, "values": 0.7}),
    (lambda: TransformerXL(32, 32, 64), {"u": 0.02, "v": 0.02, "w": 1 / 8}),
    (lambda: XLNet(32, 64, 16), {"u": 0.02, "v": 0.02, "w": 1 / 4, "r": 0.02, "segments": 0.02}),
    (lambda: TENER(32, 64), {"u": 0.02, "v": 0.02}),
    (lambda: DeBERTa(8, 16, 64, 50, init_std=0.3), {"table": 0.3, "w_k": 1 / 8, "w_q": 1 / 8}),
    (lambda: ProjectedLogits(8, 64, 16, 100), {"w": 1 / 8, "bank": 0.02}),
    (lambda: TUPE(NoPE(), 8, 16, 64, 50), {"rows": 1.0, "rows_to_q": 1 / 8, "rows_to_k": 1 / 8}),
    (lambda: Multiplicative(64, 50, 0.4), {"table": 0.4}),
    (lambda: BidirectionalT5(64, 256, 32, 512), {"table": 1 / 16}),
]


@pytest.mark.parametrize(("make", "deviations"), STARTS, ids=[", ".join(d) for _, d in STARTS])
def test_parameters_start_with_the_standard_deviation_stated(
    make: Callable[[], PositionEncoding], deviations: dict[str, float]
) -> None:
    with torch.random.fork_rng():
        torch.manual_seed(0)
        found = {
            name: parameter.std().item()
            for name, parameter in make().named_parameters()
            if "norm" not in name
        }
    assert found == pytest.approx(deviations, rel=0.08)
