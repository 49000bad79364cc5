"""The dense path and the fused ones compute the formula of `Attention`, as loops over batch, head,
query and key in Python floats say it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest
import torch
from loops import Score, product
from plans import (
    ALL,
    BATCH,
    BY_ROWS,
    FUSED,
    HEADS,
    MODEL,
    WIDTH,
    N,
    additive_content,
    by_hand,
    call,
    finished,
    one_more,
    random,
    same,
    shaw,
    shaw_values,
    window,
)

from posbench.core.attention import Attention, Heads, Plan, Regions, Term, attend, dense
from posbench.encodings.alibi import ALiBi, alibi_slopes
from posbench.encodings.rope import RoPE


@pytest.fixture(autouse=True)
def _seeded() -> Iterator[None]:
    with torch.random.fork_rng():
        torch.manual_seed(0)
        yield


# -- the dense path against loops ------------------------------------------------------------------


@pytest.mark.slow
def test_attention_is_the_causal_softmax_of_the_scaled_product() -> None:
    a = call()
    same(dense(a), by_hand(a, product(a)))
    same(attend(a), by_hand(a, product(a)))


def test_a_value_term_is_summed_on_the_weights() -> None:
    encode, (table,) = shaw()
    a = call()
    rows = table.tolist()
    expected = by_hand(a, product(a), extra=lambda b, h, i, j: rows[max(-3, min(3, i - j)) + 3])
    same(attend(encode(a)), expected)


def test_a_finish_is_applied_to_each_row_of_the_output() -> None:
    encode, (w,) = finished(lambda a: a)()
    a = call()
    expected = by_hand(a, product(a))
    x, weight = a.x.tolist(), w.tolist()
    for b in range(BATCH):
        for h in range(HEADS):
            for i in range(N):
                expected[b, h, i] /= 1 + math.exp(
                    -sum(x[b][i][c] * weight[c][h] for c in range(MODEL))
                )
    for run in (attend, dense):
        same(run(encode(a), 4), expected)


def test_two_value_terms_add_up() -> None:
    a = call()
    one, two = random(7, WIDTH, seed=12), random(3, WIDTH, seed=13)
    plan = replace(a, values=(shaw_values(a, one, 3), shaw_values(a, two, 1)))
    first, second = one.tolist(), two.tolist()
    expected = by_hand(
        a,
        product(a),
        extra=lambda b, h, i, j: [
            x + y for x, y in zip(first[min(3, i - j) + 3], second[min(1, i - j) + 1], strict=True)
        ],
    )
    same(attend(plan), expected)


def test_a_normaliser_of_its_own_replaces_the_softmax() -> None:
    a = call()
    same(attend(replace(a, normalise=one_more)), by_hand(a, product(a), rest=1.0))


def test_content_of_its_own_replaces_the_product_and_takes_no_scale() -> None:
    """Bias and temperature still apply to it."""
    a = call()
    q, k, m = a.q.tolist(), a.k.tolist(), alibi_slopes(HEADS)
    plan = replace(ALiBi(HEADS).encode(a), content=additive_content(a)).heated(
        torch.full((1, 1, 1, 1), 0.7)
    )

    def score(b: int, h: int, i: int, j: int) -> float:
        return 0.7 * sum(math.tanh(q[b][h][i][c] + k[b][h][j][c]) for c in range(WIDTH)) - m[h] * (
            i - j
        )

    same(attend(plan), by_hand(a, score), 1e-7)  # 0.7 is a float32 here


# -- temperature -----------------------------------------------------------------------------------

SHAPES = [(1, 1, 1, 1), (BATCH, 1, 1, 1), (1, HEADS, 1, 1), (1, 1, N, 1), (BATCH, HEADS, N, 1)]


@pytest.mark.slow
@pytest.mark.parametrize("scales_bias", [False, True])
@pytest.mark.parametrize("bias", ["none", "factored", "term"])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_temperature_multiplies_content_and_on_demand_the_bias(
    shape: tuple[int, ...], bias: str, scales_bias: bool
) -> None:
    """Scores are tau c <q, k> + B, or tau (c <q, k> + B): per batch element, head and query."""
    a, tau, table = call(), random(*shape, seed=14).exp(), random(BATCH, HEADS, N, N, seed=15)
    content, m = product(a), alibi_slopes(HEADS)
    plan = {
        "none": a,
        "factored": ALiBi(HEADS).encode(a),
        "term": a.plus(lambda rows: table[:, :, rows]),
    }[bias]
    plan = plan.heated(tau, scales_bias)
    t, entries = tau.expand(BATCH, HEADS, N, 1).tolist(), table.tolist()

    def score(b: int, h: int, i: int, j: int) -> float:
        added = {"none": 0.0, "factored": -m[h] * (i - j), "term": entries[b][h][i][j]}[bias]
        return t[b][h][i][0] * content(b, h, i, j) + (t[b][h][i][0] if scales_bias else 1.0) * added

    for run in (attend, dense):
        same(run(plan, 4), by_hand(a, score))


def test_two_temperatures_multiply() -> None:
    a = call()
    one, two = random(1, HEADS, 1, 1, seed=16).exp(), random(1, 1, N, 1, seed=17).exp()
    t = (one * two).expand(BATCH, HEADS, N, 1).tolist()
    content = product(a)
    same(
        attend(a.heated(one).heated(two)),
        by_hand(a, lambda b, h, i, j: t[b][h][i][0] * content(b, h, i, j)),
    )


def test_scaling_the_bias_is_not_undone_by_a_second_temperature() -> None:
    tau = torch.full((1, 1, 1, 1), 2.0, dtype=torch.float64)
    assert call().heated(tau, scales_bias=True).heated(tau).scales_bias


# -- terms, factors and masks ----------------------------------------------------------------------


@pytest.mark.slow
def test_terms_and_factors_add_up_after_the_scale() -> None:
    a = call()
    table, left, right = (
        random(1, 1, N, N, seed=18),
        random(1, HEADS, N, 3, seed=19),
        random(1, HEADS, N, 3, seed=20),
    )
    plan = ALiBi(HEADS).encode(a).factored(left, right).plus(lambda rows: table[:, :, rows])
    entries, u, w, m, content = (
        table.tolist(),
        left.tolist(),
        right.tolist(),
        alibi_slopes(HEADS),
        product(a),
    )

    def score(b: int, h: int, i: int, j: int) -> float:
        low_rank = sum(x * y for x, y in zip(u[0][h][i], w[0][h][j], strict=True))
        return content(b, h, i, j) + entries[0][0][i][j] - m[h] * (i - j) + low_rank

    for run in (attend, dense):
        same(run(plan, 4), by_hand(a, score))


def test_a_mask_hides_keys_by_batch_and_head() -> None:
    """Two masks: a key is seen where both allow it."""
    a = call()
    one = random(BATCH, 1, N, N, seed=21) > -0.5
    two = random(1, HEADS, N, N, seed=22) > -0.5
    one, two = (m | torch.eye(N, dtype=torch.bool) for m in (one, two))
    plan = a.where(lambda rows: one[:, :, rows]).where(lambda rows: two[:, :, rows])
    first, second = one.tolist(), two.tolist()
    expected = by_hand(
        a, product(a), seen=lambda b, h, i, j: first[b][0][i][j] and second[0][h][i][j]
    )
    for run in (attend, dense):
        same(run(plan, 4), expected)


def test_a_window_is_counted_in_positions_while_causality_goes_by_index() -> None:
    a = call().at(*[torch.tensor([[9, 8, 8, 7, 3, 2, 12, 0, 1, 4, 4]])] * 2)
    p = a.q_pos[0].tolist()
    same(attend(window(a)), by_hand(a, product(a), seen=lambda b, h, i, j: p[i] - p[j] < 4))


def test_distance_is_query_position_less_key_position() -> None:
    a = call(5)
    a = a.at(torch.tensor([[10, 20, 30, 40, 50]]), torch.tensor([[1, 2, 3, 4, 5]]))
    assert a.distance(slice(1, 3)).tolist() == [[[19, 18, 17, 16, 15], [29, 28, 27, 26, 25]]]


def test_offset_is_query_index_less_key_index_whatever_the_positions() -> None:
    a = call(5).at(*[torch.tensor([[9, 9, 3, 2, 40]])] * 2)
    assert a.offset(slice(1, 3)).tolist() == [[1, 0, -1, -2, -3], [2, 1, 0, -1, -2]]


# -- widths ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name", ["nope", "alibi", "alibi, heated", "t5", "alibi in a window", "own normaliser"]
)
@pytest.mark.parametrize(("width", "v_width"), [(12, 8), (8, 12), (8, 9), (3, 8)])
def test_queries_and_keys_may_be_wider_or_narrower_than_values(
    name: str, width: int, v_width: int
) -> None:
    plan = ALL[name]()[0](call(width=width, v_width=v_width))
    out = attend(plan, 4)
    assert out.shape == (BATCH, HEADS, N, v_width)
    same(out, dense(plan))


def test_unequal_widths_are_right_by_hand() -> None:
    a = call(width=12, v_width=5)
    same(attend(a), by_hand(a, product(a)))


# -- heads -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", [name for name in FUSED | BY_ROWS if "finished" not in name])
@pytest.mark.parametrize("part", [slice(0, 1), slice(1, 3), slice(2, None)], ids=str)
def test_some_heads_give_what_they_give_among_all(name: str, part: slice) -> None:
    plan = ALL[name]()[0](call())
    cut = plan.heads(part)
    assert cut.path == plan.path
    same(attend(cut, 4), attend(plan, 4)[:, part])
    same(dense(cut), attend(plan)[:, part])


@pytest.mark.parametrize("name", ["value term", "own content", "own normaliser", "alibi, finished"])
def test_heads_cannot_be_split_once_content_values_normaliser_or_finish_are_set(name: str) -> None:
    with pytest.raises(ValueError, match="split heads before"):
        ALL[name]()[0](call()).heads(slice(0, 2))


def three_parts(a: Attention) -> Heads:
    """Head 0 with RoPE; head 1 with a normaliser of its own and wider queries; heads 2 and 3 with
    T5-like terms.
    """
    table = random(1, 2, N, N, seed=23)
    extra = random(BATCH, 1, N, 2, seed=24)
    middle = a.heads(slice(1, 2))
    middle = replace(
        middle,
        q=torch.cat((middle.q, extra), -1),
        k=torch.cat((middle.k, extra), -1),
        normalise=one_more,
    )
    last = a.heads(slice(2, 4)).plus(lambda rows: table[:, :, rows])
    return Heads((RoPE(WIDTH).encode(a.heads(slice(0, 1))), middle, last))


@pytest.mark.slow
def test_heads_side_by_side_equal_each_one_alone() -> None:
    """Parts of different width, normaliser and path, against loops of one head each."""
    a = call()
    plan = three_parts(a)
    content, extra = product(a), random(BATCH, 1, N, 2, seed=24).tolist()
    table, q, k = random(1, 2, N, N, seed=23).tolist(), a.q.tolist(), a.k.tolist()

    def first(b: int, h: int, i: int, j: int) -> float:
        total = 0j
        for m in range(WIDTH // 2):
            query = complex(q[b][0][i][m], q[b][0][i][m + WIDTH // 2])
            key = complex(k[b][0][j][m], k[b][0][j][m + WIDTH // 2])
            angle = (i - j) * 10000.0 ** (-2 * m / WIDTH)
            total += query * key.conjugate() * complex(math.cos(angle), math.sin(angle))
        return a.scale * total.real

    def second(b: int, h: int, i: int, j: int) -> float:
        return content(b, 1, i, j) + a.scale * sum(
            x * y for x, y in zip(extra[b][0][i], extra[b][0][j], strict=True)
        )

    def last(b: int, h: int, i: int, j: int) -> float:
        return content(b, h, i, j) + table[0][h - 2][i][j]

    scores = [
        by_hand(a, first)[:, :1],
        by_hand(a, second, rest=1.0)[:, 1:2],
        by_hand(a, last)[:, 2:],
    ]
    for run in (attend, dense):
        same(run(plan, 4), torch.cat(scores, 1))
    assert plan.num_queries == N
    assert plan.path == "fused + dense + fused by rows"


def test_heads_of_one_path_name_it_once() -> None:
    a = call()
    assert Heads((a.heads(slice(0, 2)), a.heads(slice(2, 4)))).path == "fused"


def test_allowed_keys_of_side_by_side_heads_are_those_of_each() -> None:
    a = call()
    parts = (a.heads(slice(0, 3)), window(a.heads(slice(3, 4))))
    allowed = Heads(parts).allowed(slice(4, 9))
    assert allowed.shape == (1, HEADS, 5, N)
    for h in range(HEADS):
        for i in range(4, 9):
            expected = [j <= i and (h < 3 or i - j < 4) for j in range(N)]
            assert allowed[0, h, i - 4].tolist() == expected


@pytest.mark.parametrize("masked", [0, 1])
def test_heads_of_which_some_have_a_mask_for_each_row_keep_it(masked: int) -> None:
    """Whichever part it is that has one, the others have the same mask in every row."""
    a, hidden = call(), 3
    rows = torch.ones(BATCH, 1, N, N, dtype=torch.bool)
    rows[1, :, :, hidden] = False
    parts = [a.heads(slice(0, 2)), a.heads(slice(2, 4))]
    parts[masked] = parts[masked].where(lambda at: rows[:, :, at])
    allowed = Heads(parts).allowed(slice(4, 9))
    assert allowed.shape == (BATCH, HEADS, 5, N)
    seen = torch.ones(N, N, dtype=torch.bool).tril()[4:9].expand(BATCH, HEADS, -1, -1).clone()
    seen[1, 2 * masked : 2 * masked + 2, :, hidden] = False
    assert torch.equal(allowed, seen)


# -- regions ---------------------------------------------------------------------------------------

WINDOW = 4


def far_from(a: Attention) -> Term:
    """1 for keys at a distance of WINDOW or more, else 0."""
    return lambda rows: (a.distance(rows) >= WINDOW).long()[:, None]


def rerope(a: Attention, encode: Callable[[Attention], Attention]) -> Regions:
    """Near keys at their distance, all others at WINDOW: two position maps of one encoding."""
    fixed = a.at(torch.full_like(a.q_pos, WINDOW), torch.zeros_like(a.k_pos))
    return Regions(far_from(a), (encode(a), encode(fixed)))


def rotary_at(a: Attention, distance: Callable[[int, int], int]) -> Score:
    q, k = a.q.tolist(), a.k.tolist()
    half = WIDTH // 2

    def score(b: int, h: int, i: int, j: int) -> float:
        total = 0.0
        for m in range(half):
            angle = distance(i, j) * 10000.0 ** (-m / half)
            real = q[b][h][i][m] * k[b][h][j][m] + q[b][h][i][m + half] * k[b][h][j][m + half]
            cross = q[b][h][i][m] * k[b][h][j][m + half] - q[b][h][i][m + half] * k[b][h][j][m]
            total += real * math.cos(angle) + cross * math.sin(angle)
        return a.scale * total

    return score


def test_two_position_maps_of_rope_make_rerope() -> None:
    """The distance is min(i - j, w), which no single rotation of queries and keys can give."""
    a = call()
    plan = rerope(a, RoPE(WIDTH).encode)
    expected = by_hand(a, rotary_at(a, lambda i, j: min(i - j, WINDOW)))
    for block in (None, 1, 4):
        same(attend(plan, block), expected)
    assert plan.path == "dense"


def test_value_terms_follow_the_region_of_their_key() -> None:
    """Shaw's values: distance i - j in the near region, w in the far one."""
    a = call()
    table = random(2 * 6 + 1, WIDTH, seed=25)

    def encode(at: Attention) -> Attention:
        return replace(RoPE(WIDTH).encode(at), values=(shaw_values(at, table, 6),))

    rows = table.tolist()
    expected = by_hand(
        a,
        rotary_at(a, lambda i, j: min(i - j, WINDOW)),
        extra=lambda b, h, i, j: rows[min(i - j, WINDOW) + 6],
    )
    for block in (None, 1, 4):
        same(attend(rerope(a, encode), block), expected)


def test_three_regions_are_selected_key_by_key_and_head_by_head() -> None:
    a = call()
    choice = torch.randint(0, 3, (BATCH, HEADS, N, N), generator=torch.Generator().manual_seed(26))
    maps = [(1, 0), (3, 2), (0, 7)]  # distance = i * first + second, of queries alone
    parts = [RoPE(WIDTH).encode(a.at(a.q_pos * f + s, torch.zeros_like(a.k_pos))) for f, s in maps]
    entries = choice.tolist()
    scores = [rotary_at(a, lambda i, j, f=f, s=s: i * f + s) for f, s in maps]
    expected = by_hand(a, lambda b, h, i, j: scores[entries[b][h][i][j]](b, h, i, j))
    same(attend(Regions(lambda rows: choice[:, :, rows], parts), 4), expected)


def test_masks_and_normaliser_of_the_first_region_hold_for_all() -> None:
    a = window(replace(call(), normalise=one_more))
    fixed = a.at(torch.full_like(a.q_pos, WINDOW), torch.zeros_like(a.k_pos))
    plan = Regions(
        lambda rows: (torch.arange(N)[rows, None] % 2 == 0).long()[None, None],
        (a, RoPE(8).encode(fixed)),
    )
    product_, turned = product(a), rotary_at(a, lambda i, j: WINDOW)
    expected = by_hand(
        a,
        lambda b, h, i, j: turned(b, h, i, j) if i % 2 == 0 else product_(b, h, i, j),
        seen=lambda b, h, i, j: i - j < WINDOW,
        rest=1.0,
    )
    same(attend(plan), expected)


def test_regions_of_finished_parts_are_refused() -> None:
    a = call()
    with pytest.raises(ValueError, match="map of the finished output"):
        Regions(far_from(a), (a, replace(a, finish=lambda out, rows: out)))


@pytest.mark.slow
def test_regions_can_be_one_part_of_heads() -> None:
    a = call()
    far, near = a.heads(slice(0, 3)), a.heads(slice(3, 4))
    plan: Plan = Heads((near, rerope(far, RoPE(WIDTH).encode)))
    expected = by_hand(a, rotary_at(a, lambda i, j: min(i - j, WINDOW)))[:, :3]
    for run in (attend, dense):
        same(run(plan, 4), torch.cat((by_hand(a, product(a))[:, 3:], expected), 1))
    assert Heads((near, rerope(far, RoPE(WIDTH).encode))).path == "fused + dense"
