"""DroPE: positions are dropped after training."""

from __future__ import annotations

import math

from posbench.base.errors import ConfigError
from posbench.core.encoding import PositionEncoding
from posbench.core.extension import Scaled
from posbench.extensions.temperature import Heated, constant


class Dropped(Scaled):
    r"""All positions are dropped after training with RoPE.

    No position at all, $z_{ij} = \tau\,c\,\langle q_i, k_j\rangle$ with $\tau = 1 +
    \text{growth} \cdot \ln s$ (DroPE, arXiv 2512.12167): what a NoPE model would compute with these
    weights.

    Published with a short training at the training length after it, a share of 0.005 to 0.02 of all
    steps, and for RoPE; legal on every encoding. The paper fits the temperature for each model at
    each length; `growth` is 0.1 here, the constant of YaRN, and 0 switches it off. s is `scale`, or
    left out (null) $\max(1, L'/L)$ for each length.

    The authors' code has two settings for every model: as it is, the row rope_drope, and with
    queries and keys normalised from the drop on, over all heads together. The row
    rope_qk_norm_drope normalises them from the first step of training on, head by head, so that no
    weight begins anew in so short a training.
    """

    is_identity = False

    def __init__(self, growth: float = 0.1, scale: float | None = None) -> None:
        super().__init__(scale)
        if not growth >= 0:
            raise ConfigError(
                f"growth of the temperature with the logarithm must not be negative, got {growth}"
            )
        self.growth = growth

    def apply(
        self, encoding: PositionEncoding, train_positions: int, test_positions: int
    ) -> PositionEncoding:
        factor = 1 + self.growth * math.log(self.scale_at(train_positions, test_positions))
        return Heated(PositionEncoding(), constant(factor))
