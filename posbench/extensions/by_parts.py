"""NTK-by-parts: what turns often is kept, what hardly turns is interpolated."""

from __future__ import annotations

from posbench.base.errors import ConfigError
from posbench.core.extension import FrequencyExtension
from posbench.core.frequencies import Frequencies
from posbench.extensions.yarn import YaRN
from posbench.extensions.yarn_turns import YaRNTurns

RAMPS: dict[str, type[YaRN]] = {"index": YaRN, "turns": YaRNTurns}


class ByParts(FrequencyExtension):
    r"""Slow pairs are interpolated, fast ones stay, and those between are mixed: YaRN without its
    temperature.

    $1/\lambda_m = g_m + (1 - g_m)/s$: NTK-by-parts, which is YaRN without its temperature
    (bloc97, 2023; arXiv 2309.00071, section 3.2).

    `ramp` is "index", the form of YaRN's code, or "turns", that of its paper: see `YaRN` and
    `YaRNTurns`. At the training length s = 1 and nothing changes; beyond it, pairs of at least
    `beta_fast` turns extrapolate, pairs of at most `beta_slow` turns see no new angle. Published
    with 32 and 1, for thousands of positions.
    """

    def __init__(
        self,
        beta_fast: float = 32.0,
        beta_slow: float = 1.0,
        ramp: str = "index",
        scale: float | None = None,
    ) -> None:
        super().__init__(scale)
        if ramp not in RAMPS:
            raise ConfigError(f"ramp must be one of {', '.join(RAMPS)}, got {ramp!r}")
        self.parts = RAMPS[ramp](beta_fast, beta_slow)

    def stretch(
        self, frequencies: Frequencies, train_positions: int, scale: float
    ) -> tuple[float, ...]:
        return self.parts.stretch(frequencies, train_positions, scale)
