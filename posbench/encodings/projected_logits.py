"""Projected relative logits: every query mixes a few learned curves over the distance."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from posbench.base.errors import ConfigError
from posbench.core.attention import Attention
from posbench.core.encoding import PositionEncoding


class ProjectedLogits(PositionEncoding):
    r"""Every query computes its own learned curve of the distance, which is added to the scores.

    $B_{ij} = \langle W_h x_i, C_{:,\,i-j}\rangle$ for $0 \le i - j < E$ and 0 elsewhere, added
    after the scale (Inkling, as in transformers; `RelativeProjPositionalBias` of x-transformers; no
    paper).

    x is the normalised input of the layer. W is [heads, curves, model width] and C, [curves,
    `extent` E], is one bank for all heads; every layer has its own. C starts at $N(0, 0.02^2)$, so
    that training begins near no position, W at $N(0, 1/D)$. As in Inkling W has no offset;
    x-transformers adds one. From E on, beyond the training length too, the bias is exactly 0, and a
    later key has none. Where E exceeds the training length, as the published 1024 does in a short
    model, entries of C are untrained.
    """

    handles = PositionEncoding.handles | {"distance"}
    float_positions = False

    def __init__(self, num_heads: int, model_width: int, curves: int, extent: int) -> None:
        super().__init__()
        if num_heads < 1 or curves < 1:
            raise ConfigError(
                f"there must be at least one head and one curve, got {num_heads} and {curves}"
            )
        if extent < 1:
            raise ConfigError(
                f"extent is the number of distances with a bias, at least 1, got {extent}"
            )
        self.extent = extent
        self.w = nn.Parameter(model_width**-0.5 * torch.randn(num_heads, curves, model_width))
        self.bank = nn.Parameter(0.02 * torch.randn(curves, extent))

    def encode(self, a: Attention) -> Attention:
        mixed = a.x[:, None].to(self.w.dtype) @ self.w.mT  # [batch, heads, n, curves]

        def term(rows: slice) -> Tensor:
            d = a.distance(rows)[:, None]
            inside = (d >= 0) & (d < self.extent)
            biases = mixed[..., rows, :] @ self.bank  # [batch, heads, rows, extent]
            index = d.clamp(0, self.extent - 1).expand(*biases.shape[:2], -1, -1)
            return biases.gather(-1, index).masked_fill(~inside, 0.0)

        return a.plus(term)
