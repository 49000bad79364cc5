"""What both kernels of KERPLE share: how their parameters start, and how small they may be."""

from __future__ import annotations

import torch
from torch import nn

from posbench.base.errors import ConfigError

SMALLEST = 0.01
"""What the published code keeps every parameter above."""


def uniform(num_heads: int, high: float) -> nn.Parameter:
    """One number a head, drawn from U(0, high)."""
    if num_heads < 1:
        raise ConfigError(f"KERPLE needs at least one head, got {num_heads}")
    return nn.Parameter(high * torch.rand(num_heads))
