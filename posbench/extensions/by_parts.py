r"""Extensions that keep pairs which turn often in training, and interpolate those which hardly
turn.

$r_m = L\,\theta_m / 2\pi$ is how often pair m turns in the L positions of training.
"""

from __future__ import annotations

import math

from posbench.errors import ConfigError
from posbench.extension import FrequencyExtension
from posbench.extensions.frequency import YaRN
from posbench.frequencies import Frequencies


def turns(frequencies: Frequencies, train_positions: int) -> list[float]:
    """How often each pair turns in training, with the frequencies as they are in use."""
    return [train_positions * theta / (2 * math.pi) for theta in frequencies.theta().tolist()]


class YaRNTurns(YaRN):
    r"""$1/\lambda_m = g_m + (1 - g_m)/s$ with $g_m = \mathrm{clip}\bigl(\frac{r_m -
    \beta_{slow}}{\beta_{fast} - \beta_{slow}}, 0, 1\bigr)$, and cos, sin times $0.1\ln s + 1$: YaRN
    as its paper writes it (arXiv 2309.00071).

    The ramp is linear in turns, where that of the authors' code (`YaRN`) is linear in the index.
    Turns fall geometrically with m, so here the middle pairs are interpolated more. The published
    `beta_fast` of 32 must shrink with L, as in `YaRN`.
    """

    def stretch(
        self, frequencies: Frequencies, train_positions: int, scale: float
    ) -> tuple[float, ...]:
        ramp = (
            (r - self.beta_slow) / (self.beta_fast - self.beta_slow)
            for r in turns(frequencies, train_positions)
        )
        keep = (min(max(g, 0.0), 1.0) for g in ramp)
        return tuple(1 / (g + (1 - g) / scale) for g in keep)


RAMPS: dict[str, type[YaRN]] = {"index": YaRN, "turns": YaRNTurns}


class ByParts(FrequencyExtension):
    r"""$1/\lambda_m = g_m + (1 - g_m)/s$: NTK-by-parts, which is YaRN without its temperature
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


class Llama3(ByParts):
    r"""$1/\lambda_m = g_m + (1 - g_m)/s$ with $g_m = \mathrm{clip}\bigl(\frac{r_m - l}{h - l}, 0,
    1\bigr)$ (Llama 3.1, arXiv 2407.21783; transformers' "llama3").

    l, `low_freq_factor`, is 1 and h, `high_freq_factor`, 4 turns in training: by parts with a ramp
    in turns, no temperature, and bounds low enough for any L above 25. Published with one s = 8 (32
    in Llama 3.2) at every length and long training afterwards.
    """

    def __init__(
        self,
        low_freq_factor: float = 1.0,
        high_freq_factor: float = 4.0,
        scale: float | None = None,
    ) -> None:
        if not high_freq_factor > low_freq_factor > 0:
            raise ConfigError(
                "needs high_freq_factor > low_freq_factor > 0 turns in training, got "
                f"{high_freq_factor} and {low_freq_factor}"
            )
        super().__init__(high_freq_factor, low_freq_factor, "turns", scale)
