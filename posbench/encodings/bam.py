"""BAM: the prior over the distance is a generalised Gaussian, whose width and shape are learned."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from posbench.base.errors import ConfigError
from posbench.core.attention import Attention
from posbench.core.encoding import PositionEncoding

SMALLEST = 1e-5
"""Added to every distance, so that a power below 0 of distance 0 is a number."""


class BAM(PositionEncoding):
    r"""A bias falls with a learned power of the distance, as a generalised Gaussian prior over keys
    does.

    $B_{ij} = -e^{a_h}\,(|i - j| + \varepsilon)^{\beta_h}$ with $\varepsilon = 10^{-5}$, added
    after the scale: the logarithm of a generalised Gaussian prior over the key's place (Bayesian
    attention mechanism, arXiv 2505.22842v3 and its code).

    $a_h$ and $\beta_h$ are learned in every head and layer, and both start at 0: $B = -1$
    everywhere, which is NoPE. So they do by default in the code that commit fe908cc7 describes;
    that of May 2025 (5a6579d) starts as ALiBi, with $\beta = 1$ and its slopes. $\beta = 1$ is
    ALiBi with the slope $e^a$ (a Laplace prior),
    $\beta = 2$ a Gaussian one. Nothing bounds $\beta$: below 0 a head looks away from what is near,
    and least of all at itself. The centre of the prior, which the code can learn as well, is the
    query, as published.

    Beyond the training length nothing is undefined: with $0 < \beta < 1$ a weight falls ever more
    slowly, with $\beta < 0$ not at all in the end. A later key has its distance, as in the code;
    causality hides it. KERPLE's power is the same formula with $0.01 \le \beta \le 2$, another
    start and one pair of numbers for all layers. The paper's scale, $\alpha = e^{-a/\beta}$, is
    inside the power; in its code, which is followed here, outside. Its claims of 500 times the
    training length are made with scalable softmax of content and prior, which is the row
    `bam_ssmax`.
    """

    handles = PositionEncoding.handles | {"distance", "positions"}

    def __init__(self, num_heads: int) -> None:
        super().__init__()
        if num_heads < 1:
            raise ConfigError(
                f"a prior is learned for each head: there must be one, got {num_heads}"
            )
        self.log_scale = nn.Parameter(torch.zeros(num_heads))
        self.shape = nn.Parameter(torch.zeros(num_heads))

    def encode(self, a: Attention) -> Attention:
        def term(rows: slice) -> Tensor:
            d = a.distance(rows).abs().to(self.shape.dtype)[:, None] + SMALLEST
            scale, shape = self.log_scale.exp()[:, None, None], self.shape[:, None, None]
            return -scale * d**shape  # [batch|1, heads, rows, keys]

        return a.plus(term)
