"""Heads of which a part turns and the rest stays: how many pairs, and tables for both."""

from __future__ import annotations

import math
from dataclasses import replace

import torch
import torch.nn.functional as F
from torch import Tensor

from posbench.base.errors import ConfigError
from posbench.core.attention import Attention
from posbench.core.encoding import PositionEncoding
from posbench.core.frequencies import Frequencies
from posbench.encodings.rotation import halves, rotate


class FastestPairs(PositionEncoding):
    r"""RoPE of which only the `count` fastest pairs turn: $z_{ij} = c\,\mathrm{Re}\sum_m
    q_{i,m}\,\overline{k_{j,m}}\;e^{\,\mathrm{i}(i-j)\theta_m}$ with $\theta_m = b^{-2m/d_h}$ for $m
    < \text{count}$ and 0 for the rest. Pair m is channels m and m + d_h/2.

    A frequency extension acts on the grid of the frequencies kept: under NTK the slowest of them is
    stretched by all of s. A factor on cosine and sine is one on every pair, for the cosine of 0 is
    1.
    """

    handles = PositionEncoding.handles | {"frequencies", "distance", "positions"}

    def __init__(self, head_width: int, count: int, base: float) -> None:
        super().__init__()
        self.still = head_width // 2 - count
        self.frequencies = fastest(Frequencies(head_width // 2, base), count)

    def encode(self, a: Attention) -> Attention:
        dtype = torch.promote_types(a.q.dtype, torch.float32)

        def turned(x: Tensor, pos: Tensor) -> Tensor:
            return rotate(*halves(x), *padded(self.frequencies, self.still, pos, dtype))

        return replace(a, q=turned(a.q, a.q_pos), k=turned(a.k, a.k_pos))


def fastest(frequencies: Frequencies, count: int) -> Frequencies:
    """The first `count` of an unstretched grid, as a grid of their own: $b^{-m/K} =
    (b^{count/K})^{-m/count}$.
    """
    return Frequencies(count, frequencies.base ** (count / frequencies.count))


def padded(
    frequencies: Frequencies, still: int, pos: Tensor, dtype: torch.dtype
) -> tuple[Tensor, Tensor]:
    """Cosine and sine with `still` further pairs of frequency 0, [*pos.shape, count + still]."""
    cos, sin = frequencies.tables(pos, dtype)
    return F.pad(cos, (0, still), value=frequencies.magnitude), F.pad(sin, (0, still))


def rotated_pairs(head_width: int, share: float) -> int:
    """How many pairs of a head turn."""
    if head_width % 2:
        raise ConfigError(
            f"rotations turn channels in pairs: head_width must be even, got {head_width}"
        )
    if not 0 < share <= 1:
        raise ConfigError(
            f"share is the part of a head that turns, above 0 and at most 1, got {share}"
        )
    count = int(share * head_width // 2)
    if count < 1:
        raise ConfigError(
            f"share={share} of head_width={head_width} leaves no pair to turn: raise either"
        )
    return count


def turning_pairs(frequencies: Frequencies, train_positions: int) -> int:
    """How many pairs complete a turn in training."""
    turns = (theta * train_positions for theta in frequencies.theta().tolist())
    count = sum(each >= 2 * math.pi for each in turns)
    if count == 0:
        raise ConfigError(
            f"train_positions={train_positions} must be 7 or more for one frequency to turn once"
        )
    return count
