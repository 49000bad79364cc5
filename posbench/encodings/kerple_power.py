"""KERPLE-power: a power of the distance as a kernel, two learned numbers a head."""

from __future__ import annotations

from torch import Tensor

from posbench.core.attention import Attention
from posbench.core.encoding import PositionEncoding
from posbench.encodings.bounded import bounded
from posbench.encodings.kerple import SMALLEST, uniform


class KerplePower(PositionEncoding):
    r"""A bias falls with a learned power of the distance.

    $B_{ij} = -r_{1,h}\, d^{\,r_{2,h}}$ with d = i - j, added after the scale (arXiv
    2205.09921).

    $r_1 > 0$ and $0 < r_2 \le 2$ are learned, one pair a head for all layers, and start at U(0, 1)
    and U(0, 2); they act as at least 0.01, and $r_2$ as at most 2, as in the authors' code. With
    $r_2 = 1$ this is ALiBi with learned slopes. Beyond the training length nothing is undefined; a
    weight falls as $\exp(-r_1 d^{r_2})$, which for $r_2$ near 2 leaves a window of $r_1^{-1/2}$
    tokens. A later key counts as distance 0. Clamped as in `KerpleLog`, without changing the
    parameters.
    """

    shared = ("r1", "r2")
    handles = PositionEncoding.handles | {"distance", "positions"}

    def __init__(self, num_heads: int) -> None:
        super().__init__()
        self.r1, self.r2 = uniform(num_heads, 1.0), uniform(num_heads, 2.0)

    def encode(self, a: Attention) -> Attention:
        def term(rows: slice) -> Tensor:
            d = a.distance(rows).clamp(min=0).to(self.r1.dtype)[:, None]
            r1, r2 = (
                bounded(self.r1, SMALLEST)[:, None, None],
                bounded(self.r2, SMALLEST, 2.0)[:, None, None],
            )
            return -r1 * d**r2  # [batch|1, heads, rows, keys]

        return a.plus(term)
