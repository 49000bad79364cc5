"""RoPE++: heads in twos, one by the real part of the rotated product, one by the imaginary."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from posbench.base.errors import ConfigError
from posbench.core.attention import Attention
from posbench.encodings.rope import RoPE
from posbench.encodings.rotation import halves, rotate


class RoPEPP(RoPE):
    r"""RoPE with a second set of heads that uses the imaginary part of the same products.

    $z^{2h}_{ij} = c\,\mathrm{Re}\sum_m q_{i,m}\,\overline{k_{j,m}}\;
    e^{\,\mathrm{i}(i-j)\theta_m}$ and $z^{2h+1}_{ij} = c\,\mathrm{Im}\sum_m
    q_{i,m}\,\overline{k_{j,m}}\;e^{\,\mathrm{i}(i-j)\theta_m}$ with the same q, k and v, those of
    head 2h (RoPE++ with equal heads, "EH", arXiv 2512.07525).

    The imaginary part is the real one of a query turned back by a right angle, so caches and
    kernels stay. Of pair m, RoPE scores a like key by $\cos d\theta_m$, which falls off with the
    distance d, and the imaginary head by $\sin d\theta_m$, which rises first: it looks further. It
    also shows slow pairs the angles of the other sign, and that half of the circle is what beyond
    the training length is no longer new.

    Sharing is the point: with weights of its own, an imaginary head is a head of RoPE, since a
    turn of the query by a right angle is a matter of its weights. The paper's EH saves the weights
    of every second head; here they are there, of no effect and untrained. Its other form, equal
    cache ("EC"), has two outputs a head and twice as wide a matrix after them, which is the
    transformer's and not an encoding's.
    """

    def __init__(self, num_heads: int, head_width: int, base: float = 10000.0) -> None:
        super().__init__(head_width, base)
        if num_heads < 2 or num_heads % 2:
            raise ConfigError(
                "heads come in twos, one for the real and one for the imaginary part: num_heads "
                f"must be even, got {num_heads}"
            )

    def encode(self, a: Attention) -> Attention:
        dtype = torch.promote_types(a.q.dtype, torch.float32)
        real = slice(0, None, 2)

        def both(x: Tensor) -> Tensor:
            return x[:, real].repeat_interleave(2, 1)

        cos, sin = self.frequencies.tables(a.q_pos, dtype)
        q = halves(a.q[:, real])
        # e^{i(angle - pi/2)} has the cosine sin(angle) and the sine -cos(angle)
        turned = torch.stack((rotate(*q, cos, sin), rotate(*q, sin, -cos)), 2).flatten(1, 2)
        k = rotate(*halves(a.k[:, real]), *self.frequencies.tables(a.k_pos, dtype))
        return replace(a, q=turned, k=k.repeat_interleave(2, 1), v=both(a.v))
