"""Scale-invariant attention: tens, hundreds, thousands of tokens back get like shares."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from posbench.base.errors import ConfigError
from posbench.core.attention import Attention, Plan
from posbench.core.encoding import PositionEncoding, Wrapper


class ScaleInvariant(Wrapper):
    r"""Scores are scaled and shifted with the logarithm of the distance, so that all length scales
    weigh alike.

    $z'_{ij} = A(d)\, z_{ij} + M(d)$ with d = i - j, $A(d)^2 = 1 + 2\ln(1 + d/\tau_0)$ and
    $M(d) = -2\ln(1 + d/\tau_0)$ (arXiv 2505.17083).

    z is the scaled content score of the host. Were it standard normal, $E\,e^{z'} = \sqrt e\,/\,(1
    + d/\tau_0)$: all keys from d to c d get the same total whatever d, and beyond the training
    length none of it is crowded out. A grows with distance, so that among many far keys single ones
    can stand out. No parameters; `tau` $\tau_0$ is the distance up to which keys count as near, 10
    tokens of 4,096 as published. A later key counts as distance 0.

    The paper wraps p-RoPE, that is RoPE without its slowest frequencies; here any host, RoPE unless
    another is chosen. A bias of the host is added after A, untouched.
    """

    def __init__(self, host: PositionEncoding, tau: float = 10.0) -> None:
        super().__init__(host)
        if not tau > 0:
            raise ConfigError(
                f"tau is the distance up to which keys are near and must exceed 0, got {tau}"
            )
        self.near = tau
        self.handles = host.handles | {"distance", "positions"}

    def encode(self, a: Attention) -> Plan:
        return self.host.encode(a).each(lambda part, _: self._spread(part))

    def _spread(self, a: Attention) -> Attention:
        dtype = torch.promote_types(a.q.dtype, torch.float32)

        def octaves(rows: slice) -> Tensor:
            """2 ln(1 + d / tau), [batch|1, 1, rows, keys]."""
            return 2 * torch.log1p(a.distance(rows).clamp(min=0).to(dtype) / self.near)[:, None]

        def content(rows: slice) -> Tensor:
            # Not in bfloat16, whatever the precision of training: A multiplies the error, threefold
            # at 1,000 tokens.
            with torch.autocast(a.q.device.type, enabled=False):
                q, k = (t.to(dtype) for t in (a.q[..., rows, :], a.k))
                z = a.content(rows) if a.content is not None else a.scale * (q @ k.mT)
                return (1 + octaves(rows)).sqrt() * z

        return replace(a, content=content).plus(lambda rows: -octaves(rows))
