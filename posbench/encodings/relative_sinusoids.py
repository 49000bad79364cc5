"""Sinusoids of the distance, looked at by the query: an exact product in extra channels."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor, nn

from posbench.base.errors import ConfigError
from posbench.core.attention import Attention
from posbench.core.frequencies import Frequencies


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
