r"""What extensions of distances share beside `regions`: checks of settings, and maps of positions.

d = i - j is a distance of positions, d' the one that the host is told. L are the positions seen in
training, L' those of the test; distances up to L - 1 have been trained. A key at a later position
than its query (d < 0, where a task's ids run backwards) keeps its distance, unless an extension
states otherwise.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import torch
from torch import Tensor

from posbench.base.errors import ConfigError
from posbench.core.attention import Attention
from posbench.core.masks import Visible
from posbench.extensions.regions import Region, RegionExtension, at_least, from_the_first


def counted(name: str, value: int | None, low: int = 1) -> None:
    """Refuses what is no number of positions; null means one that follows from lengths."""
    if value is not None and value < low:
        raise ConfigError(f"{name} is a number of positions, at least {low}, got {value}")


def below(name: str, value: int, train_positions: int) -> None:
    """Refuses what leaves no trained distance to put far keys at."""
    if value >= train_positions:
        raise ConfigError(
            f"{name}={value} leaves no trained distance for keys further away: choose fewer than "
            f"the {train_positions} positions of training"
        )


def smallest(furthest: Callable[[int], int], train_positions: int) -> int:
    """The smallest whole factor with which the furthest distance d' is a trained one."""
    return next(factor for factor in itertools.count(1) if furthest(factor) < train_positions)


def real(pos: Tensor) -> Tensor:
    """Positions that may be divided, in float64 (float32 where the device has none)."""
    if pos.is_floating_point():
        return pos
    return pos.to(torch.float32 if pos.device.type == "mps" else torch.float64)


def divided(pos: Tensor, by: float | Fraction) -> Tensor:
    """Positions divided, to 2^-32; whole differences are exact, because hosts may round down."""
    factor = Fraction(by).limit_denominator(10**6)
    period, step = factor.numerator, factor.denominator  # period positions become step
    part = (real(pos % period) * (2**32 * step / period)).round() / 2**32
    return real(pos // period * step) + part


def grouped(pos: Tensor, size: int) -> Tensor:
    """The group of each position; groups of one leave fractions of positions as they are."""
    return pos // size if size > 1 else pos


def capped(distance: int) -> Region:
    """Keys at that distance or further, all seen at it: the query there, the keys at 0."""

    def places(a: Attention) -> tuple[Tensor, Tensor]:
        return torch.full_like(a.q_pos, distance), torch.zeros_like(a.k_pos)

    return Region(places, at_least(distance))


def first_and_recent(count: int, window: int) -> Visible:
    """The first keys, and a sliding window: a query's own key and the w - 1 before it."""
    return lambda i, j: (j < count) | (i - j < window)


class Shrinking(RegionExtension):
    """Regions with a factor of their own: left out (null), one for each test length."""

    factor: Any  # a number, whole for some, or None

    @property
    def is_identity(self) -> bool:
        return self.factor is None or self.factor == 1

    @property
    def scale_policy(self) -> str:  # type: ignore[override]
        return "per test length" if self.factor is None else "fixed"


def chunks_back(a: Attention, rows: slice, size: int) -> Tensor:
    """How many chunks a key is before the query's, from the start, [batch|1, rows, keys]."""
    i, j = (pos // size for pos in from_the_first(a))
    return i[:, rows, None] - j[:, None, :]
