"""Wavelengths of a whole number of positions."""

from __future__ import annotations

import math

from posbench.core.frequencies import Frequencies
from posbench.extensions.unscaled import Unscaled


class Resonance(Unscaled):
    r"""Every wavelength is rounded to a whole number of positions.

    $\theta'_m = 2\pi/\mathrm{round}(2\pi/\theta_m)$: every wavelength a whole number of
    positions (Resonance RoPE, arXiv 2403.00071).

    A pair that has turned once in training then meets the same angles again, and no others, at any
    length. As the second of `Both` it rounds what the first has left: after YaRN it is the
    paper's Resonance YaRN. The wavelengths after an extension with a scale for each length are
    rounded for each length.

    The paper trains, or fine-tunes, with the rounded wavelengths. Here they are rounded after
    training, which moves the fastest pair from 6.28 to 6 positions: in 40 positions it is two
    radians ahead of what was learned.
    """

    def unscaled(self, frequencies: Frequencies, train_positions: int) -> tuple[float, ...]:
        waves = [
            2 * math.pi / theta if theta else math.inf for theta in frequencies.theta().tolist()
        ]
        return tuple(1.0 if math.isinf(wave) else round(wave) / wave for wave in waves)
