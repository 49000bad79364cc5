"""Leaky ReRoPE: beyond a window distances grow more slowly."""

from __future__ import annotations

from fractions import Fraction

from torch import Tensor

from posbench.base.errors import ConfigError
from posbench.core.attention import Attention
from posbench.extensions.distances import Shrinking, below, counted, divided
from posbench.extensions.regions import Region, at_least, from_the_first


class LeakyReRoPE(Shrinking):
    r"""Distances beyond a window grow more slowly.

    $d' = d$ for $d < w$, else $w + (d - w)/k$ (Leaky ReRoPE, Su, kexue.fm/archives/9708, 2023).

    Beyond `window` w distances go on growing, `shrink` k times slower, and far keys keep their
    order. Published w = 512 and k = 16 at L = 4,096. Left out (null), k is the smallest with which
    no distance of the test is new, $\max\bigl(1, \frac{L' - 1 - w}{L - 1 - w}\bigr)$, for each test
    length its own, and nothing changes at the training length. Far keys are at $j/k$, queries at $w
    + (i - w)/k$, counted from the first token; a host that knows whole positions only is given the
    floor of both, which moves d' by less than 1. Published with a temperature, which is left out.
    """

    def __init__(self, window: int, shrink: float | None = None) -> None:
        counted("window", window)
        if shrink is not None and shrink < 1:
            raise ConfigError(
                f"shrink divides far distances, at least 1 (or null for one a length), got {shrink}"
            )
        self.window = window
        self.factor = shrink

    def regions(self, train_positions: int, test_positions: int) -> list[Region]:
        window = self.window
        shrink: float | Fraction
        if self.factor is not None:
            shrink = self.factor
        else:
            below("window", window, train_positions - 1)
            shrink = max(
                Fraction(1), Fraction(test_positions - 1 - window, train_positions - 1 - window)
            )

        def places(a: Attention) -> tuple[Tensor, Tensor]:
            i, j = from_the_first(a)
            return window + divided(i - window, shrink), divided(j, shrink)

        return [Region(), Region(places, at_least(window))]
