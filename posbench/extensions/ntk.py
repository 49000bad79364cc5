"""NTK-aware: a larger base, which stretches slow frequencies more."""

from __future__ import annotations

from posbench.core.extension import FrequencyExtension
from posbench.core.frequencies import Frequencies


class NTK(FrequencyExtension):
    r"""The base of RoPE grows so that the slowest pair is interpolated and the fastest stays.

    NTK-aware: $\lambda_m = s^{m/(K-1)}$, the base $b' = b\,s^{d/(d-2)}$ (bloc97, 2023).

    The fastest pair stays (it extrapolates), the slowest is stretched by s (it interpolates), the
    rest lie between on a geometric scale. Middle pairs still pass trained angles, so the usable
    length falls short of s L.
    """

    def stretch(
        self, frequencies: Frequencies, train_positions: int, scale: float
    ) -> tuple[float, ...]:
        last = max(frequencies.count - 1, 1)
        return tuple(scale ** (m / last) for m in range(frequencies.count))
