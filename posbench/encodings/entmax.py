"""Entmax: weights that are exactly zero for all keys but the best."""

from __future__ import annotations

import torch
from torch import Tensor

from posbench.attention import Attention, Plan
from posbench.encoding import Wrapper
from posbench.encodings.sink import normalised

STEPS = 12
"""Of Newton's method: twice as many as any of 20,000 rows of up to 16,384 scores needed."""


class Entmax(Wrapper):
    r"""$w_{ij} = \left[z_{ij}/2 - \tau_i\right]_+^2$ with $\tau_i$ such that $\sum_j w_{ij} = 1$:
    1.5-entmax instead of the softmax (arXiv 1905.05702; for attention at length arXiv 2506.16640).
    No parameters.

    A key that scores 2 or more below the best has weight 0, whatever there is besides, and
    the threshold rises with the number of good keys: weak keys lose all of their weight before a
    strong one loses any share worth naming. Beyond the training length more keys therefore do not
    flatten the weights, as they do a softmax's, as long as what is added scores badly. The host
    must end in a softmax, which this replaces; biases of the host are part of z. The default host
    is the paper's, NAPE. The gradient is exact: 0 where the weight is.
    """

    def encode(self, a: Attention) -> Plan:
        return self.host.encode(a).each(lambda part, _: normalised(part, entmax))


def entmax(logits: Tensor, allowed: Tensor) -> Tensor:
    r"""The normaliser.

    $h(\tau) = \lVert [z/2 - \tau]_+ \rVert$ is convex and falls, so Newton's method for $h = 1$
    climbs from any lower bound without overshooting: max z/2 - 1 is one. The last step keeps
    gradients, and where $h = 1$ its derivative is the threshold's, $\sum_j \sqrt{w_j}\,dz_j / (2
    \sum_j \sqrt{w_j})$.
    """
    dtype = torch.promote_types(logits.dtype, torch.float32)
    half = (logits.to(dtype) / 2).masked_fill(~allowed, -torch.inf)
    half = half - half.detach().amax(-1, keepdim=True)
    with torch.no_grad():
        threshold = torch.full_like(half[..., :1], -1.0)
        for _ in range(STEPS):
            threshold = newton(half, threshold)
    return (half - newton(half, threshold)).clamp(min=0).square()


def newton(half: Tensor, threshold: Tensor) -> Tensor:
    above = (half - threshold).clamp(min=0)
    norm = above.square().sum(-1, keepdim=True).sqrt()
    return threshold + norm * (norm - 1) / above.sum(-1, keepdim=True)
