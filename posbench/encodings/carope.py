"""CARoPE: the first frequency of a head is read from each token, the others are its powers."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from posbench.base.errors import ConfigError
from posbench.core.frequencies import Frequencies
from posbench.encodings.accumulated_angles import AccumulatedAngles


class CARoPE(AccumulatedAngles):
    r"""RoPE whose frequencies are computed from the tokens in every head.

    $z_{ij} = c\,\mathrm{Re}\sum_m
    q_{i,m}\,\overline{k_{j,m}}\;e^{\,\mathrm{i}\,(\alpha_{i,m}-\alpha_{j,m})}$ with $\alpha_{i,m} =
    p_0\,\theta_m + \sum_{1 \le s \le i} f_s^m\,(p_s - p_{s-1})$ and $f =
    \frac{1}{1 + \mathrm{softplus}(w_h^\top x + b_h)}$, for every head (context-aware RoPE, arXiv
    2507.23083).

    RoPE's angles are $p\,\theta_1^m$ with $\theta_1 = b^{-2/d_h}$; here a number between 0 and 1
    that each token gives takes the place of $\theta_1$. x is the normalised input of the layer; in
    the paper it is the embedding of the token. Counted from m = 0, the fastest pair turns by 1
    radian a token whatever the tokens. $w_h$ starts at 0 and $b_h$ so that $f = \theta_1$: training
    begins with RoPE, as published. $b_h$ is added here for that; the paper does not say how it
    begins so. It counts every token as one position.

    A frequency extension that divides $\theta_m$ divides the turns of pair m by as much. Beyond the
    training length sums grow as positions do, and slow pairs reach angles never seen.
    """

    def __init__(
        self, num_heads: int, head_width: int, model_width: int, base: float = 10000.0
    ) -> None:
        super().__init__()
        if num_heads < 1:
            raise ConfigError(
                f"each head has a frequency of its own: there must be at least one, got {num_heads}"
            )
        if head_width % 2:
            raise ConfigError(
                f"CARoPE turns channels in pairs: head_width must be even, got {head_width}"
            )
        self.frequencies = Frequencies(head_width // 2, base)
        self.gate = nn.Linear(model_width, num_heads)
        nn.init.zeros_(self.gate.weight)
        slower = math.exp(self.log_inverse) - 1  # softplus(b) must be this
        nn.init.constant_(self.gate.bias, slower + math.log(-math.expm1(-slower)))

    @property
    def log_inverse(self) -> float:
        """The logarithm of 1 / theta_1, before any extension."""
        return math.log(self.frequencies.base) / self.frequencies.count

    def steps(self, x: Tensor) -> Tensor:
        """(f / theta_1)^m, what pair m turns by in positions of RoPE."""
        # Not in bfloat16, whatever the precision of training: errors of steps add up along the
        # sequence.
        with torch.autocast(x.device.type, enabled=False):
            x = x.to(torch.promote_types(x.dtype, self.gate.weight.dtype))
            ratio = self.log_inverse - torch.log1p(F.softplus(self.gate(x).mT))
            m = torch.arange(self.frequencies.count, dtype=x.dtype, device=x.device)
            return (ratio[..., None] * m).exp()
