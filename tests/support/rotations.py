"""Frequencies and rotated pairs of channels, in Python's complex numbers."""

from __future__ import annotations

import cmath
import math
from collections.abc import Callable, Sequence
from typing import TypeVar

import torch
from loops import HEADS, WIDTH, Score, by_pairs
from torch import Tensor, nn

from posbench.core.attention import Attention
from posbench.core.encoding import PositionEncoding
from posbench.encodings.selective_rope import SelectiveRoPE

PAIRS = WIDTH // 2
MODEL = HEADS * WIDTH
BASE = 100.0  # slower pairs of RoPE's own base hardly turn over a few positions

Factor = Callable[[int, int, float, float], complex]
"""(head, pair m, position of the query, position of the key) -> what multiplies q_m conj(k_m)"""


def by_complex_pairs(a: Attention, factor: Factor) -> Tensor:
    """The sum c Re sum_m q_m conj(k_m) factor, for pairs of channels m and m + d/2."""
    q, k, i_pos, j_pos = a.q.tolist(), a.k.tolist(), a.q_pos.tolist(), a.k_pos.tolist()
    half = a.q.shape[-1] // 2

    def score(b: int, h: int, i: int, j: int) -> float:
        total = 0j
        for m in range(half):
            one, other = (
                complex(q[b][h][i][m], q[b][h][i][m + half]),
                complex(k[b][h][j][m], k[b][h][j][m + half]),
            )
            total += one * other.conjugate() * factor(h, m, i_pos[b][i], j_pos[b][j])
        return a.scale * total.real

    return by_pairs(a, score)


def grid(count: int, base: float = 10000.0, width: int | None = None) -> list[float]:
    """b^(-m/K), of which K may be larger than the number asked for."""
    return [base ** (-m / (width or count)) for m in range(count)]


def apart(a: Attention) -> Attention:
    """Queries and keys at positions of their own, as region methods have them."""
    return a.at(a.q_pos + 5, a.k_pos * 2)


def stretched(
    encoding: PositionEncoding, stretch: Sequence[float], magnitude: float = 1.0
) -> PositionEncoding:
    return encoding.variant(frequencies=encoding.frequencies.stretched(tuple(stretch), magnitude))


def wave(*shape: int, start: float) -> Tensor:
    return (0.7 * torch.arange(math.prod(shape), dtype=torch.float64) + start).sin().reshape(shape)


RANK, KERNEL = 3, 4
Encoding = TypeVar("Encoding", bound=nn.Module)


def selective(**values: object) -> SelectiveRoPE:
    return with_waves(SelectiveRoPE(HEADS, WIDTH, MODEL, RANK, KERNEL, BASE), **values)


def with_waves(encoding: Encoding, **values: object) -> Encoding:
    """Every parameter a wave, large enough that steps differ from token to token, or as given."""
    encoding = encoding.double()
    with torch.no_grad():
        for start, parameter in enumerate(encoding.parameters()):
            parameter.copy_(wave(*parameter.shape, start=start))
        for name, value in values.items():
            encoding.get_parameter(name).copy_(torch.as_tensor(value, dtype=torch.float64))
    return encoding


def turned(a: Attention, theta: Sequence[float], layout: str, factor: float = 1.0) -> Score:
    """The score c factor Re sum_m q_im conj(k_jm) e^{i (p_i - p_j) theta_m}, with Python's complex
    numbers.
    """
    q, k, p = a.q.tolist(), a.k.tolist(), a.q_pos.tolist()
    pairs = len(theta)

    def channel(vector: list[float], m: int) -> complex:
        real, imaginary = (2 * m, 2 * m + 1) if layout == "interleaved" else (m, m + pairs)
        return complex(vector[real], vector[imaginary])

    def score(b: int, h: int, i: int, j: int) -> float:
        total = 0j
        for m in range(pairs):
            pair = channel(q[b][h][i], m) * channel(k[b][h][j], m).conjugate()
            total += pair * cmath.exp(1j * (p[b][i] - p[b][j]) * theta[m])
        return a.scale * factor * total.real

    return score


def published(base: float, channels: int) -> list[float]:
    """theta_m = b^(-2m/d)."""
    return [base ** (-2 * m / channels) for m in range(channels // 2)]
