"""Extensions that switch the slowest frequencies off, smoothly or at once."""

from __future__ import annotations

import math

from posbench.errors import ConfigError
from posbench.extensions.unscaled import Unscaled
from posbench.frequencies import Frequencies


class ClippedRoPE(Unscaled):
    r"""$\theta'_m = \theta_m\,\tfrac12\bigl(1 + \cos\frac{\pi\,i}{n-1}\bigr)$ for the n slowest
    pairs, i = 0..n-1 from fast to slow: clipped RoPE ("CoPE", arXiv 2602.05258; not the contextual
    CoPE).

    The first of the n stays, the last is switched off, and the fall between is smooth, since a
    sharp edge rings over distance. n is `share` of all pairs, at least two. The authors' code has n
    = 20 of 64 at thousands of positions, where more than half of all pairs complete a turn; at a
    few dozen positions fewer do, and the share must grow. Published with further training, here
    without: the training length is changed as well.
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


class DropLowFrequencies(Unscaled):
    r"""$\theta'_m = 0$ for the slowest `share` of the pairs: the cut of p-RoPE (arXiv 2410.06205)
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


def share_of_pairs(share: float) -> float:
    if not 0 < share <= 1:
        raise ConfigError(
            "share is the part of the pairs, the slowest, that is cut: above 0 and at most 1, got "
            f"{share}"
        )
    return share
