"""TENER: sinusoids of the distance, unscaled and without a projection."""

from __future__ import annotations

from dataclasses import replace

from posbench.base.errors import ConfigError
from posbench.core.attention import Attention
from posbench.core.encoding import PositionEncoding
from posbench.core.frequencies import Frequencies
from posbench.encodings.relative_sinusoids import vectors, with_sinusoids
from posbench.encodings.rotation import neighbours


class TENER(PositionEncoding):
    r"""Content meets sinusoids of the signed distance, which are not projected.

    $z_{ij} = c\,\big(\langle q_i + u_h, k_j\rangle + \langle q_i + v_h, R_{i-j}\rangle\big)$
    with $R_{t,2m} = \sin t\theta_m$, $R_{t,2m+1} = \cos t\theta_m$, $\theta_m = b^{-2m/d_h}$ and c
    = `scale`, which is 1 where attention has $1/\sqrt{d_h}$ (arXiv 1911.04474).

    R has the width of a head and no projection: the sines keep the direction, which a projection
    could lose. u and v, [heads, head width], belong to each layer and start at $N(0, 0.02^2)$. The
    paper leaves keys without a projection too; here the transformer is the same for every encoding.
    The authors' code has a term of the keys with R besides, the names of u and v exchanged,
    frequencies down to 1/b, and u and v that start by Xavier's rule: this is the paper. Beyond
    the training length as `TransformerXL`.
    """

    handles = PositionEncoding.handles | {"frequencies", "distance", "positions"}

    def __init__(
        self, num_heads: int, head_width: int, base: float = 10000.0, scale: float = 1.0
    ) -> None:
        super().__init__()
        if head_width % 2:
            raise ConfigError(
                f"sines and cosines come in pairs: head_width must be even, got {head_width}"
            )
        if not scale > 0:
            raise ConfigError(f"scale multiplies all scores and must exceed 0, got {scale}")
        self.frequencies = Frequencies(head_width // 2, base)
        self.scale = scale
        self.u, self.v = vectors(num_heads, head_width), vectors(num_heads, head_width)

    def encode(self, a: Attention) -> Attention:
        a = replace(a, scale=self.scale)
        return with_sinusoids(a, self.u, *neighbours(a.q + self.v[:, None]), self.frequencies)
