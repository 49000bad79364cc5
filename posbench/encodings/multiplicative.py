"""Learned factors, one a position and channel, on the token embeddings."""

from __future__ import annotations

import torch.nn.functional as F
from torch import Tensor

from posbench.encodings.learned import Learned


class Multiplicative(Learned):
    r"""Every position has a learned row, by which the embedding is multiplied.

    A learned factor a position and channel: $x_i \leftarrow x_i \odot (1 + P_i)$ (the
    multiplicative form in J. Su's survey of encodings, kexue.fm/archives/8130).

    The survey writes $x_i \odot p_i$. With $p_i = 1 + P_i$ and $P \sim N(0, \sigma^2)$ the same
    family starts near the token itself, and weight decay pulls towards no position instead of
    towards no token. Beyond the training length as `Learned`.
    """

    def embed(self, x: Tensor, pos: Tensor) -> Tensor:
        return x * (1 + F.embedding(pos, self.table))
