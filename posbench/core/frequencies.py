"""The geometric frequencies of sinusoidal and rotary encodings, and how extensions change them."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from posbench.base.errors import ConfigError


@dataclass(frozen=True)
class Frequencies:
    r"""$\theta'_m = b^{-m/K} / \lambda_m$ radians per position, m = 0..K-1, the fastest first.

    `count` is K (half the head width for RoPE, half the model width for sinusoidal), `base` is b.
    Every frequency extension chooses `stretch` $\lambda_m$ (infinity switches a pair off) and
    `magnitude`, a factor on every cosine and sine. A second extension multiplies the first.
    """

    count: int
    base: float = 10000.0
    stretch: tuple[float, ...] | None = None
    magnitude: float = 1.0

    def __post_init__(self) -> None:
        if self.count < 1:
            raise ConfigError(
                f"there must be at least one frequency, got {self.count}: use a head width of 2 or "
                "more"
            )
        if not self.base > 1:
            raise ConfigError(
                "the base of the frequencies must exceed 1: the first is the fastest; got "
                f"{self.base}"
            )
        if self.stretch is not None and len(self.stretch) != self.count:
            raise ConfigError(
                f"{self.count} frequencies need {self.count} stretches, got {len(self.stretch)}"
            )

    def theta(self, device: torch.device | None = None) -> Tensor:
        """Radians per position, [count], in float64 (float32 where the device has no float64)."""
        dtype = torch.float32 if device is not None and device.type == "mps" else torch.float64
        m = torch.arange(self.count, dtype=dtype, device=device)
        theta = self.base ** (-m / self.count)
        if self.stretch is None:
            return theta
        return theta / torch.tensor(self.stretch, dtype=dtype, device=device)

    def tables(self, pos: Tensor, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
        """Cosine and sine of `pos * theta`, times `magnitude`, each [*pos.shape, count].

        Angles are computed in float64 and cast afterwards: at position 100,000 a float32 angle is
        already off by 0.004 radians, a bfloat16 one by hundreds.
        """
        angles = self.angles(pos, self.theta(pos.device))
        return (self.magnitude * angles.cos()).to(dtype), (self.magnitude * angles.sin()).to(dtype)

    def angles(self, pos: Tensor, rate: Tensor) -> Tensor:
        """What `pos` comes to at a `rate` a position for every frequency, [*pos.shape, count]."""
        return pos.to(rate.dtype)[..., None] * rate

    def stretched(self, stretch: tuple[float, ...], magnitude: float = 1.0) -> Frequencies:
        """Divide theta_m by stretch_m, on top of whatever has been done before."""
        before = self.stretch or (1.0,) * self.count
        after = tuple(a * b for a, b in zip(before, stretch, strict=True))
        return Frequencies(self.count, self.base, after, self.magnitude * magnitude)
