"""Scalable softmax: scores grow with the logarithm of the number of keys."""

from __future__ import annotations

import math

import torch
from torch import nn

from posbench.attention import Attention, Plan
from posbench.encoding import PositionEncoding, Wrapper
from posbench.errors import ConfigError


class SSMax(Wrapper):
    r"""$\tau_i = s_h \ln n_i$ with $n_i = i + 1$, the number of keys: scalable softmax (arXiv
    2501.19399).

    Without a bias the weights are $n_i^{s_h z_j} / \sum_k n_i^{s_h z_k}$: the largest score keeps
    its share however many keys there are, where a softmax fades. $s_h$ is learned in every head and
    layer and starts at $1/\ln L$ with L = `length`, so that scores start as they would be at the
    end of a sequence of L keys. Keys are counted by index, those that a mask of the host hides
    included. The first query has $\tau = 0$, which is harmless: it sees one key.

    A bias of the host is not multiplied (the paper's models have none): it goes on standing for the
    same distance at any length.
    """

    def __init__(self, host: PositionEncoding, num_heads: int, length: int) -> None:
        super().__init__(host)
        if length < 2:
            raise ConfigError(
                "length is a number of keys, at which the temperature starts at 1: at least 2, "
                f"got {length}"
            )
        self.s = nn.Parameter(torch.full((num_heads,), 1 / math.log(length)))

    def encode(self, a: Attention) -> Plan:
        count = torch.arange(1, a.num_queries + 1, dtype=self.s.dtype, device=a.q.device)
        return self.host.encode(a.heated((self.s[:, None] * count.log())[None, :, :, None]))
