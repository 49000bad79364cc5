"""ALiBi whose slopes are trained."""

from __future__ import annotations

import torch
from torch import nn

from posbench.core.attention import Attention
from posbench.core.encoding import PositionEncoding
from posbench.encodings.alibi import alibi_slopes


class LearnedALiBi(PositionEncoding):
    r"""ALiBi with a learned slope for each head and layer.

    $B_{ij} = -e^{s_h}\,(i - j)$, added after the scale: ALiBi with a learned slope for each
    head and layer (considered and dropped in arXiv 2108.12409, section 3; the case $r_2 = 1$ of
    KERPLE's power, arXiv 2205.09921).

    $s_h$ starts at the logarithm of ALiBi's slope of the same `steepness`. Learning the logarithm
    keeps slopes positive, and a step changes a slope by a share of itself, whether it is 1/2 or
    1/256. Beyond the training length nothing is undefined, but a slope that training made small
    leaves a window of $e^{-s_h}$ tokens that may be longer than any sequence trained on. Exact in
    two extra channels, as ALiBi.
    """

    handles = PositionEncoding.handles | {"distance", "positions"}

    def __init__(self, num_heads: int, steepness: float = 8.0) -> None:
        super().__init__()
        self.log_slopes = nn.Parameter(torch.tensor(alibi_slopes(num_heads, steepness)).log())

    def encode(self, a: Attention) -> Attention:
        slopes = self.log_slopes.exp()[:, None]
        # Only differences matter, so count from the middle: large products lose the small
        # differences.
        middle = a.k_pos[:, a.k_pos.shape[1] // 2, None]
        i, j = ((pos - middle).to(slopes.dtype)[:, None, :] for pos in (a.q_pos, a.k_pos))
        one = torch.ones_like(slopes * i)
        return a.factored(torch.stack((-slopes * i, one), -1), torch.stack((one, slopes * j), -1))
