"""Every encoding computes its published formula.

The oracle is a double loop over (i, j) in Python floats and complex numbers: it shares no code, no
layout and no tensor operation with the library. Scores are compared for all pairs, those hidden by
the causal mask included, so that a wrong sign of i - j cannot hide.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import pytest
import torch
from loops import (
    BATCH,
    EXACT,
    HEADS,
    POSITIONS,
    SCALE,
    WIDTH,
    N,
    by_pairs,
    call,
    everywhere,
    product,
    same,
    scores,
)
from rotations import published, turned
from torch import Tensor

from posbench.core.attention import Attention, attend
from posbench.core.encoding import EncodingStack, PositionEncoding
from posbench.encodings.alibi import ALiBi, alibi_slopes
from posbench.encodings.learned import Learned
from posbench.encodings.nope import NoPE
from posbench.encodings.rope import RoPE
from posbench.encodings.sinusoidal import Sinusoidal
from posbench.encodings.t5 import T5, t5_bucket

# -- NoPE ------------------------------------------------------------------------------------------


@pytest.mark.oracle("nope", "double loop")
@everywhere
def test_nope_is_the_scaled_product_whatever_the_positions(positions: list[float]) -> None:
    a = call(positions)
    same(scores(NoPE(), a), by_pairs(a, product(a)))
    assert torch.equal(NoPE().embed(a.x, a.q_pos), a.x)


# -- RoPE ------------------------------------------------------------------------------------------


@pytest.mark.oracle("rope", "double loop")
@everywhere
@pytest.mark.parametrize("layout", ["half", "interleaved"])
def test_rope_is_the_complex_form_in_i_minus_j(layout: str, positions: list[float]) -> None:
    """q_i conj(k_j) e^{+i(i-j)theta}: the conjugate sign, the pairing of channels and the exponent
    2m/d.
    """
    a = call(positions)
    same(
        scores(RoPE(WIDTH, layout=layout), a),
        by_pairs(a, turned(a, published(10000.0, WIDTH), layout)),
    )


@pytest.mark.oracle("rope", "double loop")
@pytest.mark.parametrize("layout", ["half", "interleaved"])
@pytest.mark.parametrize(("base", "width"), [(10.0, 2), (500_000.0, 6), (123.4, 16), (10000.0, 12)])
def test_rope_follows_its_base_and_width(base: float, width: int, layout: str) -> None:
    a = call(POSITIONS["with gaps"], width=width)
    same(
        scores(RoPE(width, base, layout), a), by_pairs(a, turned(a, published(base, width), layout))
    )


@pytest.mark.oracle("rope", "double loop")
def test_rope_turns_queries_and_keys_by_their_own_positions() -> None:
    """Region methods move only one of the two."""
    a = call()
    a = a.at(a.q_pos + 5, a.k_pos * 2)
    q, k = a.q.tolist(), a.k.tolist()
    qp, kp = a.q_pos.tolist(), a.k_pos.tolist()
    theta = published(10000.0, WIDTH)

    def score(b: int, h: int, i: int, j: int) -> float:
        total = 0.0
        for m, t in enumerate(theta):
            real = q[b][h][i][m] * k[b][h][j][m] + q[b][h][i][m + 4] * k[b][h][j][m + 4]
            cross = q[b][h][i][m] * k[b][h][j][m + 4] - q[b][h][i][m + 4] * k[b][h][j][m]
            angle = (qp[b][i] - kp[b][j]) * t
            total += real * math.cos(angle) + cross * math.sin(angle)
        return SCALE * total

    same(scores(RoPE(WIDTH), a), by_pairs(a, score))


@pytest.mark.oracle("rope", "identity: the layouts are one permutation apart")
def test_the_two_layouts_are_one_permutation_apart() -> None:
    a = call()
    order = [
        0,
        4,
        1,
        5,
        2,
        6,
        3,
        7,
    ]  # channel 2m is the m-th of the first half, 2m + 1 the m-th of the second
    half, interleaved = RoPE(WIDTH, layout="half"), RoPE(WIDTH, layout="interleaved")
    moved = Attention(a.q[..., order], a.k[..., order], a.v, a.x, a.q_pos, a.k_pos, a.scale)
    same(scores(interleaved, moved), scores(half, a))
    assert not torch.allclose(scores(interleaved, a), scores(half, a))


@pytest.mark.oracle("rope", "identity: values stay")
def test_rope_leaves_values_alone() -> None:
    a = call()
    assert torch.equal(RoPE(WIDTH).encode(a).v, a.v)


# -- ALiBi -----------------------------------------------------------------------------------------


def slopes(heads: int, steepness: float) -> list[float]:
    """By the recursion of the published rule: a geometric sequence that starts at its own ratio,
    filled up with the first, third, fifth... of the sequence for twice as many heads.
    """
    power = 1
    while 2 * power <= heads:
        power *= 2
    ratio = 0.5 ** (steepness / power)
    found = [ratio]
    while len(found) < power:
        found.append(found[-1] * ratio)
    step = 0.5 ** (steepness / power / 2)
    slope = step
    while len(found) < heads:
        found.append(slope)
        slope *= step * step
    return found


@pytest.mark.oracle("alibi", "double loop")
@everywhere
@pytest.mark.parametrize(
    ("heads", "steepness"), [(1, 8.0), (2, 8.0), (3, 8.0), (4, 8.0), (6, 4.0), (8, 1.5), (12, 8.0)]
)
def test_alibi_subtracts_slope_times_distance_after_the_scale(
    heads: int, steepness: float, positions: list[float]
) -> None:
    """-m_h (i - j), not scaled by c: for powers of two, other head counts and other steepnesses."""
    a = call(positions, heads=heads)
    content, m, p = product(a), slopes(heads, steepness), a.q_pos.tolist()

    def score(b: int, h: int, i: int, j: int) -> float:
        return content(b, h, i, j) - m[h] * (p[b][i] - p[b][j])

    same(scores(ALiBi(heads, steepness), a), by_pairs(a, score))


@pytest.mark.oracle("alibi", "double loop")
def test_alibi_counts_from_the_position_of_the_query_to_that_of_the_key() -> None:
    """Region methods move only one of the two."""
    a = call()
    a = a.at(a.q_pos + 5, a.k_pos * 2)
    content, m, pi, pj = product(a), slopes(HEADS, 8.0), a.q_pos.tolist(), a.k_pos.tolist()
    expected = by_pairs(a, lambda b, h, i, j: content(b, h, i, j) - m[h] * (pi[b][i] - pj[b][j]))
    same(scores(ALiBi(HEADS), a), expected)


@pytest.mark.parametrize("heads", range(1, 65))
def test_alibi_slopes_follow_the_published_rule(heads: int) -> None:
    assert alibi_slopes(heads) == pytest.approx(slopes(heads, 8.0), rel=1e-12)


@pytest.mark.oracle("alibi", "published numbers")
def test_alibi_slopes_of_eight_heads_are_the_papers() -> None:
    assert alibi_slopes(8) == (1 / 2, 1 / 4, 1 / 8, 1 / 16, 1 / 32, 1 / 64, 1 / 128, 1 / 256)


# -- T5 --------------------------------------------------------------------------------------------


def bucket(distance: float, num_buckets: int, max_distance: int) -> int:
    """By counting the edges passed: bucket e + r begins at d = e (M/e)^(r/(N-e)), which is d^(N-e)
    e^r = M^r e^(N-e) in whole numbers, without a logarithm and without rounding.
    """
    distance = max(distance, 0)
    exact = num_buckets // 2
    if distance < exact:
        return int(distance)
    far = num_buckets - exact
    return exact + max(
        r for r in range(far) if distance**far * exact**r >= max_distance**r * exact**far
    )


@pytest.mark.oracle("t5", "double loop")
@pytest.mark.parametrize(
    ("num_buckets", "max_distance"), [(6, 11), (4, 40), (12, 100), (2, 9), (7, 50), (32, 331)]
)
@everywhere
def test_t5_adds_the_entry_of_the_bucket_of_i_minus_j(
    num_buckets: int, max_distance: int, positions: list[float]
) -> None:
    """Added after the scale; a later key counts as distance 0."""
    a = call(positions)
    encoding = T5(HEADS, 16, num_buckets, max_distance).double()
    content, table, p = product(a), encoding.table.tolist(), a.q_pos.tolist()

    def score(b: int, h: int, i: int, j: int) -> float:
        return content(b, h, i, j) + table[bucket(p[b][i] - p[b][j], num_buckets, max_distance)][h]

    same(scores(encoding, a), by_pairs(a, score))


@pytest.mark.parametrize(
    ("num_buckets", "max_distance"),
    [(2, 9), (6, 11), (8, 21), (12, 100), (16, 42), (21, 42), (32, 100), (32, 128)],
)
def test_t5_buckets_change_exactly_at_their_edges(num_buckets: int, max_distance: int) -> None:
    """Every distance up to twice the maximum, against integer arithmetic: no off-by-one at any
    edge.
    """
    distances = range(2 * max_distance)
    found = t5_bucket(torch.tensor(distances), num_buckets, max_distance).tolist()
    assert found == [bucket(d, num_buckets, max_distance) for d in distances]
    assert set(found) <= set(range(num_buckets)) and found[-1] == num_buckets - 1


@pytest.mark.parametrize(
    ("num_buckets", "max_distance", "distance", "expected"), [(17, 27, 18, 13), (30, 480, 30, 18)]
)
def test_t5_rounds_at_an_edge_as_float32_does(
    num_buckets: int, max_distance: int, distance: int, expected: int
) -> None:
    """Both distances lie exactly on an edge: 18 / 8 = (27 / 8)^(6/9), 30 / 15 = (480 / 15)^(3/15).
    Published models were trained with the side that float32 gives, which double does not.
    """
    found = t5_bucket(torch.tensor([distance]), num_buckets, max_distance)
    assert found.tolist() == [expected]


def test_t5_last_bucket_begins_at_113_of_128() -> None:
    found = t5_bucket(torch.arange(129), 32, 128).tolist()
    assert found.index(31) == 113 and found[112] == 30


def test_t5_bidirectional_puts_later_keys_into_the_second_half() -> None:
    d = torch.arange(-200, 201)
    both = t5_bucket(d, 32, 128, bidirectional=True).tolist()
    assert both == [bucket(abs(x), 16, 128) + (16 if x < 0 else 0) for x in range(-200, 201)]


def test_t5_starts_with_the_standard_deviation_of_the_paper() -> None:
    with torch.random.fork_rng():
        torch.manual_seed(0)
        assert T5(64, 256, 64, 512).table.std().item() == pytest.approx(1 / 16, rel=0.05)


# -- learned rows ----------------------------------------------------------------------------------


@pytest.mark.oracle("learned", "double loop")
def test_learned_adds_row_p_to_the_token_at_position_p() -> None:
    a = call([0, 3, 4, 9, 1, 1, 29])
    encoding = Learned(HEADS * WIDTH, 32).double()
    x, table, p = a.x.tolist(), encoding.table.tolist(), a.q_pos.tolist()
    expected = [
        [[x[b][i][c] + table[p[b][i]][c] for c in range(HEADS * WIDTH)] for i in range(N)]
        for b in range(BATCH)
    ]
    same(encoding.embed(a.x, a.q_pos), torch.tensor(expected, dtype=torch.float64), 1e-14)
    same(scores(encoding, a), by_pairs(a, product(a)))


@pytest.mark.parametrize(
    "make", [lambda: Learned(24, 9), lambda: Sinusoidal(24)], ids=["learned", "sinusoidal"]
)
def test_a_stack_of_layers_adds_the_rows_once(make: Callable[[], PositionEncoding]) -> None:
    layers = [make().double() for _ in range(3)]
    stack = EncodingStack(layers)
    x, pos = call().x, torch.arange(N)[None]
    torch.testing.assert_close(stack.embed(x, pos), layers[0].embed(x, pos), rtol=0, atol=0)
    assert not torch.allclose(stack.embed(x, pos), x)


def test_learned_rows_end_where_the_table_ends() -> None:
    encoding, x = Learned(4, 6), torch.zeros(1, 1, 4)
    assert torch.equal(encoding.embed(x, torch.tensor([[5]]))[0, 0], encoding.table[5])
    with pytest.raises(IndexError):
        encoding.embed(x, torch.tensor([[6]]))


def test_learned_rows_have_the_standard_deviation_asked_for() -> None:
    with torch.random.fork_rng():
        torch.manual_seed(0)
        assert Learned(128, 128, init_std=0.25).table.std().item() == pytest.approx(0.25, rel=0.05)


# -- sinusoids -------------------------------------------------------------------------------------


def wave(width: int, position: float, base: float = 10000.0) -> list[float]:
    """sin, cos, sin, cos...: the interleaving of the paper."""
    row = []
    for channel in range(width):
        angle = position / base ** ((channel - channel % 2) / width)
        row.append(math.sin(angle) if channel % 2 == 0 else math.cos(angle))
    return row


def rows(width: int, positions: Sequence[float], base: float = 10000.0) -> Tensor:
    """What the library adds, [n, width]."""
    pos = torch.tensor([positions])
    return Sinusoidal(width, base).embed(
        torch.zeros(1, len(positions), width, dtype=torch.float64), pos
    )[0]


@pytest.mark.oracle("sinusoidal", "double loop")
@everywhere
@pytest.mark.parametrize(("base", "scale"), [(10000.0, 1.0), (50.0, 1.0), (10000.0, 0.3)])
def test_sinusoidal_adds_sine_and_cosine_in_turns(
    base: float, scale: float, positions: list[float]
) -> None:
    a = call(positions)
    width = HEADS * WIDTH
    x, p = a.x.tolist(), a.q_pos.tolist()
    expected = [
        [
            [x[b][i][c] + scale * wave(width, p[b][i], base)[c] for c in range(width)]
            for i in range(N)
        ]
        for b in range(BATCH)
    ]
    encoding = Sinusoidal(width, base, scale)
    same(encoding.embed(a.x, a.q_pos), torch.tensor(expected, dtype=torch.float64))
    same(scores(encoding, a), by_pairs(a, product(a)))


@pytest.mark.oracle("sinusoidal", "identity: row t + k is row t turned by k theta")
@pytest.mark.parametrize("shift", [1, 17, -4, 0.5])
def test_sinusoidal_row_t_plus_k_is_row_t_turned_by_k_theta(shift: float) -> None:
    """sin(t+k) = sin t cos k + cos t sin k, cos(t+k) = cos t cos k - sin t sin k: one matrix for
    every t.
    """
    width = 24
    times = [0.0, 1.0, 5.0, 100.0, 2047.0]
    now, then = rows(width, times).tolist(), rows(width, [t + shift for t in times]).tolist()
    for before, after in zip(now, then, strict=True):
        for m, theta in enumerate(published(10000.0, width)):
            s, c = before[2 * m], before[2 * m + 1]
            assert after[2 * m] == pytest.approx(
                s * math.cos(shift * theta) + c * math.sin(shift * theta), abs=EXACT
            )
            assert after[2 * m + 1] == pytest.approx(
                c * math.cos(shift * theta) - s * math.sin(shift * theta), abs=EXACT
            )


@pytest.mark.oracle("sinusoidal", "identity: products depend on the distance")
@pytest.mark.parametrize("k", [0, 1, 13, 500])
@pytest.mark.parametrize("t", [500, 1234])
def test_product_of_sinusoidal_rows_is_even_in_their_distance(t: int, k: int) -> None:
    """<P_t, P_{t+k}> = sum_m cos(k theta_m) = <P_t, P_{t-k}>: the rows know distance, not
    direction.
    """
    width = 32
    centre, ahead, behind = rows(width, [t, t + k, t - k]).tolist()
    expected = sum(math.cos(k * theta) for theta in published(10000.0, width))
    for other in (ahead, behind):
        assert sum(x * y for x, y in zip(centre, other, strict=True)) == pytest.approx(
            expected, abs=EXACT
        )


# -- from logits to outputs ------------------------------------------------------------------------


@pytest.mark.parametrize(
    "encoding", [NoPE(), RoPE(WIDTH), ALiBi(HEADS)], ids=["nope", "rope", "alibi"]
)
def test_outputs_are_the_softmax_over_keys_up_to_the_query(encoding: PositionEncoding) -> None:
    """The causal softmax by hand; the query's own key is included."""
    a = call()
    z, v = scores(encoding, a).tolist(), a.v.tolist()
    expected = torch.zeros_like(a.v)
    for b in range(BATCH):
        for h in range(HEADS):
            for i in range(N):
                weights = [math.exp(z[b][h][i][j]) for j in range(i + 1)]
                for c in range(WIDTH):
                    total = sum(w * v[b][h][j][c] for j, w in enumerate(weights))
                    expected[b, h, i, c] = total / sum(weights)
    same(attend(encoding.encode(a)), expected)
