"""Entmax: weights that are exactly zero for all keys but the best."""

from __future__ import annotations

import torch
from torch import Tensor

from posbench.core.attention import Attention, Plan
from posbench.core.encoding import Wrapper
from posbench.encodings.sink import normalised

STEPS = 12
"""Steps of Newton's method: rows of 1 to 16,384 scores in seven shapes needed at most 9."""


class Entmax(Wrapper):
    r"""1.5-entmax in place of the softmax: most keys get a weight of exactly zero.

    $w_{ij} = \left[z_{ij}/2 - \tau_i\right]_+^2$ with $\tau_i$ such that $\sum_j w_{ij} = 1$:
    1.5-entmax instead of the softmax (arXiv 1905.05702; for attention at length arXiv 2506.16640).
    No parameters.

    A key that scores 2 or more below the best has weight 0, and the threshold rises with the number
    of good keys. Beyond the training length further keys therefore take nothing away where they
    score badly enough, whereas each takes its share of a softmax. A key without weight gets no
    gradient either. The host must end in a softmax, which this replaces; its biases are part of z.
    The default host is the paper's, NAPE.
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
