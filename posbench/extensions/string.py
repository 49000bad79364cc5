"""STRING: rare large distances are replaced by frequent smaller ones."""

from __future__ import annotations

from torch import Tensor

from posbench.base.errors import ConfigError
from posbench.core.attention import Attention
from posbench.extensions.distances import counted
from posbench.extensions.regions import Region, RegionExtension, at_least


class STRING(RegionExtension):
    r"""Distances beyond a shift are lowered, so that well-trained short ones replace rare long
    ones.

    $d' = d$ for $d < S$, else $d - S + W$ (STRING, arXiv 2410.18745).

    Distances from `shift` S on are told as those S - W smaller: what a model saw rarely, its
    largest distances, is replaced by what it saw often, also at the training length, and d' stays
    trained up to $L' = L + S - W$ only: further it extrapolates again. Two keys may share a
    distance, one nearer than S and one beyond. Published S = L/3 and W = 128, `window`, of 128,000.
    The authors' code multiplies logits by a power of $0.1\ln 2 + 1$ besides and counts d = S in
    both of its parts; neither is done here.
    """

    is_identity = False

    def __init__(self, shift: int, window: int) -> None:
        counted("window", window, low=0)
        self.shift = shift
        self.window = window

    def regions(self, train_positions: int, test_positions: int) -> list[Region]:
        if self.shift <= self.window:
            raise ConfigError(
                f"distances shrink by shift - window: shift={self.shift} must exceed "
                f"window={self.window}"
            )

        def places(a: Attention) -> tuple[Tensor, Tensor]:
            return a.q_pos - self.shift + self.window, a.k_pos

        return [Region(), Region(places, at_least(self.shift))]
