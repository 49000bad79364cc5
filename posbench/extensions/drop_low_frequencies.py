"""The slowest frequencies switched off at once."""

from __future__ import annotations

import math

from posbench.core.frequencies import Frequencies
from posbench.extensions.share_of_pairs import share_of_pairs
from posbench.extensions.unscaled import Unscaled


class DropLowFrequencies(Unscaled):
    r"""A share of the pairs, the slowest, stop turning after training.

    $\theta'_m = 0$ for the slowest `share` of the pairs: the cut of p-RoPE (arXiv 2410.06205)
    made after training, which the paper of clipped RoPE calls hard clipping (arXiv 2602.05258).

    These pairs pass the fewest angles in training and the most new ones beyond it; switched off,
    they carry content alone. p-RoPE trains without them, at best without a quarter; here they were
    trained, and the training length is changed as well. At least one pair is dropped; with a share
    of 1 no position is left.
    """

    def __init__(self, share: float = 0.25) -> None:
        super().__init__()
        self.share = share_of_pairs(share)

    def unscaled(self, frequencies: Frequencies, train_positions: int) -> tuple[float, ...]:
        dropped = max(1, round(self.share * frequencies.count))
        return (1.0,) * (frequencies.count - dropped) + (math.inf,) * dropped
