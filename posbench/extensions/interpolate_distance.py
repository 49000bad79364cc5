"""Distances divided by the factor of extension."""

from __future__ import annotations

from fractions import Fraction

from torch import Tensor

from posbench.core.attention import Attention
from posbench.core.extension import Scaled
from posbench.extensions.distances import divided
from posbench.extensions.regions import Region, RegionExtension, from_the_first


class InterpolateDistance(RegionExtension, Scaled):
    r"""All distances are divided by the factor between test and training length.

    $d' = d / s$: position interpolation for any host with a distance (of ALiBi's slopes, arXiv
    2310.13017; of RoPE's angles, `PI`, arXiv 2306.15595).

    `scale` s is a fixed factor, or where it is left out (null) $\max(1, L'/L)$ for each test length
    L' of its own, and nothing changes at the training length. No distance is new, but neighbours
    are s times closer than in training. Positions are divided, which for ALiBi is the published
    $m_h \leftarrow m_h L/L'$. A host that knows whole positions only is given $\lfloor i/s \rfloor$
    and $\lfloor j/s \rfloor$, counted from the first token, which moves d' by less than 1 and tells
    some neighbours apart and others not.
    """

    def regions(self, train_positions: int, test_positions: int) -> list[Region]:
        scale = (
            self.scale
            if self.scale is not None
            else max(Fraction(1), Fraction(test_positions, train_positions))
        )

        def places(a: Attention) -> tuple[Tensor, Tensor]:
            i, j = from_the_first(a)
            return divided(i, scale), divided(j, scale)

        return [Region(places)]
