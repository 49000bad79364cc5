"""Position interpolation: every frequency is divided by the factor of extension."""

from __future__ import annotations

from posbench.core.extension import FrequencyExtension
from posbench.core.frequencies import Frequencies


class PI(FrequencyExtension):
    r"""Positions are divided by the factor between test and training length.

    Position interpolation: $\lambda_m = s$ (arXiv 2306.15595; kaiokendev's SuperHOT).

    Every position p becomes p/s, so no angle is new, but neighbours are s times closer than in
    training. Published with fine-tuning; without it local resolution is lost.
    """

    def stretch(
        self, frequencies: Frequencies, train_positions: int, scale: float
    ) -> tuple[float, ...]:
        return (scale,) * frequencies.count
