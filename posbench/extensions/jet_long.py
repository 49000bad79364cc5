"""Jet-Long: exact up to a window, and grouped beyond it from the start."""

from __future__ import annotations

from torch import Tensor

from posbench.core.attention import Attention
from posbench.extensions.distances import Shrinking, counted, grouped
from posbench.extensions.regions import Region, beyond, from_the_first


class JetLong(Shrinking):
    r"""Near distances stay; beyond a window, positions are floor-divided by a whole number.

    $d' = d$ for $d \le w_0$, else $\lfloor i/G \rfloor - \lfloor j/G \rfloor$ with $G = \lceil
    L'/L \rceil$ (Jet-Long, arXiv 2607.07740).

    Up to `window` $w_0$ nothing changes; further keys are seen in groups of `group` G, as
    `SelfExtend` does, but without an offset: the first of them look nearer, $w_0/G$, than those
    within the window, and a distance below $w_0$ may belong to a near and to a far key. Published
    $w_0$ = 2,048 of 32,768. Left out (null), G is the smallest with which no distance of the test
    is new, for each test length its own, and nothing changes at the training length. Groups are
    counted from the first token; which of G neighbouring keys it is, is lost.

    The authors' code takes the length that was reached when a token is decoded, so that G grows
    while it writes; here a test's length is the whole of prompt and answer.
    """

    def __init__(self, window: int, group: int | None = None) -> None:
        counted("window", window)
        counted("group", group)
        self.window = window
        self.factor = group

    def regions(self, train_positions: int, test_positions: int) -> list[Region]:
        group = self.factor or max(1, -(-test_positions // train_positions))

        def places(a: Attention) -> tuple[Tensor, Tensor]:
            i, j = from_the_first(a)
            return grouped(i, group), grouped(j, group)

        return [Region(), Region(places, beyond(self.window))]
