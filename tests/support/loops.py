"""What tests of formulas share: random calls in float64, and scores as double loops over (i, j) in
Python floats.

A loop is the primary oracle of an encoding: ten lines without tensor tricks, written from the
paper.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch
from torch import Tensor

from posbench.core.attention import Attention, attend, dense
from posbench.core.encoding import PositionEncoding
from posbench.encodings.nope import NoPE

BATCH, HEADS, N, WIDTH = 2, 3, 7, 8
SCALE = 0.37  # not 1/sqrt(WIDTH): a scale the library computed itself, or dropped, would show
EXACT = 1e-10

POSITIONS: dict[str, Sequence[float]] = {
    "counted": list(range(N)),
    "shifted": [100_003 + i for i in range(N)],
    "with gaps": [0, 3, 4, 9, 40, 41, 300],
    "running back": [12, 11, 7, 7, 5, 2, 0],
    "fractional": [0.25 * i**2 + 0.5 for i in range(N)],
}
everywhere = pytest.mark.parametrize("positions", POSITIONS.values(), ids=list(POSITIONS))

Score = Callable[[int, int, int, int], float]
"""(batch, head, i, j) -> z_ij"""
Bias = Callable[[int, float, float], float]
"""(head, position of the query, position of the key) -> B"""


def call(
    positions: Sequence[float] | None = None, heads: int = HEADS, width: int = WIDTH
) -> Attention:
    """Random inputs; every batch element has positions of its own (the second is shifted by 2)."""
    generator = torch.Generator().manual_seed(0)
    ids = list(range(N)) if positions is None else positions
    q, k, v = (
        torch.randn(BATCH, heads, len(ids), width, generator=generator, dtype=torch.float64)
        for _ in range(3)
    )
    x = torch.randn(BATCH, len(ids), heads * width, generator=generator, dtype=torch.float64)
    dtype = torch.float64 if any(isinstance(p, float) for p in ids) else torch.long
    pos = torch.tensor([[p + 2 * batch for p in ids] for batch in range(BATCH)], dtype=dtype)
    return Attention(q, k, v, x, pos, pos, scale=SCALE)


def scores(encoding: PositionEncoding, a: Attention) -> Tensor:
    """The full score matrix, [batch, heads, n, n], computed in blocks of rows, as it is used."""
    plan = encoding.encode(a)
    return torch.cat([plan.logits(slice(0, 3)), plan.logits(slice(3, a.num_queries))], -2)


def by_pairs(a: Attention, score: Score) -> Tensor:
    """The score of every pair, those hidden by the causal mask included."""
    n, batch = a.num_queries, a.q.shape[0]
    return torch.tensor(
        [
            [[[score(b, h, i, j) for j in range(n)] for i in range(n)] for h in range(a.num_heads)]
            for b in range(batch)
        ],
        dtype=torch.float64,
    )


def product(a: Attention) -> Score:
    """The scaled product c <q_i, k_j>, channel by channel."""
    q, k = a.q.tolist(), a.k.tolist()
    return lambda b, h, i, j: (
        a.scale * sum(x * y for x, y in zip(q[b][h][i], k[b][h][j], strict=True))
    )


def loop(a: Attention, bias: Bias) -> Tensor:
    """The scores c <q_i, k_j> + B, channel by channel."""
    content, i_pos, j_pos = product(a), a.q_pos.tolist(), a.k_pos.tolist()
    return by_pairs(a, lambda b, h, i, j: content(b, h, i, j) + bias(h, i_pos[b][i], j_pos[b][j]))


def same(actual: Tensor, expected: Tensor, tolerance: float = EXACT) -> None:
    torch.testing.assert_close(actual.expand(expected.shape), expected, rtol=0, atol=tolerance)


def given(encoding: PositionEncoding, **values: object) -> PositionEncoding:
    """The encoding in float64 with these parameters."""
    encoding = encoding.double()
    with torch.no_grad():
        for name, value in values.items():
            getattr(encoding, name).copy_(torch.as_tensor(value, dtype=torch.float64))
    return encoding


def shaken(encoding: PositionEncoding, size: float = 1.0) -> PositionEncoding:
    """In float64, every parameter moved away from its start, so that no term is zero by
    initialisation.
    """
    encoding, generator = encoding.double(), torch.Generator().manual_seed(3)
    with torch.no_grad():
        for parameter in encoding.parameters():
            parameter.add_(
                size * torch.randn(parameter.shape, generator=generator, dtype=torch.float64)
            )
    return encoding


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


def marked(kind: str, **cases: tuple[object, ...]) -> list[Any]:
    """Cases of several methods, each with the mark of its own; the name of the method comes
    first.
    """
    return [
        pytest.param(name, *values, marks=oracle(name, kind), id=name)
        for name, values in cases.items()
    ]


whole = pytest.mark.parametrize(
    "positions",
    [p for name, p in POSITIONS.items() if name != "fractional"],
    ids=[n for n in POSITIONS if n != "fractional"],
)
moved = pytest.mark.parametrize("ahead", [0, 5], ids=["together", "queries ahead"])
"""Region methods move queries or keys alone: distances are taken between the two."""


def placed(positions: Sequence[float], ahead: int) -> Attention:
    a = call(positions)
    return a.at(a.q_pos + ahead, a.k_pos)


def causal(n: int) -> Tensor:
    return torch.ones(n, n, dtype=torch.bool).tril()


def plus(a: Attention, bias: Score) -> Tensor:
    """The scores c <q_i, k_j> + B_ij."""
    content = product(a)
    return by_pairs(a, lambda b, h, i, j: content(b, h, i, j) + bias(b, h, i, j))


def bias_of(encoding: PositionEncoding, a: Attention) -> Tensor:
    """What is added to the scaled product, [batch, heads, n, n]."""
    return scores(encoding, a) - scores(NoPE(), a)
