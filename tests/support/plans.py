"""Attention in loops over batch, head, query and key in Python floats, and a plan for each
thing that a method may set.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

import torch
from loops import Score
from torch import Tensor

from posbench.core.attention import Attention, Term, ValueTerm
from posbench.encodings.alibi import ALiBi
from posbench.encodings.nope import NoPE
from posbench.encodings.rope import RoPE
from posbench.encodings.t5 import T5

BATCH, HEADS, N, WIDTH, MODEL = 2, 4, 11, 8, 6
EXACT = 1e-10

Encode = Callable[[Attention], Attention]


def random(*shape: int, seed: int = 1) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def call(
    n: int = N, heads: int = HEADS, width: int = WIDTH, v_width: int | None = None, start: int = 0
) -> Attention:
    q, k = random(BATCH, heads, n, width, seed=2), random(BATCH, heads, n, width, seed=3)
    v = random(BATCH, heads, n, v_width or width, seed=4)
    pos = torch.arange(n)[None] + start
    return Attention(q, k, v, random(BATCH, n, MODEL, seed=5), pos, pos, scale=0.41)


def same(actual: Tensor, expected: Tensor, tolerance: float = EXACT) -> None:
    torch.testing.assert_close(actual, expected, rtol=0, atol=tolerance)


def by_hand(
    a: Attention,
    score: Score,
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
