"""The executor computes the formula of `Attention`, by whichever path, in whatever blocks, in
linear memory.

Two oracles: `by_hand`, loops over batch, head, query and key in Python floats, says what an object
means; the dense path, once it equals the loops, says what the fused paths must give, gradients
included.
"""

from __future__ import annotations

import math
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest
import torch
from torch import Tensor

from posbench import attention
from posbench.attention import (
    Attention,
    Heads,
    Plan,
    Regions,
    Term,
    ValueTerm,
    attend,
    blocks,
    dense,
    exact_channels,
)
from posbench.encoding import PositionEncoding
from posbench.encodings.alibi import ALiBi, alibi_slopes
from posbench.encodings.nope import NoPE
from posbench.encodings.rope import RoPE
from posbench.encodings.t5 import T5

BATCH, HEADS, N, WIDTH, MODEL = 2, 4, 11, 8, 6
EXACT = 1e-10
TRAINED = 42  # positions of the training length that "8 times" refers to

Encode = Callable[[Attention], Attention]
Number = Callable[[int, int, int, int], float]
"""(batch, head, i, j) -> a number"""


@pytest.fixture(autouse=True)
def _seeded() -> Iterator[None]:
    with torch.random.fork_rng():
        torch.manual_seed(0)
        yield


def random(*shape: int, seed: int = 1) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def call(
    n: int = N, heads: int = HEADS, width: int = WIDTH, v_width: int | None = None, start: int = 0
) -> Attention:
    q, k = random(BATCH, heads, n, width, seed=2), random(BATCH, heads, n, width, seed=3)
    v = random(BATCH, heads, n, v_width or width, seed=4)
    pos = torch.arange(n)[None] + start
    return Attention(q, k, v, random(BATCH, n, MODEL, seed=5), pos, pos, scale=0.41)


def as_dtype(a: Attention, dtype: torch.dtype) -> Attention:
    return replace(a, q=a.q.to(dtype), k=a.k.to(dtype), v=a.v.to(dtype), x=a.x.to(dtype))


def same(actual: Tensor, expected: Tensor, tolerance: float = EXACT) -> None:
    torch.testing.assert_close(actual, expected, rtol=0, atol=tolerance)


# -- the loops -------------------------------------------------------------------------------------


def product(a: Attention) -> Number:
    q, k = a.q.tolist(), a.k.tolist()
    return lambda b, h, i, j: (
        a.scale * sum(x * y for x, y in zip(q[b][h][i], k[b][h][j], strict=True))
    )


def by_hand(
    a: Attention,
    score: Number,
    seen: Callable[[int, int, int, int], bool] = lambda b, h, i, j: True,
    extra: Callable[[int, int, int, int], list[float]] | None = None,
    rest: float = 0.0,
) -> Tensor:
    """o_i = sum_j w_ij (v_j + extra_ij), w the softmax of `score` over j <= i that are `seen`, with
    `rest` added to its denominator.
    """
    v = a.v.tolist()
    batch, heads, n, width = a.v.shape
    out = torch.zeros(batch, heads, n, width, dtype=torch.float64)
    for b in range(batch):
        for h in range(heads):
            for i in range(n):
                weights = {j: math.exp(score(b, h, i, j)) for j in range(i + 1) if seen(b, h, i, j)}
                total = sum(weights.values()) + rest
                for j, weight in weights.items():
                    for c in range(width):
                        value = v[b][h][j][c] + (extra(b, h, i, j)[c] if extra else 0.0)
                        out[b, h, i, c] += weight / total * value
    return out


# -- plans: what a method may set, alone and together ----------------------------------------------


def encoding(
    make: Callable[[], T5 | NoPE | RoPE | ALiBi],
) -> Callable[[], tuple[Encode, list[Tensor]]]:
    def made() -> tuple[Encode, list[Tensor]]:
        module = make().double()
        return module.encode, list(module.parameters())

    return made


def gate(factored: bool) -> Callable[[], tuple[Encode, list[Tensor]]]:
    """A bias made of x, G_i - G_j with G the running sum of log sigmoid(x w): as a term, or as two
    channels.
    """

    def made() -> tuple[Encode, list[Tensor]]:
        w = random(MODEL, HEADS, seed=6).requires_grad_()

        def encode(a: Attention) -> Attention:
            g = torch.nn.functional.logsigmoid(a.x @ w).cumsum(1).mT  # [batch, heads, n]
            one = torch.ones_like(g)
            if factored:
                return a.factored(torch.stack((g, one), -1), torch.stack((one, -g), -1))
            return a.plus(lambda rows: g[:, :, rows, None] - g[:, :, None, :])

        return encode, [w]

    return made


def heated(inner: Encode, scales_bias: bool) -> Callable[[], tuple[Encode, list[Tensor]]]:
    def made() -> tuple[Encode, list[Tensor]]:
        w = random(MODEL, HEADS, seed=7).requires_grad_()
        return lambda a: inner(a).heated(0.5 + (a.x @ w).mT[..., None].sigmoid(), scales_bias), [w]

    return made


def window(a: Attention) -> Attention:
    return a.where(lambda rows: (a.distance(rows) < 4)[:, None])


def windows(a: Attention) -> Attention:
    """A window of its own for every head."""
    sizes = torch.tensor([1, 2, 5, 20])[:, None, None]
    return a.where(lambda rows: a.distance(rows)[:, None] < sizes)


def shaw_values(a: Attention, table: Tensor, limit: int) -> ValueTerm:
    """sum_j w_ij E[clip(i - j)], E of [2 limit + 1, width]."""

    def value(weights: Tensor, rows: slice) -> Tensor:
        index = a.distance(rows).clamp(-limit, limit).long() + limit
        return torch.einsum(
            "bhij,bijc->bhic", weights, table[index].expand(weights.shape[0], -1, -1, -1)
        )

    return value


def shaw() -> tuple[Encode, list[Tensor]]:
    table = random(7, WIDTH, seed=8).requires_grad_()
    return lambda a: replace(a, values=(*a.values, shaw_values(a, table, 3))), [table]


def one_more(logits: Tensor, allowed: Tensor) -> Tensor:
    """A normaliser of its own: exp(z) / (1 + sum exp(z))."""
    exp = logits.exp().masked_fill(~allowed, 0)
    return exp / (1 + exp.sum(-1, keepdim=True))


def finished(inner: Encode) -> Callable[[], tuple[Encode, list[Tensor]]]:
    """Outputs multiplied by a gate of x at the query: a map that needs to know which rows it was
    given.
    """

    def made() -> tuple[Encode, list[Tensor]]:
        w = random(MODEL, HEADS, seed=29).requires_grad_()

        def encode(a: Attention) -> Attention:
            g = (a.x @ w).mT.sigmoid()[..., None]  # [batch, heads, n, 1]
            return replace(inner(a), finish=lambda out, rows: out * g[:, :, rows])

        return encode, [w]

    return made


def additive_content(a: Attention) -> Term:
    """sum_c tanh(q_ic + k_jc) in place of the scaled product."""
    return lambda rows: (a.q[..., rows, None, :] + a.k[..., None, :, :]).tanh().sum(-1)


def alibi_and_more(a: Attention) -> Attention:
    a = ALiBi(HEADS).encode(RoPE(WIDTH).encode(a))
    return a.factored(random(1, HEADS, N, 3, seed=9), random(1, HEADS, N, 3, seed=10))


FUSED: dict[str, Callable[[], tuple[Encode, list[Tensor]]]] = {
    "nope": encoding(NoPE),
    "rope": encoding(lambda: RoPE(WIDTH)),
    "alibi": encoding(lambda: ALiBi(HEADS)),
    "rope, alibi and a third bias": lambda: (alibi_and_more, []),
    "gate of x in channels": gate(factored=True),
    "alibi, heated": heated(ALiBi(HEADS).encode, scales_bias=False),
    "alibi, heated with its bias": heated(ALiBi(HEADS).encode, scales_bias=True),
    "alibi, finished": finished(ALiBi(HEADS).encode),
}
BY_ROWS: dict[str, Callable[[], tuple[Encode, list[Tensor]]]] = {
    "t5": encoding(lambda: T5(HEADS, 8, 4, 9)),
    "gate of x as a term": gate(factored=False),
    "alibi in a window": lambda: (lambda a: window(ALiBi(HEADS).encode(a)), []),
    "a window a head": lambda: (windows, []),
    "window, heated": heated(window, scales_bias=False),
    "window, finished": finished(window),
    "gate, heated with its bias": heated(gate(factored=False)()[0], scales_bias=True),
}
DENSE: dict[str, Callable[[], tuple[Encode, list[Tensor]]]] = {
    "value term": shaw,
    "own normaliser": lambda: (lambda a: replace(a, normalise=one_more), []),
    "own content": lambda: (
        lambda a: replace(ALiBi(HEADS).encode(a), content=additive_content(a)),
        [],
    ),
}
ALL = FUSED | BY_ROWS | DENSE


@pytest.mark.parametrize("name", ALL)
def test_path_is_read_off_the_fields(name: str) -> None:
    expected = "fused" if name in FUSED else "fused by rows" if name in BY_ROWS else "dense"
    assert ALL[name]()[0](call()).path == expected


@pytest.mark.parametrize("block", [None, 3])
@pytest.mark.parametrize("name", FUSED | BY_ROWS)
def test_fused_paths_equal_the_dense_reference_with_gradients(name: str, block: int | None) -> None:
    """Values, and gradients with respect to q, k, v, x and parameters."""
    encode, parameters = ALL[name]()
    a = call()
    leaves = [t.requires_grad_() for t in (a.q, a.k, a.v, a.x)] + parameters
    weight = random(BATCH, HEADS, N, WIDTH, seed=11)
    results = []
    for run in (attend, dense):
        out = run(encode(a), block)
        found = torch.autograd.grad((out * weight).sum(), leaves, allow_unused=True)
        results.append([out, *(torch.zeros(()) if g is None else g for g in found)])
    for fused, reference in zip(*results, strict=True):
        same(fused, reference)
    reached = [g.abs().max() > 0 for g in results[0][1:]]
    assert reached[:3] == [True] * 3 and all(reached[4:]), (
        "q, k, v and every parameter get a gradient"
    )


@pytest.mark.parametrize("name", ALL)
def test_any_block_size_gives_the_same(name: str) -> None:
    plan = ALL[name]()[0](call())
    whole = attend(plan, N)
    for block in (1, 3, N - 1, N + 5, None):
        same(attend(plan, block), whole, 1e-12)
        same(dense(plan, block), whole)


def test_blocks_cover_every_row_once() -> None:
    for n, size in [(11, 3), (12, 3), (1, 5), (5, 1)]:
        assert [i for rows in blocks(n, size) for i in range(n)[rows]] == list(range(n))
        assert all(rows.stop - rows.start <= size for rows in blocks(n, size))


@pytest.mark.parametrize("composite", [False, True])
def test_a_block_of_scores_stays_within_its_budget(
    composite: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What bounds memory at any length: batch x heads x rows x keys elements at once."""
    monkeypatch.setattr(attention, "BLOCK_ELEMENTS", 3 * BATCH * HEADS * N)
    asked: list[int] = []

    def term(rows: slice) -> Tensor:
        asked.append(rows.stop - rows.start)
        return torch.zeros(1, 1, rows.stop - rows.start, N, dtype=torch.float64)

    plan = call().plus(term)
    attend(Regions(lambda rows: torch.zeros(1, 1, 1, N), [plan]) if composite else plan)
    assert max(asked) == 3 and sum(asked) == N


# -- the dense path against loops ------------------------------------------------------------------


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


# -- causality -------------------------------------------------------------------------------------


@pytest.mark.parametrize("backwards", [False, True])
@pytest.mark.parametrize("name", ALL)
def test_no_output_depends_on_a_later_token(name: str, backwards: bool) -> None:
    """By index, also where positions run the other way."""
    encode = ALL[name]()[0]
    a, cut = call(), 6
    if backwards:
        a = a.at(a.q_pos.flip(1), a.k_pos.flip(1))
    later = replace(a, **{f: getattr(a, f).clone() for f in ("q", "k", "v", "x")})
    for t in (later.q, later.k, later.v):
        t[:, :, cut:] += 3
    later.x[:, cut:] -= 2
    for run in (attend, dense):
        before, after = run(encode(a), 4), run(encode(later), 4)
        same(after[:, :, :cut], before[:, :, :cut], 1e-12)
        assert not torch.allclose(after[:, :, cut:], before[:, :, cut:])


@pytest.mark.parametrize("name", FUSED | BY_ROWS)
def test_the_last_output_depends_on_every_key_it_may_see(name: str) -> None:
    """The other half of causality: nothing earlier is lost, the first key and the query's own
    included.
    """
    a = call()
    v = a.v.requires_grad_()
    plan = ALL[name]()[0](a)
    (gradient,) = torch.autograd.grad(attend(plan, 4)[:, :, -1].sum(), v)
    seen = plan.allowed(slice(N - 1, N)).expand(BATCH, HEADS, 1, N)[:, :, 0]
    assert torch.equal(gradient.abs().sum(-1) > 0, seen)


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


@pytest.mark.parametrize(
    "name", [*(name for name in FUSED | BY_ROWS if "finished" not in name), "own normaliser"]
)
@pytest.mark.parametrize("part", [slice(0, 1), slice(1, 3), slice(2, None)], ids=str)
def test_some_heads_give_what_they_give_among_all(name: str, part: slice) -> None:
    plan = ALL[name]()[0](call())
    cut = plan.heads(part)
    assert cut.path == plan.path
    same(attend(cut, 4), attend(plan, 4)[:, part])
    same(dense(cut), attend(plan)[:, part])


@pytest.mark.parametrize("name", ["value term", "own content", "alibi, finished"])
def test_heads_cannot_be_split_once_content_values_or_finish_are_set(name: str) -> None:
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


# -- regions ---------------------------------------------------------------------------------------

WINDOW = 4


def far_from(a: Attention) -> Term:
    """1 for keys at a distance of WINDOW or more, else 0."""
    return lambda rows: (a.distance(rows) >= WINDOW).long()[:, None]


def rerope(a: Attention, encode: Callable[[Attention], Attention]) -> Regions:
    """Near keys at their distance, all others at WINDOW: two position maps of one encoding."""
    fixed = a.at(torch.full_like(a.q_pos, WINDOW), torch.zeros_like(a.k_pos))
    return Regions(far_from(a), (encode(a), encode(fixed)))


def rotary_at(a: Attention, distance: Callable[[int, int], int]) -> Number:
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


def test_regions_can_be_one_part_of_heads() -> None:
    a = call()
    far, near = a.heads(slice(0, 3)), a.heads(slice(3, 4))
    plan: Plan = Heads((near, rerope(far, RoPE(WIDTH).encode)))
    expected = by_hand(a, rotary_at(a, lambda i, j: min(i - j, WINDOW)))[:, :3]
    for run in (attend, dense):
        same(run(plan, 4), torch.cat((by_hand(a, product(a))[:, 3:], expected), 1))
    assert Heads((near, rerope(far, RoPE(WIDTH).encode))).path == "fused + dense"


# -- precision -------------------------------------------------------------------------------------

ENCODINGS: dict[str, Callable[[], NoPE | RoPE | ALiBi | T5]] = {
    "nope": NoPE,
    "rope": lambda: RoPE(WIDTH),
    "alibi": lambda: ALiBi(HEADS),
    "t5": lambda: T5(HEADS, 8, 21, TRAINED),
}
TOLERANCES = [(torch.float32, 2e-5), (torch.bfloat16, 2e-2)]  # outputs are of the order of 1


@pytest.mark.parametrize(("dtype", "tolerance"), TOLERANCES, ids=["float32", "bfloat16"])
@pytest.mark.parametrize("name", ENCODINGS)
def test_low_precision_stays_within_tolerance_at_8x(
    name: str, dtype: torch.dtype, tolerance: float
) -> None:
    """The fused path against the dense one in float64, on the same rounded inputs."""
    a = as_dtype(call(8 * TRAINED), dtype)
    module = ENCODINGS[name]()
    out = attend(module.encode(a))
    assert out.dtype == dtype
    reference = dense(module.double().encode(as_dtype(a, torch.float64)))
    same(out.double(), reference, tolerance)


@pytest.mark.parametrize("heads", [8, 6])
@pytest.mark.parametrize("start", [0, 2**20])
@pytest.mark.parametrize(
    ("dtype", "logit", "output"),
    [(torch.float32, 3e-4, 1e-4), (torch.bfloat16, 2e-2, 2e-2)],
    ids=["float32", "bfloat16"],
)
def test_alibi_keeps_its_distances_at_2048_tokens(
    heads: int, start: int, dtype: torch.dtype, logit: float, output: float
) -> None:
    """bfloat16 counts to 256 and float32 has steps of 1/8 at 2^20: distances survive because
    positions are counted from the middle and bfloat16 channels carry their remainders. Biases reach
    1024; rows from all over are compared.
    """
    n = 2048
    a = call(n, heads=heads, width=4, start=start)
    a = as_dtype(replace(a, q=a.q[:1], k=a.k[:1], v=a.v[:1], x=a.x[:1]), dtype)
    plan, exact = ALiBi(heads).encode(a), ALiBi(heads).encode(as_dtype(a, torch.float64))
    bias_q, bias_k = exact_channels(plan.bias_q, plan.bias_k, dtype)
    assert bias_q.dtype == bias_k.dtype == dtype
    out, slopes = attend(plan).double(), torch.tensor(alibi_slopes(heads), dtype=torch.float64)
    for rows in (slice(0, 8), slice(1020, 1028), slice(n - 8, n)):
        distance = torch.arange(n, dtype=torch.float64)[rows, None] - torch.arange(n)
        same(
            (bias_q[:, :, rows].double() @ bias_k.double().mT)[0],
            -slopes[:, None, None] * distance,
            logit,
        )
        same(out[:, :, rows], exact.output(exact.weights(exact.logits(rows), rows), rows), output)


def test_channels_are_split_only_where_precision_is_lost() -> None:
    left, right = random(1, 2, 5, 2, seed=27), random(1, 2, 5, 2, seed=28)
    for given, dtype, width in [
        (torch.float64, torch.float64, 2),
        (torch.float64, torch.float32, 2),
        (torch.float32, torch.float32, 2),
        (torch.bfloat16, torch.bfloat16, 2),
        (torch.float32, torch.bfloat16, 6),
        (torch.float32, torch.float16, 6),
    ]:
        bias_q, bias_k = exact_channels(left.to(given), right.to(given), dtype)
        assert (
            bias_q.shape[-1] == bias_k.shape[-1] == width and bias_q.dtype == bias_k.dtype == dtype
        )


# -- memory ----------------------------------------------------------------------------------------

MEMORY = """
import resource, sys, torch
from posbench.attention import Attention, attend
from posbench.encodings.t5 import T5
from posbench.encodings.alibi import ALiBi
torch.set_num_threads(1)

def call(n):
    q, k, v = (torch.randn(1, 4, n, 16) for _ in range(3))
    pos = torch.arange(n)[None]
    return Attention(q, k, v, torch.randn(1, n, 64), pos, pos, 0.25)

def peak():
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit

encoding = {encoding}
with torch.no_grad():
    attend(encoding.encode(call(64)))
    a = call({n})
    before = peak()
    out = attend(encoding.encode(a))
    assert torch.isfinite(out).all()
    print((peak() - before) / 2**20)
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("made", "n", "limit"),
    [("ALiBi(4)", 16384, 100), ("T5(4, 64, 32, 42)", 4096, 200)],
    ids=["fused", "fused by rows"],
)
def test_memory_stays_far_below_the_score_matrix(made: str, n: int, limit: int) -> None:
    """In MiB. The scores of 4 heads alone would take 4096 at 16,384 tokens and 256 at 4096; by
    rows, one block of 16 MiB exists at a time, in a few copies.
    """
    pytest.importorskip("resource")
    script = MEMORY.format(encoding=made, n=n)
    env = os.environ | {"OMP_NUM_THREADS": "1"}
    run = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, env=env, timeout=300
    )
    assert run.returncode == 0, run.stderr
    assert float(run.stdout) < limit


# -- objects ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "shape", [(), (N,), (1, 1, N), (BATCH, HEADS, N, 2), (1, 1, 1, 1, 1)], ids=str
)
def test_a_temperature_of_another_shape_is_refused(shape: tuple[int, ...]) -> None:
    with pytest.raises(
        ValueError, match=r"temperature must be \[batch\|1, heads\|1, n\|1, 1\], got"
    ):
        replace(call(), temperature=torch.ones(shape))


@pytest.mark.parametrize("field", ["bias_q", "bias_k"])
def test_half_a_factored_bias_is_refused(field: str) -> None:
    with pytest.raises(ValueError, match="give both or neither"):
        replace(call(), **{field: torch.ones(1, HEADS, N, 2)})


@pytest.mark.parametrize("which", [0, 1])
def test_positions_without_a_batch_axis_are_refused(which: int) -> None:
    given = [torch.arange(N)[None], torch.arange(N)[None]]
    given[which] = torch.arange(N)
    with pytest.raises(ValueError, match=r"positions must be \[batch\|1, n\]"):
        call().at(*given)


def test_builders_leave_the_object_they_start_from_as_it_is() -> None:
    a = call()
    tau, mask = torch.ones(1, 1, 1, 1), torch.ones(1, 1, N, N, dtype=torch.bool)
    factor = torch.ones(1, HEADS, N, 1)
    for built in (
        a.at(a.q_pos + 1, a.k_pos),
        a.plus(lambda rows: torch.zeros(1, 1, 1, N)),
        a.where(lambda rows: mask[:, :, rows]),
        a.heated(tau, scales_bias=True),
        a.factored(factor, factor),
        a.heads(slice(0, 1)),
    ):
        assert built is not a
    assert (
        a.terms == a.masks == ()
        and a.temperature is a.bias_q is a.bias_k is None
        and not a.scales_bias
    )
    assert a.q_pos[0, 0] == 0 and a.q.shape[1] == HEADS
    with pytest.raises(AttributeError):
        a.scale = 1.0  # type: ignore[misc]


def bfloat16_call(seed: int = 0) -> Attention:
    g = torch.Generator().manual_seed(seed)
    q, k, v = (torch.randn(1, 2, 12, 8, generator=g).bfloat16() for _ in range(3))
    pos = torch.arange(12)[None]
    return Attention(q, k, v, torch.zeros(1, 12, 16), pos, pos, 8**-0.5)


@pytest.mark.parametrize("make", [lambda: ALiBi(2), lambda: T5(2, 16, 4, 8)], ids=["alibi", "t5"])
def test_the_dense_path_runs_in_bfloat16_under_a_float32_bias(
    make: Callable[[], PositionEncoding],
) -> None:
    torch.manual_seed(0)
    plan = make().encode(bfloat16_call())
    out = dense(plan)
    assert out.dtype == torch.bfloat16
    torch.testing.assert_close(out.float(), attend(plan).float(), rtol=0, atol=5e-2)


@pytest.mark.parametrize(
    "make", [lambda: ALiBi(2), lambda: T5(2, 16, 4, 8), NoPE], ids=["alibi", "t5", "nope"]
)
def test_a_float32_temperature_heats_bfloat16_queries(make: Callable[[], PositionEncoding]) -> None:
    torch.manual_seed(0)
    call, encoding = bfloat16_call(), make()
    cold, plan = encoding.encode(call), encoding.encode(call.heated(torch.full((1, 1, 1, 1), 1.5)))
    torch.testing.assert_close(attend(plan).float(), dense(plan).float(), rtol=0, atol=5e-2)
    assert (attend(plan) - attend(cold)).abs().max() > 0.1
