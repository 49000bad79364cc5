"""Giraffe's power basis: slow frequencies are stretched by a power of the index."""

from __future__ import annotations

from posbench.base.errors import ConfigError
from posbench.core.frequencies import Frequencies
from posbench.extensions.unscaled import Unscaled


class GiraffePower(Unscaled):
    r"""Frequencies shrink by a power that leaves the fastest pairs almost alone.

    $\lambda_m = (1 - m/K)^{-k}$, that is $\theta'_m = \theta_m (1 - 2m/d)^k$: the power basis
    of Giraffe (arXiv 2308.10882).

    The fastest pair stays, the slowest is stretched by $K^k$. k is `power`; the published code has
    it off, and no default. Published with fine-tuning, here without: the training length is changed
    as well.
    """

    def __init__(self, power: float = 0.5) -> None:
        super().__init__()
        if not power > 0:
            raise ConfigError(f"power must exceed 0, so that slow pairs are stretched, got {power}")
        self.power = power

    def unscaled(self, frequencies: Frequencies, train_positions: int) -> tuple[float, ...]:
        return tuple((1 - m / frequencies.count) ** -self.power for m in range(frequencies.count))
