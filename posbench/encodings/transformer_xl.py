"""Transformer-XL and its kin: sinusoids of the distance, looked at by the query."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor, nn

from posbench.attention import Attention
from posbench.encoding import PositionEncoding
from posbench.encodings.rotary import neighbours
from posbench.errors import ConfigError
from posbench.frequencies import Frequencies


class TransformerXL(PositionEncoding):
    r"""$z_{ij} = c\,\big(\langle q_i + u_h, k_j\rangle + \langle q_i + v_h, W_h
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


class XLNet(TransformerXL):
    r"""`TransformerXL` plus a term for segments: $z_{ij} = \dots + c\,\langle q_i + r_h,
    s_{h,ij}\rangle$ with $s_{h,ij} = s^{same}_h$ where query and key are of one segment and
    $s^{other}_h$ where not (arXiv 1906.08237, section 2.5).

    u, v and r belong to each layer, as in the authors' code. s is [2, heads, head width]. A task's
    prompt is one segment, its answer the other; a call that names none is of one segment. Permuted
    factorisation orders and the two streams are a way of training, no encoding. Beyond the training
    length as `TransformerXL`; segments know no length.
    """

    shared = ()

    def __init__(
        self, num_heads: int, head_width: int, model_width: int, base: float = 10000.0
    ) -> None:
        super().__init__(num_heads, head_width, model_width, base)
        self.r = vectors(num_heads, head_width)
        self.segments = nn.Parameter(0.02 * torch.randn(2, num_heads, head_width))

    def encode(self, a: Attention) -> Attention:
        segments = (
            torch.zeros_like(a.q[:1, 0, :, 0], dtype=torch.long)
            if a.segments is None
            else a.segments
        )

        def term(rows: slice) -> Tensor:
            query = a.scale * (a.q[..., rows, :] + self.r[:, None])
            same, other = (
                query @ self.segments[index][..., None] for index in (0, 1)
            )  # [batch, heads, rows, 1]
            return torch.where(
                (segments[:, rows, None] == segments[:, None, :])[:, None], same, other
            )

        return super().encode(a).plus(term)


class TENER(PositionEncoding):
    r"""$z_{ij} = c\,\big(\langle q_i + u_h, k_j\rangle + \langle q_i + v_h, R_{i-j}\rangle\big)$
    with $R_{t,2m} = \sin t\theta_m$, $R_{t,2m+1} = \cos t\theta_m$, $\theta_m = b^{-2m/d_h}$ and c
    = `scale`, which is 1 where attention has $1/\sqrt{d_h}$ (arXiv 1911.04474).

    R has the width of a head and no projection: the sines keep the direction, which a projection
    could lose. u and v, [heads, head width], belong to each layer and start at $N(0, 0.02^2)$. The
    paper leaves keys without a projection too; here the transformer is the same for every encoding.
    The authors' code has a term of the keys with R besides, the names of u and v exchanged and
    frequencies down to 1/b: this is the paper. Beyond the training length as `TransformerXL`.
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


def vectors(num_heads: int, head_width: int) -> nn.Parameter:
    """A vector a head, [heads, head width]."""
    if num_heads < 1:
        raise ConfigError(f"there must be at least one head, got {num_heads}")
    return nn.Parameter(0.02 * torch.randn(num_heads, head_width))


def with_sinusoids(
    a: Attention, u: Tensor, by_sin: Tensor, by_cos: Tensor, frequencies: Frequencies
) -> Attention:
    r"""The call with $z_{ij} = c\,\big(\langle q_i + u_h, k_j\rangle + \sum_m \alpha_{im} \sin (i -
    j)\theta_m + \beta_{im} \cos (i - j)\theta_m\big)$, where $\alpha$ is `by_sin` and $\beta$
    `by_cos`, [batch, heads, n, pairs].
    """
    dtype = torch.promote_types(a.q.dtype, torch.float32)
    (cos_i, sin_i), (cos_j, sin_j) = (
        (table[:, None] for table in frequencies.tables(pos, dtype)) for pos in (a.q_pos, a.k_pos)
    )
    # sin(i - j) = sin i cos j - cos i sin j and cos(i - j) = cos i cos j + sin i sin j
    bias_q = torch.cat((by_sin * sin_i + by_cos * cos_i, by_cos * sin_i - by_sin * cos_i), -1)
    bias_k = torch.cat((cos_j, sin_j), -1).expand(*a.q.shape[:3], -1)
    # In the precision of q, as the channels of q itself: no number here grows with the position.
    a = replace(a, q=(a.q + u[:, None]).to(a.q.dtype))
    return a.factored((a.scale * bias_q).to(a.q.dtype), bias_k.to(a.q.dtype))
