"""YaRN: NTK-by-parts with a temperature."""

from __future__ import annotations

import math

from posbench.errors import ConfigError
from posbench.extension import FrequencyExtension
from posbench.frequencies import Frequencies


class YaRN(FrequencyExtension):
    r"""NTK-by-parts with a temperature (arXiv 2309.00071): $1/\lambda_m = g_m + (1 - g_m)/s$ and
    cos, sin times $a = 0.1\ln s + 1$, so that logits grow by $a^2$.

    $g_m$ keeps pairs that turn more than `beta_fast` times in training and interpolates those that
    turn less than `beta_slow` times. The ramp between is linear in m, from $\lfloor m(\beta_{fast})
    \rfloor$ to $\lceil m(\beta_{slow}) \rceil$ with $m(n) = K \ln(L / 2\pi n)/\ln b$, both kept
    within the indices of a head's 2K channels: this is the form of the authors' code and of
    transformers, not the ramp in turns of the paper, from which middle frequencies differ by up to
    a factor of 3. Where L is so short that even the fastest pair turns less than `beta_slow` times,
    that pair alone is kept (transformers' ramp turns round there). The published `beta_fast` of 32
    was tuned at L = 2048 to 4096: below L = 201 not one pair turns that often, so it must shrink
    with L. The default is the power of the turns of the fastest pair that gives 32 at 4,096.
    """

    def __init__(
        self, beta_fast: float = 32.0, beta_slow: float = 1.0, scale: float | None = None
    ) -> None:
        super().__init__(scale)
        if not beta_fast > beta_slow > 0:
            raise ConfigError(
                f"needs beta_fast > beta_slow > 0 turns, got {beta_fast} and {beta_slow}"
            )
        self.beta_fast = beta_fast
        self.beta_slow = beta_slow

    def stretch(
        self, frequencies: Frequencies, train_positions: int, scale: float
    ) -> tuple[float, ...]:
        count, base = frequencies.count, frequencies.base

        def index(turns: float) -> float:
            """Where, on the continuous index m, a pair makes that many turns in training."""
            return count * math.log(train_positions / (2 * math.pi * turns)) / math.log(base)

        low = max(math.floor(index(self.beta_fast)), 0)
        high = min(math.ceil(index(self.beta_slow)), 2 * count - 1)
        width = max(high - low, 0.001)
        keep = (1 - min(max((m - low) / width, 0.0), 1.0) for m in range(count))
        return tuple(1 / (g + (1 - g) / scale) for g in keep)

    def magnitude(self, train_positions: int, scale: float) -> float:
        return 0.1 * math.log(scale) + 1
