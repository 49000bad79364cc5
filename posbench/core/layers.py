"""What a layer of the transformer may have beside its encoding; a method may choose it."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class OutputGate(nn.Module):
    r"""$o_i \leftarrow o_i \odot \sigma(W_g\, x_i)$, channel by channel of every head, before the
    projection $W_o$ (gated attention, arXiv 2505.06708, its position G1; Qwen3-Next).

    $x_i$ is the normalised input of the layer at the query, so a query can refuse all that it has
    seen: the weights of a softmax, which sum to 1, then need no token to rest on. $W_g$ [heads
    times head width, model width] is learned in each layer, without a bias.
    """

    def __init__(self, width: int, channels: int) -> None:
        super().__init__()
        self.gate = nn.Linear(width, channels, bias=False)

    def forward(self, attended: Tensor, x: Tensor) -> Tensor:
        """`attended` is [batch, n, heads * head width], `x` [batch, n, width]."""
        return attended * self.gate(x).sigmoid()


# -- QK-norm ---------------------------------------------------------------------------------------


class QKNorm(nn.Module):
    r"""$q \leftarrow g^q \odot q\,/\sqrt{\overline{q^2} + \epsilon}$ and the same of k with $g^k$,
    in every head by itself and before the encoding, which turns what was normalised.

    $g^q$ and $g^k$ [head width] are learned in each layer, start at 1 and are those of all heads:
    the form of Qwen 3 (arXiv 2505.09388) and Gemma 3, $\epsilon = 10^{-6}$. OLMo 2 and 3 take the
    mean over all heads together. Scores cannot grow without the scales growing.
    """

    def __init__(self, head_width: int) -> None:
        super().__init__()
        self.q = nn.RMSNorm(head_width, eps=1e-6)
        self.k = nn.RMSNorm(head_width, eps=1e-6)

    def forward(self, q: Tensor, k: Tensor) -> tuple[Tensor, Tensor]:
        # In float32 whatever the precision of training, as in transformers.
        exact = self.q.weight.dtype
        return self.q(q.to(exact)).to(q.dtype), self.k(k.to(exact)).to(k.dtype)


# -- A short convolution of queries, keys and values -----------------------------------------------


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
