"""xPos: RoPE with an exponential decay of its own for every pair of channels."""

from __future__ import annotations

import math
from dataclasses import replace

import torch
from torch import Tensor

from posbench.base.errors import ConfigError
from posbench.core.attention import Attention
from posbench.core.encoding import PositionEncoding
from posbench.core.frequencies import Frequencies
from posbench.encodings.rotation import halves, rotate


class XPos(PositionEncoding):
    r"""RoPE whose products also decay with distance, the fast pairs most.

    $z_{ij} = c\,\mathrm{Re}\sum_m
    q_{i,m}\,\overline{k_{j,m}}\;\zeta_m^{(i-j)/B}\,e^{\,\mathrm{i}(i-j)\theta_m}$ with $\zeta_m =
    \frac{2m + \gamma d_h}{(1+\gamma)\,d_h}$ and $\theta_m = b^{-2m/d_h}$ (arXiv 2212.10554).

    Pair m is channels m and m + d_h/2; $\gamma$ is 0.4, as published. The fastest pairs decay most,
    to $\zeta_0 \approx 0.29$ over B, here `scale_base`, positions; it is 512 in the authors' code,
    at which shorter models would hardly decay, and half of the trained positions by default. Beyond
    the training length the decay keeps far keys from the noise of fast pairs; the paper adds
    block-wise causal attention at test, which here is a window's business.

    The decay is split between query and key as $\zeta^{\pm(p - p_0)/B}$, with $p_0$ in the middle
    of the positions for the sake of the exponents. Where they span more than some 130 B, one of the
    two factors is more than float32 holds, although their product is not: then scores are formed
    for some queries at a time, each time with $p_0$ in their middle. For a later key the decay is
    growth, which ends there at what float32 holds. A frequency extension that divides $\theta_m$ by
    $\lambda_m$ divides the decay's exponent as well: pair m then sees the positions $p/\lambda_m$,
    and interpolated xPos is xPos at interpolated positions.
    """

    handles = PositionEncoding.handles | {"frequencies", "distance", "positions"}

    def __init__(
        self, head_width: int, scale_base: float, gamma: float = 0.4, base: float = 10000.0
    ) -> None:
        super().__init__()
        if head_width % 2:
            raise ConfigError(
                f"xPos turns channels in pairs: head_width must be even, got {head_width}"
            )
        if not scale_base > 0:
            raise ConfigError(
                f"scale_base is a number of positions and must exceed 0, got {scale_base}"
            )
        if not gamma > 0:
            raise ConfigError(
                f"gamma must exceed 0, for with 0 the fastest pair vanishes at once; got {gamma}"
            )
        self.frequencies = Frequencies(head_width // 2, base)
        zeta = (
            (2 * m + gamma * head_width) / ((1 + gamma) * head_width)
            for m in range(head_width // 2)
        )
        self.log_decay = tuple(math.log(z) / scale_base for z in zeta)

    def encode(self, a: Attention) -> Attention:
        dtype = torch.promote_types(a.q.dtype, torch.float32)
        exact = self.frequencies.theta(a.q.device).dtype
        decay = torch.tensor(self.log_decay, dtype=exact, device=a.q.device)
        if self.frequencies.stretch is not None:
            decay = decay / torch.tensor(self.frequencies.stretch, dtype=exact, device=a.q.device)
        largest = 0.9 * math.log(torch.finfo(dtype).max)

        def turned(x: Tensor, pos: Tensor, middle: Tensor, sign: int) -> Tensor:
            exponents = sign * self.frequencies.angles(pos - middle, decay)
            size = exponents.clamp(max=largest).exp()
            cos, sin = (size * table for table in self.frequencies.tables(pos, exact))
            return rotate(*halves(x), cos.to(dtype), sin.to(dtype))

        def fits(pos: Tensor, middle: Tensor) -> bool:
            return bool((pos - middle).abs().max() * decay.abs().max() <= largest)

        def content(rows: slice) -> Tensor:
            """The scores of some queries, for as many at once as fit."""
            pos, half = a.q_pos[:, rows], (rows.start + rows.stop) // 2
            middle = center(pos)
            if half > rows.start and not fits(pos, middle):
                parts = (slice(rows.start, half), slice(half, rows.stop))
                return torch.cat([content(part) for part in parts], -2)
            q = turned(a.q[..., rows, :], pos, middle, 1)
            return a.scale * (q @ turned(a.k, a.k_pos, middle, -1).mT)

        middle = center(a.k_pos)
        if not (fits(a.k_pos, middle) and fits(a.q_pos, middle)):
            return replace(a, content=content)
        return replace(a, q=turned(a.q, a.q_pos, middle, 1), k=turned(a.k, a.k_pos, middle, -1))


def center(pos: Tensor) -> Tensor:
    """Halfway between the first and the last position of each sequence."""
    return (pos.amin(1, keepdim=True) + pos.amax(1, keepdim=True)) / 2
