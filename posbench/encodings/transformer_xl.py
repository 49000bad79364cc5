"""Transformer-XL: sinusoids of the distance, projected and looked at by the query."""

from __future__ import annotations

import torch
from torch import nn

from posbench.base.errors import ConfigError
from posbench.core.attention import Attention
from posbench.core.encoding import PositionEncoding
from posbench.core.frequencies import Frequencies
from posbench.encodings.relative_sinusoids import vectors, with_sinusoids


class TransformerXL(PositionEncoding):
    r"""Content meets projected sinusoids of the distance, and two learned vectors replace the
    query.

    $z_{ij} = c\,\big(\langle q_i + u_h, k_j\rangle + \langle q_i + v_h, W_h
    R_{i-j}\rangle\big)$ with $R_t = [\sin t\theta \,|\, \cos t\theta]$, $\theta_m = b^{-2m/D}$
    (arXiv 1901.02860, section 3.3).

    D is the model width. W is [heads, head width, D] and every layer has its own; u and v, [heads,
    head width], are shared by all layers and start at $N(0, 0.02^2)$, as in the authors' code, W at
    $N(0, 1/D)$, as other projections here. Segment recurrence, the paper's other half, is no
    encoding of position and left out.

    Beyond the training length R is defined, in combinations of phases never seen. The relative
    shift of published code is not needed: sine and cosine of a difference are sums of products of
    sines and cosines, so that the second term is an exact product in D extra channels, whatever the
    positions.
    """

    shared: tuple[str, ...] = ("u", "v")
    handles = PositionEncoding.handles | {"frequencies", "distance", "positions"}

    def __init__(
        self, num_heads: int, head_width: int, model_width: int, base: float = 10000.0
    ) -> None:
        super().__init__()
        if model_width % 2:
            raise ConfigError(
                f"sines and cosines come in pairs: the model width must be even, got {model_width}"
            )
        self.frequencies = Frequencies(model_width // 2, base)
        self.u, self.v = vectors(num_heads, head_width), vectors(num_heads, head_width)
        self.w = nn.Parameter(model_width**-0.5 * torch.randn(num_heads, head_width, model_width))

    def encode(self, a: Attention) -> Attention:
        by_sin, by_cos = ((a.q + self.v[:, None]) @ self.w).chunk(2, -1)
        return with_sinusoids(a, self.u, by_sin, by_cos, self.frequencies)
