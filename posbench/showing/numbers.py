"""Numbers as they are read: shares without a leading zero, means with their interval."""

from __future__ import annotations

import numpy as np

from posbench.statistics.estimates import Estimate

NOTHING = "\N{EN DASH}"


def number(value: float, decimals: int = 2) -> str:
    """The text of a number without its leading zero, as accuracies are read: .93, 1.00, -.07."""
    if np.isnan(value):
        return NOTHING
    text = f"{round(value, decimals) + 0.0:.{decimals}f}"  # + 0.0: no negative zero
    return text.replace("0.", ".", 1) if text.startswith(("0.", "-0.")) else text


def with_interval(estimate: Estimate) -> str:
    """The mean, with half the width of its interval where it has one: .93 ±.02."""
    if np.isnan(estimate.half_width):
        return number(estimate.mean)
    return f"{number(estimate.mean)} ±{number(estimate.half_width)}"
