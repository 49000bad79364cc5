"""Learned numbers that are kept between bounds."""

from __future__ import annotations

from torch import Tensor


def bounded(parameter: Tensor, low: float, high: float | None = None) -> Tensor:
    """The clamped value with the gradient of the parameter itself."""
    return parameter + (parameter.clamp(low, high) - parameter).detach()
