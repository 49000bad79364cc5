"""LaMPE: a mapping length that grows with the test, and three grains of distance."""

from __future__ import annotations

import math

from torch import Tensor

from posbench.base.errors import ConfigError
from posbench.core.attention import Attention
from posbench.extensions.distances import counted
from posbench.extensions.regions import Region, RegionExtension, at_least, from_the_first


class LaMPE(RegionExtension):
    r"""Near and farthest distances stay exact; those between share numbers, the more the longer the
    test.

    $d' = d$ for $d \le h$, $f(i) - f(j) + h - f(h) - 1$ for $h < d < L' - t$, and $d - b$ for
    keys further away, with $f(p) = \lfloor p\,M/(L' - 1) \rfloor$ and the mapping length $M = c\,L
    \big/ \bigl(1 + e^{-(a L'/L + r)}\bigr)$ (LaMPE, arXiv 2508.02308, as its authors' code has it).

    Up to `near` h distances are exact; from there positions are seen in M groups, an offset joins
    them to the window, and the ends of the longest distances are exact again: t is the end of the
    group of `far`, and b makes them go on from the middle. M grows with the test as a sigmoid whose
    `capacity` c, `slope` a and `offset` r the authors fit to each model; in shares of the training
    length they are 0.76, 0.86 and -2.47 for Llama 3 (the default), 0.61, 0.36 and -0.65 for Llama
    2, 0.63, 5.91 and -2.79 for Llama 3.1. So M is a part of L at every length, far keys are put in
    groups also at the training length, and a test of 4 L has more groups than one of L. No distance
    is new while c L + h + t stays below L.

    Sequences of fewer than 2 h positions are seen as they are, and so are those of up to M. The
    code tells keys at h and at L' - t twice, in both of the parts that meet there; here h is the
    window's and L' - t the far part's. It takes L' from the prompt and goes on with that M while it
    writes, and multiplies cosine and sine by $0.1\ln 2 + 1$; here L' is prompt and answer, and the
    temperature is left out, as for `STRING`. For Llama 2 and 3 the code has M = 1,536 below 8,192
    positions, and here the sigmoid is for every length. Of the paper itself only the abstract was
    at hand.
    """

    is_identity = False

    def __init__(
        self,
        near: int,
        far: int,
        capacity: float = 0.76,
        slope: float = 0.86,
        offset: float = -2.47,
    ) -> None:
        counted("near", near)
        counted("far", far)
        if not capacity > 0:
            raise ConfigError(
                "capacity is the most groups as a share of the training length and must exceed 0, "
                f"got {capacity}"
            )
        self.near = near
        self.far = far
        self.capacity = capacity
        self.slope = slope
        self.offset = offset

    def groups(self, train_positions: int, test_positions: int) -> int:
        """M, at least one group."""
        rise = 1 + math.exp(-(self.slope * test_positions / train_positions + self.offset))
        return max(1, int(self.capacity * train_positions / rise))

    def regions(self, train_positions: int, test_positions: int) -> list[Region]:
        last, near = test_positions - 1, self.near
        count = self.groups(train_positions, test_positions)
        if test_positions < 2 * near or count >= last or self.far >= last:
            return [Region()]

        def group(pos: int) -> int:
            return pos * count // last

        shift = near - group(near) - 1
        end = -(-(group(self.far) + 1) * last // count) - 1  # of the group that `far` is in
        away = test_positions - end
        back = away - 1 - group(away - 1) - shift

        def middle(a: Attention) -> tuple[Tensor, Tensor]:
            i, j = (pos * count // last for pos in from_the_first(a))
            return i + shift, j

        def furthest(a: Attention) -> tuple[Tensor, Tensor]:
            return a.q_pos - back, a.k_pos

        start = max(away, near + 1)
        return [
            Region(),
            Region(middle, lambda a, rows: (a.distance(rows) > near) & (a.distance(rows) < start)),
            Region(furthest, at_least(start)),
        ]
