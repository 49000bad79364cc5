"""Heads of which a part turns and the rest stays: how many pairs, and tables for both."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from posbench.errors import ConfigError
from posbench.frequencies import Frequencies


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
