"""ALiBi: a bias that falls in proportion to the distance, with a fixed slope for each head."""

from __future__ import annotations

import math

import torch

from posbench.base.errors import ConfigError
from posbench.core.attention import Attention
from posbench.core.encoding import PositionEncoding


class ALiBi(PositionEncoding):
    r"""A bias falls in proportion to the distance, with a fixed slope for each head.

    $B_{ij} = -m_h\,(i - j)$, added after the scale (arXiv 2108.12409).

    With H heads a power of two, $m_h = 2^{-e h/H}$ for h = 1..H, where `steepness` e is 8. For
    other H: the slopes of the power of two below, then every second slope of the power of two
    above. The gentlest slope is $2^{-e}$, and what it does within a training of length L goes by
    $2^{-e} L$: 2 as published, with L = 512, and 12 with L = 3,072. A name from conf/ makes it 2
    at any L, so that e is 6 for L = 128. No parameters. Weights fall as
    $\exp(-m_h d)$, a soft window of about $1/m_h$ tokens at any length, so nothing is undefined
    beyond training. The bias is exact in two extra channels: $(-m_h i)\cdot 1 + 1\cdot(m_h j)$.
    """

    handles = PositionEncoding.handles | {"distance", "positions"}

    def __init__(self, num_heads: int, steepness: float = 8.0) -> None:
        super().__init__()
        self.slopes = alibi_slopes(num_heads, steepness)

    def encode(self, a: Attention) -> Attention:
        dtype = torch.promote_types(a.q.dtype, torch.float32)
        slopes = torch.tensor(self.slopes, dtype=dtype, device=a.q.device)[:, None]
        # Only differences matter, so count from the middle: large products lose the small
        # differences.
        middle = a.k_pos[:, a.k_pos.shape[1] // 2, None]
        i, j = ((pos - middle).to(dtype)[:, None, :] for pos in (a.q_pos, a.k_pos))
        one = torch.ones_like(slopes * i)
        return a.factored(torch.stack((-slopes * i, one), -1), torch.stack((one, slopes * j), -1))


def alibi_slopes(num_heads: int, steepness: float = 8.0) -> tuple[float, ...]:
    """The slopes m_1..m_H; see `ALiBi`."""
    if num_heads < 1:
        raise ConfigError(f"ALiBi needs at least one head, got {num_heads}")
    power = 2 ** int(math.log2(num_heads))
    below = [2 ** (-steepness * h / power) for h in range(1, power + 1)]
    above = [2 ** (-steepness * h / (2 * power)) for h in range(1, 2 * power + 1)]
    return tuple(below + above[::2][: num_heads - power])
