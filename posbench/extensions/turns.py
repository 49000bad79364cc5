r"""How often pairs turn in training: $r_m = L\,\theta_m / 2\pi$ in the L positions."""

from __future__ import annotations

import math

from posbench.core.frequencies import Frequencies


def turns(frequencies: Frequencies, train_positions: int) -> list[float]:
    """How often each pair turns in training, with the frequencies as they are in use."""
    return [train_positions * theta / (2 * math.pi) for theta in frequencies.theta().tolist()]
