"""AdaRoPE: RoPE whose frequencies are learned in every head."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor, nn

from posbench.base.errors import ConfigError
from posbench.core.attention import Attention
from posbench.core.encoding import PositionEncoding
from posbench.core.frequencies import Frequencies
from posbench.encodings.rotation import halves, rotate


class AdaRoPE(PositionEncoding):
    r"""RoPE whose frequencies are learned in every head and layer.

    RoPE with $\theta_{h,m} = b^{-2m/d_h}\,e^{\alpha_{h,m}}$, where the $\alpha_{h,m}$ are
    learned in every head and layer and start at 0 (AdaFreq, the frequencies of AdaRoPE, arXiv
    2607.19363).

    At the start this is RoPE; no frequency can change its sign. A head that compares neighbours and
    one that retrieves from afar may so turn at different rates, where LeRoPE has one $\alpha_m$ for
    all of them. Pair m is channels m and m + d_h/2. Beyond the training length as RoPE at the
    frequencies found; an extension divides these by its $\lambda_m$, the same in all heads, which
    NTK and YaRN choose by the index m of the grid before learning.

    The paper also learns a factor on the scores of each head that grows with the length
    (AdaScale, which its code switches apart). That formula was not to be had, and none was made up:
    `ssmax` is such a factor and goes around any host. So a comparison with the paper's numbers is
    one with half of its method.
    """

    handles = PositionEncoding.handles | {"frequencies", "distance", "positions"}

    def __init__(self, num_heads: int, head_width: int, base: float = 10000.0) -> None:
        super().__init__()
        if num_heads < 1:
            raise ConfigError(
                f"frequencies are learned for each head: there must be one, got {num_heads}"
            )
        if head_width % 2:
            raise ConfigError(
                f"AdaRoPE turns channels in pairs: head_width must be even, got {head_width}"
            )
        self.frequencies = Frequencies(head_width // 2, base)
        self.alpha = nn.Parameter(torch.zeros(num_heads, head_width // 2))

    def encode(self, a: Attention) -> Attention:
        theta = self.frequencies.theta(a.q.device)
        theta = theta * self.alpha.to(theta.dtype).exp()[:, None]  # [heads, 1, pairs]

        def turned(x: Tensor, pos: Tensor) -> Tensor:
            return by_head(x, pos.to(theta.dtype)[:, None, :, None] * theta, self.frequencies)

        return replace(a, q=turned(a.q, a.q_pos), k=turned(a.k, a.k_pos))


def by_head(x: Tensor, angles: Tensor, frequencies: Frequencies) -> Tensor:
    """Every head turned by angles [batch|1, heads, n, pairs] of its own."""
    dtype = torch.promote_types(x.dtype, torch.float32)
    cos, sin = (frequencies.magnitude * part for part in (angles.cos(), angles.sin()))
    real, imaginary = (part[:, None] for part in halves(x))  # `rotate` adds a place for heads
    return rotate(real, imaginary, cos.to(dtype), sin.to(dtype)).squeeze(1)
