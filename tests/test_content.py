"""Encodings whose positions are made of content compute their published formulas, projections
included: CoPE, stick-breaking, DAPE and GRAPE-A; and all of them keep their precision and memory.
"""

from __future__ import annotations

import math
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch
from authors import FLOAT32, MODEL, published, published_call, tensor
from loops import (
    HEADS,
    POSITIONS,
    SCALE,
    WIDTH,
    N,
    Score,
    bias_of,
    by_pairs,
    call,
    everywhere,
    given,
    plus,
    product,
    same,
    scores,
    shaken,
)
from torch import Tensor, nn
from vectors import dot, sigmoid, softplus

from posbench.base.errors import ConfigError
from posbench.core.attention import Attention, attend, dense
from posbench.core.encoding import PositionEncoding
from posbench.encodings.alibi import ALiBi, alibi_slopes
from posbench.encodings.cable import Cable
from posbench.encodings.cope import CoPE
from posbench.encodings.dape import DAPE, ROWS
from posbench.encodings.fox import FoX
from posbench.encodings.grape_a import GRAPEA
from posbench.encodings.kerple_log import KerpleLog
from posbench.encodings.nape import NAPE
from posbench.encodings.nope import NoPE
from posbench.encodings.path import PaTH
from posbench.encodings.path_fox import PaTHFoX
from posbench.encodings.per_row_dda import PerRowForgetting
from posbench.encodings.rope import RoPE
from posbench.encodings.stick_breaking import StickBreaking, break_stick
from posbench.encodings.t5 import T5

oracle = pytest.mark.oracle


def weighted(a: Attention, weights: Score) -> Tensor:
    """Outputs from given weights, channel by channel."""
    v, n = a.v.tolist(), a.num_queries
    return torch.tensor(
        [
            [
                [
                    [
                        sum(weights(b, h, i, j) * v[b][h][j][c] for j in range(i + 1))
                        for c in range(a.v.shape[-1])
                    ]
                    for i in range(n)
                ]
                for h in range(a.num_heads)
            ]
            for b in range(a.v.shape[0])
        ],
        dtype=torch.float64,
    )


GATE = 5  # channels of the gates in these tests

RANK, KERNEL = 5, 3


# -- CoPE ------------------------------------------------------------------------------------------


def contextual(
    encoding: CoPE, a: Attention, factor: float, seen: Callable[[int, int], bool]
) -> Score:
    """The bias of CoPE from its formula; `seen` says which keys s <= i a query i counts."""
    content, table, q, largest = product(a), encoding.table.tolist(), a.q.tolist(), encoding.largest

    def bias(b: int, h: int, i: int, j: int) -> float:
        count = min(
            sum(sigmoid(content(b, h, i, s)) for s in range(j, i + 1) if seen(i, s)), largest
        )
        below, above = (
            dot(q[b][h][i], table[round(p)]) for p in (math.floor(count), math.ceil(count))
        )
        part = count - math.floor(count)
        return factor * ((1 - part) * below + part * above)

    return bias


@oracle("cope", "double loop")
@pytest.mark.parametrize("largest", [1, 2, 9])  # counts reach 4 or so: clamped, in part, never
@pytest.mark.parametrize(("scale_pos", "factor"), [("attention", SCALE), ("one", 1.0)])
@everywhere
def test_cope_reads_the_table_at_the_sum_of_gates(
    positions: list[float], scale_pos: str, factor: float, largest: int
) -> None:
    a, encoding = call(positions), shaken(CoPE(WIDTH, largest, scale_pos))
    same(scores(encoding, a), plus(a, contextual(encoding, a, factor, lambda i, s: True)))


@oracle("cope", "double loop: masked keys are not counted")
def test_cope_does_not_count_keys_that_are_masked() -> None:
    a = call(range(N)).where(lambda rows: (call(range(N)).offset(rows) < 3)[None, None])
    encoding = shaken(CoPE(WIDTH, 5))
    bias = contextual(encoding, a, SCALE, lambda i, s: i - s < 3)
    same(scores(encoding, a), plus(a, bias))


@oracle("cope", "identity: zero table is NoPE")
def test_cope_starts_as_nope() -> None:
    a = call(POSITIONS["with gaps"])
    same(scores(CoPE(WIDTH, 5).double(), a), scores(NoPE(), a), 0.0)


@oracle("cope", "identity: open gates are clipped relative keys")
def test_cope_with_open_gates_counts_every_key() -> None:
    a = call(range(N))
    q, k = a.q.clone(), a.k.clone()
    q[..., 0], k[..., 0] = 1.0, 1000.0
    a, encoding = replace(a, q=q, k=k), shaken(CoPE(WIDTH, 4))
    steps = (a.offset(slice(0, N)) + 1).clamp(0, 4)
    expected = SCALE * torch.einsum("bhid,ijd->bhij", q, encoding.table[steps])
    same(bias_of(encoding, a), expected, 1e-9)


@pytest.mark.slow
@oracle("cope", "library: x-transformers CoPE")
def test_cope_is_x_transformers() -> None:
    """They add it unscaled and count rows, so `max_pos` is one more than the largest count."""
    theirs = (
        pytest.importorskip("x_transformers.x_transformers").CoPE(WIDTH, HEADS, max_pos=4).double()
    )
    a, ours = call(range(N)), shaken(CoPE(WIDTH, 3, "one"))
    with torch.no_grad():
        theirs.pos_emb.copy_(ours.table)
    z = scores(NoPE(), a)
    hidden = torch.ones(N, N).triu(1).bool()
    same(bias_of(ours, a), theirs(a.q, z.masked_fill(hidden, -1e300)))


@oracle("cope", "published numbers")
@pytest.mark.parametrize("scale_pos", ["attention", "one"])
def test_cope_gives_the_authors_numbers(scale_pos: str) -> None:
    data = published("cope")
    a = published_call({name: [[rows] for rows in data[name]] for name in "qkv"}, 0.5)
    encoding = given(CoPE(4, 3, scale_pos), table=data["table"])
    same(attend(encoding.encode(a))[:, 0], tensor(data[scale_pos]), FLOAT32)


def test_the_gates_of_cope_do_not_feel_a_temperature() -> None:
    a, encoding = call(range(N)), shaken(CoPE(WIDTH, 5))
    hot = a.heated(torch.full((1, 1, 1, 1), 3.0, dtype=torch.float64))
    same(scores(encoding, hot) - scores(NoPE(), hot), bias_of(encoding, a))


@pytest.mark.slow
def test_cope_is_trained_through_its_counts() -> None:
    a, encoding = call(range(N)), shaken(CoPE(WIDTH, 3))

    def bias(q: Tensor, k: Tensor) -> Tensor:
        return encoding.encode(replace(a, q=q, k=k)).terms[0](slice(0, N))

    assert torch.autograd.gradcheck(bias, (a.q.requires_grad_(), a.k.requires_grad_()), atol=1e-6)
    bias(a.q, a.k).sum().backward()
    assert (encoding.table.grad.abs().sum(1) > 0).all()


# -- stick-breaking --------------------------------------------------------------------------------


def broken(z: list[Any], seen: Callable[[int, int], bool] = lambda i, s: True) -> Score:
    """Weights from scores z [batch][head][i][j] as a product over the keys in between."""

    def weight(b: int, h: int, i: int, j: int) -> float:
        left = math.prod(
            1 - sigmoid(z[b][h][i][s]) for s in range(j + 1 if j < i else 0, i) if seen(i, s)
        )
        return (sigmoid(z[b][h][i][j]) if j < i else 1.0) * left if seen(i, j) else 0.0

    return weight


@oracle("stick_breaking", "double loop")
@everywhere
def test_stick_breaking_takes_shares_of_what_is_left(positions: list[float]) -> None:
    """Weights by product and outputs, the remainder on the query's own value."""
    a = call(positions)
    weight, plan = broken(scores(NoPE(), a).tolist()), StickBreaking().encode(a)
    expected = by_pairs(a, lambda b, h, i, j: weight(b, h, i, j) if j <= i else 0.0)
    found = [plan.weights(plan.logits(rows), rows) for rows in (slice(0, 3), slice(3, N))]
    same(torch.cat(found, -2), expected)
    same(attend(plan, 3), weighted(a, weight))


@oracle("stick_breaking", "double loop: inside a window")
def test_stick_breaking_inside_a_window_breaks_among_its_keys() -> None:
    a = call(range(N))
    windowed = a.where(lambda rows: (a.offset(rows) < 3)[None, None])
    weight = broken(scores(NoPE(), a).tolist(), lambda i, s: i - s < 3)
    same(attend(StickBreaking().encode(windowed)), weighted(a, weight))


@oracle("stick_breaking", "identity: zero scores halve at every key")
def test_stick_breaking_with_zero_scores_halves_at_every_key() -> None:
    a = call(range(N))
    a = replace(a, q=torch.zeros_like(a.q))
    same(
        attend(StickBreaking().encode(a)),
        weighted(a, lambda b, h, i, j: 0.5 ** (i - j if j < i else i)),
    )


@oracle("stick_breaking", "published numbers")
def test_stick_breaking_gives_the_authors_numbers() -> None:
    data = published("stick_breaking")
    same(attend(StickBreaking().encode(published_call(data, 0.5))), tensor(data["output"]), FLOAT32)


@pytest.mark.parametrize("size", [1.0, 30.0, 1e4])
def test_stick_breaking_weights_sum_to_one_and_keep_gradients_finite(size: float) -> None:
    z = size * call(range(40)).q @ call(range(40)).k.mT
    z.requires_grad_()
    weights = break_stick(z, torch.ones(40, 40).tril().bool()[None, None])
    same(weights.sum(-1), torch.ones(weights.shape[:-1], dtype=torch.float64))
    assert (weights >= 0).all() and (weights.triu(1) == 0).all()
    (weights * torch.arange(40)).sum().backward()
    assert torch.isfinite(z.grad).all() and (z.grad.diagonal(dim1=-2, dim2=-1) == 0).all()
    assert z.grad.tril(-1).abs().max() > 0


def test_stick_breaking_does_not_round_to_bfloat16() -> None:
    z = (call(range(40)).q @ call(range(40)).k.mT).bfloat16()
    allowed = torch.ones(40, 40).tril().bool()[None, None]
    weights = break_stick(z, allowed)
    assert weights.dtype == torch.float32
    torch.testing.assert_close(
        weights.double(), break_stick(z.double(), allowed), rtol=1e-4, atol=1e-6
    )


# -- DAPE ------------------------------------------------------------------------------------------


def network(mlp: nn.Sequential, values: list[float]) -> list[float]:
    first, second = ((m.weight.tolist(), m.bias.tolist()) for m in mlp if isinstance(m, nn.Linear))
    hidden = [dot(row, values) + b for row, b in zip(*first, strict=True)]
    hidden = [u if u > 0 else 0.01 * u for u in hidden]
    return [dot(row, hidden) + b for row, b in zip(*second, strict=True)]


def adapted(encoding: DAPE, a: Attention, content: Tensor, bias: Tensor) -> Tensor:
    """S + b + f(s, b), pair by pair."""
    s, b = content.tolist(), bias.expand_as(content).tolist()

    def score(batch: int, h: int, i: int, j: int) -> float:
        values = [part[batch][head][i][j] for part in (s, b) for head in range(a.num_heads)]
        return s[batch][h][i][j] + b[batch][h][i][j] + network(encoding.mlp, values)[h]

    return by_pairs(a, score)


HOSTS: dict[str, Callable[[], PositionEncoding]] = {
    "kerple_log": lambda: KerpleLog(HEADS),
    "alibi": lambda: ALiBi(HEADS),
    "t5": lambda: T5(HEADS, MODEL, 4, 8),
    "nope": NoPE,
}


@oracle("dape", "double loop")
@pytest.mark.parametrize("host", HOSTS)
@pytest.mark.parametrize(
    "positions", [POSITIONS["counted"], POSITIONS["with gaps"], POSITIONS["running back"]]
)
def test_dape_adds_a_network_of_scores_and_biases(positions: list[float], host: str) -> None:
    a, encoding = call(positions), shaken(DAPE(HOSTS[host](), HEADS, 6), 0.3)
    content = scores(NoPE(), a)
    same(scores(encoding, a), adapted(encoding, a, content, bias_of(encoding.host, a)))


@oracle("dape", "double loop: around RoPE and PaTH")
@pytest.mark.parametrize(
    "make",
    [lambda: RoPE(WIDTH), lambda: PaTH(MODEL, HEADS, WIDTH, RANK, KERNEL)],
    ids=["rope", "path"],
)
def test_dape_reads_the_scores_that_its_host_makes(make: Callable[[], PositionEncoding]) -> None:
    a, encoding = call(POSITIONS["with gaps"]), shaken(DAPE(make(), HEADS, 6), 0.3)
    content = scores(encoding.host, a)
    same(scores(encoding, a), adapted(encoding, a, content, torch.zeros_like(content)))


@oracle("dape", "identity: zero network is the host")
@pytest.mark.parametrize("host", HOSTS)
def test_dape_with_a_zero_network_is_its_host(host: str) -> None:
    a, encoding = call(POSITIONS["with gaps"]), DAPE(HOSTS[host](), HEADS, 6).double()
    with torch.no_grad():
        for parameter in encoding.mlp[2].parameters():
            parameter.zero_()
    same(scores(encoding, a), scores(encoding.host, a))


@oracle("dape", "published numbers")
@pytest.mark.parametrize("host", ["alibi", "kerple_log"])
def test_dape_gives_the_authors_numbers(host: str) -> None:
    """Given scores, as the product with unit keys."""
    data = published("dape")
    q = tensor(data["scores"])
    batch, heads, n, _ = q.shape
    k, pos = torch.eye(n, dtype=torch.float64).expand_as(q), torch.arange(n)[None]
    a = Attention(q, k, k, torch.zeros(batch, n, 4, dtype=torch.float64), pos, pos, scale=1.0)
    inner = (
        ALiBi(heads) if host == "alibi" else given(KerpleLog(heads), r1=data["r1"], r2=data["r2"])
    )
    encoding = DAPE(inner, heads, 5).double()
    encoding.mlp.load_state_dict(
        {name: tensor(values) for name, values in data[f"{host}_network"].items()}
    )
    same(scores(encoding, a).tril(), tensor(data[host]).tril(), FLOAT32)


def test_dape_works_through_any_number_of_rows() -> None:
    n = 2 * ROWS + 5
    a, encoding = call(range(n)), shaken(DAPE(ALiBi(HEADS), HEADS, 6), 0.3)
    term = encoding.encode(a).terms[-1]
    whole = torch.cat(
        [encoding.adapted(encoding.host.encode(a), slice(i, i + 1)) for i in range(n)], -2
    )
    for rows in (slice(0, n), slice(3, ROWS + 3), slice(n - 1, n), slice(1, n - 1)):
        same(term(rows), whole[:, :, rows])


def test_dape_reads_scores_before_the_temperature() -> None:
    a, encoding = call(range(N)), shaken(DAPE(ALiBi(HEADS), HEADS, 6), 0.3)
    hot = a.heated(torch.full((1, 1, 1, 1), 3.0, dtype=torch.float64))
    same(scores(encoding, hot) - scores(NoPE(), hot), bias_of(encoding, a))


def test_dape_refuses_a_host_that_splits_heads() -> None:
    encoding = DAPE(NAPE(4), 4, 6).double()
    with pytest.raises(
        ConfigError, match=r"scores of all heads at once, and this host splits them"
    ) as caught:
        encoding.encode(call(range(N), heads=4))
    assert "\n" not in str(caught.value)


def test_dape_declares_what_its_host_does() -> None:
    assert DAPE(ALiBi(2), 2, 6).handles == ALiBi(2).handles and DAPE(ALiBi(2), 2, 6).relative


# -- GRAPE-A ---------------------------------------------------------------------------------------

GATES = ["key", "query", "both"]


@oracle("grape_a", "double loop")
@pytest.mark.parametrize("gate", GATES)
@everywhere
def test_grape_a_is_alibi_with_slopes_of_the_content(positions: list[float], gate: str) -> None:
    a, encoding = call(positions), shaken(GRAPEA(HEADS, WIDTH, gate, steepness=5.0))
    directions = {
        side: (d / d.norm(dim=1, keepdim=True)).tolist() for side, d in encoding.directions.items()
    }
    assert set(directions) == {"key": {"key"}, "query": {"query"}, "both": {"query", "key"}}[gate]
    q, k, i_pos, j_pos = a.q.tolist(), a.k.tolist(), a.q_pos.tolist(), a.k_pos.tolist()
    slopes = [
        m * softplus(o)
        for m, o in zip(alibi_slopes(HEADS, 5.0), encoding.omega.tolist(), strict=True)
    ]

    def bias(b: int, h: int, i: int, j: int) -> float:
        seen = {"query": q[b][h][i], "key": k[b][h][j]}
        rate = sum(
            softplus(dot(d[h], seen[side]) / math.sqrt(WIDTH)) for side, d in directions.items()
        )
        return -slopes[h] * rate * (i_pos[b][i] - j_pos[b][j])

    same(scores(encoding, a), plus(a, bias))


@oracle("grape_a", "identity: constant gate is ALiBi")
@pytest.mark.parametrize(("gate", "factor"), [("key", 1), ("query", 1), ("both", 2)])
def test_grape_a_without_content_is_alibi_times_ln_2(gate: str, factor: int) -> None:
    """As it starts, for queries and keys that are zero."""
    a = call(POSITIONS["with gaps"])
    a = replace(a, q=torch.zeros_like(a.q), k=torch.zeros_like(a.k))
    expected = factor * math.log(2) * scores(ALiBi(HEADS), a)
    same(scores(GRAPEA(HEADS, WIDTH, gate).double(), a), expected, 1e-5)  # its 1 starts in float32


@oracle("grape_a", "published numbers")
@pytest.mark.parametrize("gate", GATES)
def test_grape_a_gives_the_authors_numbers(gate: str) -> None:
    data = published("grape_a")
    a = published_call({**data, "v": data["k"]}, 0.5)
    encoding = given(GRAPEA(3, 4, gate), omega=data["omega"])
    with torch.no_grad():
        for side, direction in encoding.directions.items():
            direction.copy_(tensor(data["u" if side == "key" else "v"]))
    same(bias_of(encoding, a).tril(), tensor(data[gate]), FLOAT32)


@pytest.mark.parametrize(("gate", "channels"), [("key", 2), ("query", 2), ("both", 4)])
def test_grape_a_runs_fused_in_two_channels_a_gate(gate: str, channels: int) -> None:
    plan = shaken(GRAPEA(HEADS, WIDTH, gate)).encode(call(POSITIONS["with gaps"]))
    assert plan.path == "fused" and plan.bias_q is not None and plan.bias_q.shape[-1] == channels
    same(attend(plan), dense(plan))


def test_grape_a_moves_with_queries_and_keys_apart() -> None:
    encoding, a = shaken(GRAPEA(HEADS, WIDTH, "both")), call(POSITIONS["with gaps"])
    moved, still = bias_of(encoding, a.at(a.q_pos + 5, a.k_pos)), bias_of(encoding, a)
    rate = still / -a.distance(slice(0, N))[:, None]
    off = ~torch.eye(N, dtype=torch.bool)
    same((moved - still)[..., off], (-5 * rate)[..., off], 1e-9)


# -- all of them -----------------------------------------------------------------------------------

MADE: dict[str, Callable[[], PositionEncoding]] = {
    "cope": lambda: CoPE(WIDTH, 4),
    "fox": lambda: FoX(MODEL, HEADS),
    "cable": lambda: Cable(MODEL, HEADS),
    "per_row_dda": lambda: PerRowForgetting(MODEL, HEADS, GATE),
    "path": lambda: PaTH(MODEL, HEADS, WIDTH, RANK, KERNEL),
    "path_fox": lambda: PaTHFoX(MODEL, HEADS, WIDTH, RANK, KERNEL),
    "dape": lambda: DAPE(KerpleLog(HEADS), HEADS, 6),
    "grape_a": lambda: GRAPEA(HEADS, WIDTH, "both"),
}


@pytest.mark.parametrize("name", MADE)
def test_what_accumulates_is_not_rounded_under_mixed_precision(name: str) -> None:
    """At 300 tokens, what is added to the scores or replaces them is bitwise that of full
    precision.
    """
    torch.manual_seed(0)
    encoding, a = MADE[name](), call(range(300))
    a = replace(a, **{field: getattr(a, field).float() for field in ("q", "k", "v", "x")})

    def parts() -> list[Tensor]:
        plan, rows = encoding.encode(a), slice(280, 300)
        found = [term(rows) for term in plan.terms] + [
            t for t in (plan.bias_q, plan.bias_k) if t is not None
        ]
        return found + ([] if plan.content is None else [plan.content(rows)])

    exact = parts()
    with torch.autocast("cpu", torch.bfloat16):
        mixed = parts()
    assert len(exact) > 0
    for ours, full in zip(mixed, exact, strict=True):
        assert ours.dtype == torch.float32 and torch.equal(ours, full)


@pytest.mark.parametrize("name", MADE)
def test_inputs_in_bfloat16_are_widened_before_they_are_summed(name: str) -> None:
    torch.manual_seed(0)
    encoding, a = MADE[name](), call(range(300))
    narrow = replace(a, **{field: getattr(a, field).bfloat16() for field in ("q", "k", "v", "x")})
    wide = replace(a, **{field: getattr(narrow, field).double() for field in ("q", "k", "v", "x")})

    def added(encoding: PositionEncoding, a: Attention) -> Tensor:
        plan = encoding.encode(a)
        bias = plan.bias(slice(280, 300))
        return (plan.content(slice(280, 300)) if bias is None else bias).double()

    torch.testing.assert_close(
        added(encoding, narrow), added(encoding.double(), wide), rtol=1e-4, atol=1e-4
    )


MEMORY = """
import resource, sys, torch
from posbench.core.attention import Attention
from posbench.encodings.cope import CoPE
from posbench.encodings.dape import DAPE
from posbench.encodings.per_row_dda import PerRowForgetting
from posbench.encodings.kerple_log import KerpleLog
from posbench.encodings.path_fox import PaTHFoX
from posbench.encodings.stick_breaking import StickBreaking
from posbench.encodings.tapa import TAPA
from posbench.encodings.wall import Wall
torch.set_num_threads(1)
n = 16384

def call(n):
    q, k, v = (torch.randn(1, 4, n, 16) for _ in range(3))
    pos = torch.arange(n)[None]
    return Attention(q, k, v, torch.randn(1, n, 64), pos, pos, 0.25)

def peak():
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit

encoding = {made}
with torch.no_grad():
    a, last = call(n), slice(n - 64, n)
    encoding.encode(call(64)).logits(slice(0, 64))
    before = peak()
    plan = encoding.encode(a)
    out = plan.output(plan.weights(plan.logits(last), last), last)
    assert torch.isfinite(out).all()
    print((peak() - before) / 2**20)
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    "made",
    [
        "CoPE(16, 32)",
        "PerRowForgetting(64, 4, 8)",
        "StickBreaking()",
        "PaTHFoX(64, 4, 16, 32, 3)",
        "DAPE(KerpleLog(4), 4, 32)",
        "TAPA(16)",
        "Wall(64, 4, 16, 3000)",
    ],
)
def test_a_block_of_rows_stays_small_at_16384_tokens(made: str) -> None:
    """In MiB; one block of scores takes 16, all of them 4096."""
    pytest.importorskip("resource")
    script = MEMORY.format(made=made)
    env = os.environ | {"OMP_NUM_THREADS": "1"}
    run = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, env=env, timeout=300
    )
    assert run.returncode == 0, run.stderr
    assert float(run.stdout) < 300
