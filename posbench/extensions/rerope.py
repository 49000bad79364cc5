"""ReRoPE: all keys beyond a window look equally far."""

from __future__ import annotations

from posbench.extensions.distances import capped, counted
from posbench.extensions.regions import Region, RegionExtension


class ReRoPE(RegionExtension):
    r"""Distances beyond a window count as the window.

    $d' = \min(d, w)$ (rectified RoPE, Su, kexue.fm/archives/9708, 2023).

    Nearer than `window` w nothing changes; all keys further away look equally far, so that no
    distance is new at any length, but their order is lost. w is fixed, 512 of 4,096 trained
    positions as published: also at the training length far keys are put together, unless w covers
    it. Published with a temperature that grows as the logarithm of the number of keys, which is an
    extension of its own and left out.
    """

    is_identity = False

    def __init__(self, window: int) -> None:
        counted("window", window)
        self.window = window

    def regions(self, train_positions: int, test_positions: int) -> list[Region]:
        return [Region(), capped(self.window)]
