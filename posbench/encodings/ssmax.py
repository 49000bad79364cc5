"""Scalable softmax: scores grow with the logarithm of the number of keys."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from posbench.base.errors import ConfigError
from posbench.core.attention import Attention, Plan
from posbench.core.encoding import PositionEncoding, Wrapper


class SSMax(Wrapper):
    r"""Scores grow with the logarithm of the number of keys, times a learned factor a head.

    $\tau_i = s_h (\ln n_i)^p$ with $n_i = i + 1$, the number of keys, and `power` p = 1:
    scalable softmax (arXiv 2501.19399).

    Without a bias the weights are $n_i^{s_h z_j} / \sum_k n_i^{s_h z_k}$: the largest score keeps
    its share however many keys there are, where a softmax fades. How fast scores have to grow for
    that depends on how they are spread, and p = 1/2, 1 and 2 are laws for three spreads (arXiv
    2605.12697). $s_h$ is learned in every head and layer and starts at $1/(\ln L)^p$ with L =
    `length`, so that scores start as they would be at the end of a sequence of L keys. Keys are
    counted by index, those that a mask of the host hides included. The first query has $\tau = 0$,
    which is harmless: it sees one key.

    A bias of the host is not multiplied (the paper's models have none): it goes on standing for the
    same distance at any length.
    """

    def __init__(
        self, host: PositionEncoding, num_heads: int, length: int, power: float = 1.0
    ) -> None:
        super().__init__(host)
        if length < 2:
            raise ConfigError(
                "length is a number of keys, at which the temperature starts at 1: at least 2, "
                f"got {length}"
            )
        if not power > 0:
            raise ConfigError(
                "power is that of the logarithm of the number of keys and must exceed 0, got "
                f"{power}"
            )
        self.power = power
        self.s = nn.Parameter(torch.full((num_heads,), 1 / math.log(length) ** power))

    def encode(self, a: Attention) -> Plan:
        count = torch.arange(1, a.num_queries + 1, dtype=self.s.dtype, device=a.q.device)
        return self.host.encode(a.heated(self.tau(count.log() ** self.power)[None, :, :, None]))

    def tau(self, growth: Tensor) -> Tensor:
        """The temperature, [heads, n], for the growth of the number of keys, [n]."""
        return self.s[:, None] * growth
