"""A short convolution of queries, keys and values."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class ShortConv(nn.Module):
    r"""$y_{t,c} = x_{t,c} + \sum_{s=0}^{K-1} w_{c,s}\, x_{t-s,c}$ for every channel c of the
    projected q, k and v, before they are split into heads: a causal depthwise convolution over K
    tokens, its own included (the Canon layer "B" of arXiv 2512.17351, K = 4; Inkling in
    transformers has it on k and v).

    Before the first token there is nothing. w [channels, K] is learned in each layer and starts
    with standard deviation $1/\sqrt{K}$. A layer can so compare a token with its predecessors
    without a head spent on it, which is position of a kind: an induction head needs one layer
    instead of two. Models of linear attention (DeltaNet, arXiv 2406.06484) have the same without
    the first term and with a SiLU; the Forgetting Transformer mixes two tokens by a gate instead.
    """

    def __init__(self, channels: int, kernel: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(channels, kernel))

    def forward(self, x: Tensor) -> Tensor:
        """`x` is [batch, n, channels]."""
        n = x.shape[1]
        earlier = F.pad(x, (0, 0, self.weight.shape[1] - 1, 0))  # a sum of shifted copies
        for back, weight in enumerate(self.weight.mT):
            start = self.weight.shape[1] - 1 - back
            x = x + weight.to(x.dtype) * earlier[:, start : start + n]
        return x
