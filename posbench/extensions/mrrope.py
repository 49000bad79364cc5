"""A position as a number whose digits are angles: another radix for the middle digits only."""

from __future__ import annotations

import math
from abc import abstractmethod

from posbench.base.errors import ConfigError
from posbench.core.extension import FrequencyExtension
from posbench.core.frequencies import Frequencies
from posbench.extensions.turns import turns


class MrRoPE(FrequencyExtension):
    r"""$\lambda_m = s^{e(t_m)}$ with $t_m = \mathrm{clip}(m - l, 0, n)$, $n = h - l$, $e(0) = 0$
    and $e(n) = 1$, and cos, sin times $0.1\ln s + 1$ (MrRoPE, arXiv 2601.22181).

    l is the last pair with `beta_fast` turns in training or more (the first pair, if there is
    none), h the first with `beta_slow` or fewer (one past the last, if there is none): pairs up to
    l extrapolate, those from h on are interpolated by s. The published 32 and 1 are those of YaRN
    and must shrink with L like them. Turns are counted with the frequencies in use; the authors'
    code finds the same l and h from logarithms, and where none turns `beta_slow` times or fewer it
    continues the grid beyond the last pair.
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

    @abstractmethod
    def exponent(self, t: int, n: int) -> float:
        """e(t), the part of ln s that the pairs up to the t-th of n middle ones have taken."""

    def stretch(
        self, frequencies: Frequencies, train_positions: int, scale: float
    ) -> tuple[float, ...]:
        found = turns(frequencies, train_positions)
        low = max((m for m, r in enumerate(found) if r >= self.beta_fast), default=0)
        high = min((m for m, r in enumerate(found) if r <= self.beta_slow), default=len(found))
        n = max(
            high - low, 1
        )  # if not even the first pair turns beta_slow times, it alone is kept, as in YaRN
        return tuple(scale ** self.exponent(min(max(m - low, 0), n), n) for m in range(len(found)))

    def magnitude(self, train_positions: int, scale: float) -> float:
        return 0.1 * math.log(scale) + 1
