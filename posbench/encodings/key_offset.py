"""Partial key offset: the channels without a rotation hold the key of the token before."""

from __future__ import annotations

from dataclasses import replace

import torch

from posbench.core.attention import Attention
from posbench.encodings.partial_rope import PartialRoPE


class KeyOffset(PartialRoPE):
    r"""Partial RoPE whose unrotated channels match the key of the token before.

    RoPE on the first $r = \rho d_h$ channels of a head, and the key of the token before on the
    rest: $z_{ij} = c\,\bigl(\mathrm{Re}\sum_{m<r/2} q_{i,m}\,\overline{k_{j,m}}\;
    e^{\,\mathrm{i}(i-j)\theta_m} + \sum_{c \ge r} q_{i,c}\,k_{\max(j-1,0),c}\bigr)$ with
    $\theta_m = b^{-2m/r}$ (modded-nanogpt on GitHub, its pull request 169; no paper).

    A query that matches a token so attends to the one after it: an induction head takes one layer
    in place of two. It has no parameters, and costs one more key in a cache. Tokens are counted by
    index, whatever their positions, and the first keeps its own key. There $\rho$ (`share`) is 1/2,
    b = 1,024 for 2,048 positions or more, and long windows alone have it; which channels turn makes
    no difference to a model that is trained so. Beyond the training length the rotated channels do
    as in `PartialRoPE`, and the token before is as near at any length.
    """

    counts_tokens = True

    def __init__(self, head_width: int, share: float = 0.5, base: float = 10000.0) -> None:
        super().__init__(head_width, share, base)

    def encode(self, a: Attention) -> Attention:
        r = 2 * self.frequencies.count
        before = torch.cat((a.k[..., :1, r:], a.k[..., :-1, r:]), -2)
        return super().encode(replace(a, k=torch.cat((a.k[..., :r], before), -1)))
