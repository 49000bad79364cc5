"""PoPE: what a key holds as a magnitude, where it is as an angle."""

from __future__ import annotations

import math
from dataclasses import replace

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from posbench.base.errors import ConfigError
from posbench.core.attention import Attention
from posbench.core.encoding import PositionEncoding
from posbench.core.frequencies import Frequencies
from posbench.encodings.bounded import bounded


class PoPE(PositionEncoding):
    r"""RoPE in which the content gives only lengths, and the position alone gives angles.

    $z_{ij} = c\sum_{m} \mu(q_{i,m})\,\mu(k_{j,m})\cos\bigl((i-j)\,\theta_m -
    \delta_{h,m}\bigr)$ with $\mu(x) = \ln(1 + e^x)$ and $\theta_m = b^{-m/d_h}$ for every *channel*
    $m = 0 \ldots d_h - 1$ (polar coordinate position embedding, arXiv 2509.10534).

    In RoPE the angle between the two channels of a query's pair adds to that of its position; here
    content is a magnitude alone, and each channel has a frequency and, for each head, a learned
    angle $\delta$ of its own. $\delta$ starts at 0, the paper's choice for longer sequences, and
    acts within $[-2\pi, 0]$; the gradient passes the bounds, so that an angle at one of them can
    leave it. Exact as a product of queries and keys of twice the width; c stays that of the head
    width.

    Beyond the training length the slow channels reach angles never seen, but none of them flips the
    sign of a match. Frequency extensions act on the grid of $d_h$ frequencies, and NTK stretches
    the slowest of these by s.
    """

    handles = PositionEncoding.handles | {"frequencies", "distance", "positions"}

    def __init__(self, num_heads: int, head_width: int, base: float = 10000.0) -> None:
        super().__init__()
        if num_heads < 1:
            raise ConfigError(f"PoPE needs at least one head, got {num_heads}")
        self.frequencies = Frequencies(head_width, base)
        self.delta = nn.Parameter(torch.zeros(num_heads, head_width))

    def encode(self, a: Attention) -> Attention:
        dtype = torch.promote_types(a.q.dtype, torch.float32)
        delta = bounded(self.delta, -2 * math.pi, 0.0).to(dtype)[:, None]  # [heads, 1, head width]

        def polar(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
            size = F.softplus(x.to(dtype))
            return torch.cat((size * cos, size * sin), -1).to(x.dtype)

        cos, sin = (table[:, None] for table in self.frequencies.tables(a.q_pos, dtype))
        q = polar(a.q, cos, sin)
        cos, sin = (table[:, None] for table in self.frequencies.tables(a.k_pos, dtype))
        turned = cos * delta.cos() - sin * delta.sin(), sin * delta.cos() + cos * delta.sin()
        return replace(a, q=q, k=polar(a.k, *turned))
