"""Clipped RoPE: the slowest frequencies fade out smoothly."""

from __future__ import annotations

import math

from posbench.core.frequencies import Frequencies
from posbench.extensions.share_of_pairs import share_of_pairs
from posbench.extensions.unscaled import Unscaled


class ClippedRoPE(Unscaled):
    r"""The slowest frequencies fade to zero along half a cosine.

    $\theta'_m = \theta_m\,\tfrac12\bigl(1 + \cos\frac{\pi\,i}{n-1}\bigr)$ for the n slowest
    pairs, i = 0..n-1 from fast to slow: clipped RoPE ("CoPE", arXiv 2602.05258; not the contextual
    CoPE).

    The first of the n stays, the last is switched off, and the fall between is smooth, since a
    sharp edge rings over distance. n is `share` of all pairs, at least two. The authors' code has n
    = 20 of 64 at thousands of positions, where more than half of all pairs complete a turn. With
    the base of 10,000 at a few dozen positions fewer do, and more pairs than those clipped reach
    angles never seen; a base as short as the training has none of this. Published with further
    training, here without: the training length is changed as well.
    """

    def __init__(self, share: float = 0.3125) -> None:
        super().__init__()
        self.share = share_of_pairs(share)

    def unscaled(self, frequencies: Frequencies, train_positions: int) -> tuple[float, ...]:
        n = max(2, round(self.share * frequencies.count))
        kept = [
            0.5 * (1 - math.cos(math.pi * back / (n - 1))) for back in range(n)
        ]  # from the slowest on
        stretch = [1 / part if part else math.inf for part in kept] + [1.0] * frequencies.count
        return tuple(reversed(stretch[: frequencies.count]))
