"""KERPLE: biases that are conditionally positive definite kernels of the distance, two learned
numbers a head.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from posbench.attention import Attention
from posbench.encoding import PositionEncoding
from posbench.errors import ConfigError

SMALLEST = 0.01
"""What the published code keeps every parameter above."""


class KerpleLog(PositionEncoding):
    r"""$B_{ij} = -r_{1,h} \ln(1 + r_{2,h}\, d)$ with d = i - j, added after the scale (arXiv
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


class KerplePower(PositionEncoding):
    r"""$B_{ij} = -r_{1,h}\, d^{\,r_{2,h}}$ with d = i - j, added after the scale (arXiv
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


def uniform(num_heads: int, high: float) -> nn.Parameter:
    """One number a head, drawn from U(0, high)."""
    if num_heads < 1:
        raise ConfigError(f"KERPLE needs at least one head, got {num_heads}")
    return nn.Parameter(high * torch.rand(num_heads))


def bounded(parameter: Tensor, low: float, high: float | None = None) -> Tensor:
    """The clamped value with the gradient of the parameter itself."""
    return parameter + (parameter.clamp(low, high) - parameter).detach()
