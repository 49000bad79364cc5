"""Hyperbolic HoPE: pairs of channels are boosted by the distance instead of turned, and decay."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from posbench.base.errors import ConfigError
from posbench.core.attention import Attention
from posbench.core.encoding import PositionEncoding
from posbench.core.frequencies import Frequencies
from posbench.encodings.rotation import halves


class HyperbolicHoPE(PositionEncoding):
    r"""RoPE with hyperbolic functions in place of sine and cosine, and a decay with distance.

    $z_{ij} = c\,e^{-\theta' d} \sum_m \bigl((q_{i,m} k_{j,m} + q'_{i,m} k'_{j,m})
    \cosh(d\,\theta_m) + (q_{i,m} k'_{j,m} + q'_{i,m} k_{j,m}) \sinh(d\,\theta_m)\bigr)$ with
    d = i - j, $\theta_m = b^{-2m/d_h}$ and $\theta' > \theta_0 = 1$ (hyperbolic rotary positional
    encoding, HoPE, arXiv 2509.05218).

    $q_m, q'_m$ are channels m and m + d_h/2: RoPE with the circle's functions replaced by those of
    the hyperbola, and a decay that outweighs their growth. Along sum and difference of the two,
    $\frac{1}{\sqrt 2}(q_m \pm q'_m)$, it is no more than a decay at two rates, $e^{-(\theta' \mp
    \theta_m) d}$, and so it is computed: no exponential of a large positive number occurs. Each of
    these terms falls with the distance and keeps its sign, and so does the score of a query and a
    key that are alike; a sum of terms of unlike signs may change its own. What falls is the score,
    towards 0 and not towards no weight: far keys all weigh the same, as in NoPE where scores are 0,
    and beyond the training length there are more of them.

    $\theta'$, here `decay`, must exceed 1; the paper names no value, and at 1.1 the
    slowest term falls to $e^{-1}$ in 10 tokens. A later key counts as distance 0. A frequency
    extension that divides $\theta_m$ divides $\theta'$ of that pair as well: pair m then sees the
    positions $p/\lambda_m$, as in xPos.
    """

    handles = PositionEncoding.handles | {"frequencies", "positions"}

    def __init__(self, head_width: int, decay: float = 1.1, base: float = 10000.0) -> None:
        super().__init__()
        if head_width % 2:
            raise ConfigError(
                "hyperbolic HoPE boosts channels in pairs: head_width must be even, got "
                f"{head_width}"
            )
        if not decay > 1:
            raise ConfigError(
                "decay must exceed 1, the fastest frequency, or scores grow with the distance; got "
                f"{decay}"
            )
        self.frequencies = Frequencies(head_width // 2, base)
        self.decay = decay

    def encode(self, a: Attention) -> Attention:
        dtype = torch.promote_types(a.q.dtype, torch.float32)
        q, k = (along(x.to(dtype)) for x in (a.q, a.k))
        rates, size = self.rates(a.q.device).tolist(), self.frequencies.magnitude**2 * a.scale

        def content(rows: slice) -> Tensor:
            # Not in bfloat16, whatever the precision of training: 2K products are added up.
            with torch.autocast(a.q.device.type, enabled=False):
                d = a.distance(rows).clamp(min=0).to(dtype)[:, None]
                pairs = zip(q[..., rows, :].unbind(-1), k.unbind(-1), rates, strict=True)
                terms = (x[..., None] * y[..., None, :] * (-rate * d).exp() for x, y, rate in pairs)
                return size * sum(terms, torch.zeros((), dtype=dtype, device=a.q.device))

        return replace(a, content=content)

    def rates(self, device: torch.device) -> Tensor:
        """The rates of the sums of all pairs, then of the differences, [2 count]."""
        slowed = self.frequencies.theta(device)
        plain = replace(self.frequencies, stretch=None).theta(device)
        whole = self.decay * slowed / plain  # divided by what divides theta
        return torch.cat((whole - slowed, whole + slowed))


def along(x: Tensor) -> Tensor:
    """Sums and differences of the two channels of each pair, over the root of 2."""
    one, other = halves(x)
    return torch.cat((one + other, one - other), -1) / 2**0.5
