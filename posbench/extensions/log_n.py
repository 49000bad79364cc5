"""Log-n scaling: scores grow with the logarithm of the number of keys."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from posbench.base.errors import ConfigError
from posbench.core.attention import Attention
from posbench.extensions.temperature import Temperature


class LogN(Temperature):
    r"""Scores grow with the logarithm of the number of keys, from the training length on.

    $\tau_i = \max\bigl(1, \frac{\ln(i+1)}{\ln L}\bigr)^p$ for the query that sees i + 1 keys,
    with `power` p = 1 (log-n scaling: J. Su, kexue.fm/archives/8823; arXiv 2202.12172).

    The entropy of a softmax over n keys grows like $\ln n$; this holds it near what it was at L
    keys. Keys are counted by index, those that a mask hides included. `length` L is the positions
    seen in training unless it is set; where positions are drawn from a range that training has
    filled, it is that range, and a test that stays within changes nothing. A bias is not
    multiplied.

    Entropy grows so where scores are spread evenly. For other spreads laws from $(\ln n)^{1/2}$ to
    $(\ln n)^2$ have been proposed, p of 1/2 and 2, and which is right depends on how many scores
    lie near the largest (arXiv 2605.12697).

    The maximum is what makes the method one for trained models. Without it every query before L is
    flattened, the first to $\tau = 0$, in a way that training has not shown: $\ln(i+1)/\ln L$ must
    be trained with, and the encoding `ssmax` does, starting from just that.
    """

    def __init__(self, length: int | None = None, power: float = 1.0) -> None:
        super().__init__(length)
        if not power > 0:
            raise ConfigError(
                "power is that of the ratio of logarithms and must exceed 0, as it grows; got "
                f"{power}"
            )
        self.power = power

    def tau(self, a: Attention, length: int) -> Tensor:
        dtype = torch.promote_types(a.q.dtype, torch.float32)
        count = torch.arange(1, a.num_queries + 1, dtype=dtype, device=a.q.device)
        return (count.log() / math.log(length)).clamp(min=1)[None] ** self.power
