"""Stick-breaking: weights are shares of what nearer keys have left."""

from __future__ import annotations

from dataclasses import replace

import torch
import torch.nn.functional as F
from torch import Tensor

from posbench.core.attention import Attention
from posbench.core.encoding import PositionEncoding


class StickBreaking(PositionEncoding):
    r"""Each query goes back from key to key, and each key takes a share of what is left.

    $w_{ij} = \sigma(z_{ij}) \prod_{j < s < i} \left(1 - \sigma(z_{is})\right)$ for $j < i$, and
    what is left, $w_{ii} = \prod_{s < i} \left(1 - \sigma(z_{is})\right)$, goes to the query's own
    value: stick-breaking attention instead of the softmax (arXiv 2410.17980). No parameters, and
    token positions are not used.

    Going back from the query, each key takes its share of what the nearer ones have left, so of two
    equally good keys the nearer wins, at any distance and any length. A key's weight does not
    depend on those further away, so longer sequences change nothing where the stick is used up
    before. Weights sum to one. The query's own score $z_{ii}$ has no effect. The authors' kernel
    returns the remainder apart, and their tests add it to the query's own value, as here. Computed
    in logarithms, $\ln \sigma(z) = -\ln(1 + e^{-z})$, in float32 or better.
    """

    def encode(self, a: Attention) -> Attention:
        return replace(a, normalise=break_stick)


def break_stick(logits: Tensor, allowed: Tensor) -> Tensor:
    """The normaliser: the last allowed key of a row is the query itself."""
    logits = logits.to(torch.promote_types(logits.dtype, torch.float32))
    own = allowed & (allowed.flip(-1).cumsum(-1).flip(-1) == 1)
    before = allowed & ~own
    kept = torch.where(before, -F.softplus(logits), 0.0)  # what a key leaves to those further away
    nearer = F.pad(kept[..., 1:], (0, 1)).flip(-1).cumsum(-1).flip(-1)
    taken = torch.where(before, (F.logsigmoid(logits) + nearer).exp(), 0.0)
    return torch.where(own, kept.sum(-1, keepdim=True).exp(), taken)
