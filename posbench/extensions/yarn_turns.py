"""YaRN with a ramp in turns, as its paper has it."""

from __future__ import annotations

from posbench.core.frequencies import Frequencies
from posbench.extensions.turns import turns
from posbench.extensions.yarn import YaRN


class YaRNTurns(YaRN):
    r"""YaRN as its paper writes it: the mix of fast and slow is linear in turns, not in the index.

    $1/\lambda_m = g_m + (1 - g_m)/s$ with $g_m = \mathrm{clip}\bigl(\frac{r_m -
    \beta_{slow}}{\beta_{fast} - \beta_{slow}}, 0, 1\bigr)$, and cos, sin times $0.1\ln s + 1$: YaRN
    as its paper writes it (arXiv 2309.00071).

    The ramp is linear in turns, where that of the authors' code (`YaRN`) is linear in the index.
    Turns fall geometrically with m, so here the middle pairs are interpolated more. The published
    `beta_fast` of 32 must shrink with L, as in `YaRN`.
    """

    def __init__(
        self, beta_fast: float = 32.0, beta_slow: float = 1.0, scale: float | None = None
    ) -> None:
        super().__init__(beta_fast, beta_slow, scale)

    def stretch(
        self, frequencies: Frequencies, train_positions: int, scale: float
    ) -> tuple[float, ...]:
        ramp = (
            (r - self.beta_slow) / (self.beta_fast - self.beta_slow)
            for r in turns(frequencies, train_positions)
        )
        keep = (min(max(g, 0.0), 1.0) for g in ramp)
        return tuple(1 / (g + (1 - g) / scale) for g in keep)
