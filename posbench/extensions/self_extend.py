"""SelfExtend: beyond a window positions are grouped."""

from __future__ import annotations

from torch import Tensor

from posbench.core.attention import Attention
from posbench.extensions.distances import Shrinking, below, counted, grouped, smallest
from posbench.extensions.regions import Region, at_least, from_the_first


class SelfExtend(Shrinking):
    r"""Near distances stay, and positions further away share numbers in groups.

    $d' = d$ for $d < W$, else $\lfloor i/G \rfloor - \lfloor j/G \rfloor + W - \lfloor W/G
    \rfloor$ (SelfExtend, arXiv 2401.01325).

    Beyond `window` W positions are grouped by `group` G, so that d' stays whole; which of G
    neighbouring keys it is, is lost. Published W = 512 to 1,024 and G = 4 to 32 at L = 4,096. Left
    out (null), G is the smallest with which no distance of the test is new, for each test length
    its own, and nothing changes at the training length. Groups are counted from the first token. d'
    depends on where in its group a query is, and may grow by G tokens at once.

    The floor of W/G is that of the paper, and of the authors' code when it decodes; its code for
    prompts has W/G as it is, and tells prompt and continuation different distances unless G divides
    W. That code leaves out $W - W/G$ as well for sequences of up to W positions, which have no far
    keys and where it changes nothing.
    """

    def __init__(self, window: int, group: int | None = None) -> None:
        counted("window", window)
        counted("group", group)
        self.window = window
        self.factor = group

    def regions(self, train_positions: int, test_positions: int) -> list[Region]:
        window, group = self.window, self.factor
        if group is None:
            below("window", window, train_positions)
            group = smallest(
                lambda g: (test_positions - 1) // g + window - window // g, train_positions
            )

        def places(a: Attention) -> tuple[Tensor, Tensor]:
            i, j = from_the_first(a)
            return grouped(i, group) + window - window // group, grouped(j, group)

        return [Region(), Region(places, at_least(window))]
