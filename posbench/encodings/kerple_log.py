"""KERPLE-log: a logarithmic kernel of the distance, two learned numbers a head."""

from __future__ import annotations

import torch
from torch import Tensor

from posbench.core.attention import Attention
from posbench.core.encoding import PositionEncoding
from posbench.encodings.bounded import bounded
from posbench.encodings.kerple import SMALLEST, uniform


class KerpleLog(PositionEncoding):
    r"""A bias falls with the logarithm of the distance; its weight and its scale are learned.

    $B_{ij} = -r_{1,h} \ln(1 + r_{2,h}\, d)$ with d = i - j, added after the scale (arXiv
    2205.09921).

    $r_1, r_2 > 0$ are learned, one pair a head for all layers, and start at U(0, 2) and U(0, 1);
    both act as at least 0.01, as in the authors' code. A weight falls as the power $(1 + r_2
    d)^{-r_1}$ of the distance, slower than any exponential: beyond the training length nothing is
    undefined, and far keys keep a share. A later key counts as distance 0. The authors' code
    overwrites the parameters with their clamped values in every call; here a call changes nothing,
    and the gradient passes the clamp, so that a head at the bound can leave it.
    """

    shared = ("r1", "r2")
    handles = PositionEncoding.handles | {"distance", "positions"}

    def __init__(self, num_heads: int) -> None:
        super().__init__()
        self.r1, self.r2 = uniform(num_heads, 2.0), uniform(num_heads, 1.0)

    def encode(self, a: Attention) -> Attention:
        def term(rows: slice) -> Tensor:
            d = a.distance(rows).clamp(min=0).to(self.r1.dtype)[:, None]
            r1, r2 = (bounded(r, SMALLEST)[:, None, None] for r in (self.r1, self.r2))
            return -r1 * torch.log1p(r2 * d)  # [batch|1, heads, rows, keys]

        return a.plus(term)
