"""LeRoPE: RoPE whose frequencies are learned."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor, nn

from posbench.base.errors import ConfigError
from posbench.core.attention import Attention
from posbench.core.encoding import PositionEncoding
from posbench.core.frequencies import Frequencies
from posbench.encodings.rotation import halves, rotate


class LeRoPE(PositionEncoding):
    r"""RoPE whose frequencies are learned in every layer.

    RoPE with $\theta_m = b^{-2m/d_h}\,e^{\alpha_m}$, where the $\alpha_m$ are learned and start
    at 0 (arXiv 2607.10134; Mistral Large 4 in transformers).

    One $\alpha$ a pair, the same for all heads and layers: at the start this is RoPE, and no
    frequency can change its sign. Pair m is channels m and m + d_h/2. The source leaves $\alpha$
    out of weight decay; here all parameters decay alike, which pulls towards RoPE.

    Beyond the training length as RoPE at the frequencies found. An extension divides these by its
    $\lambda_m$; NTK and YaRN choose $\lambda_m$ by the index m of the grid before learning.
    """

    shared = ("alpha",)
    handles = PositionEncoding.handles | {"frequencies", "distance", "positions"}

    def __init__(self, head_width: int, base: float = 10000.0) -> None:
        super().__init__()
        if head_width % 2:
            raise ConfigError(
                f"LeRoPE turns channels in pairs: head_width must be even, got {head_width}"
            )
        self.frequencies = Frequencies(head_width // 2, base)
        self.alpha = nn.Parameter(torch.zeros(head_width // 2))

    def encode(self, a: Attention) -> Attention:
        dtype = torch.promote_types(a.q.dtype, torch.float32)
        theta = self.frequencies.theta(a.q.device)
        theta = theta * self.alpha.to(theta.dtype).exp()

        def turned(x: Tensor, pos: Tensor) -> Tensor:
            angles = self.frequencies.angles(pos, theta)
            cos, sin = (self.frequencies.magnitude * part for part in (angles.cos(), angles.sin()))
            return rotate(*halves(x), cos.to(dtype), sin.to(dtype))

        return replace(a, q=turned(a.q, a.q_pos), k=turned(a.k, a.k_pos))
