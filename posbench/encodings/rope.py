"""RoPE: queries and keys are turned by an angle proportional to their position."""

from __future__ import annotations

from dataclasses import replace

import torch

from posbench.base.errors import ConfigError
from posbench.core.attention import Attention
from posbench.core.encoding import PositionEncoding
from posbench.core.frequencies import Frequencies
from posbench.encodings.rotation import halves, neighbours, rotate


class RoPE(PositionEncoding):
    r"""Queries and keys are turned by angles in proportion to their positions, so that scores know
    distances.

    $z_{ij} = c\,\mathrm{Re}\sum_m q_{i,m}\,\overline{k_{j,m}}\; e^{\,\mathrm{i}(i-j)\theta_m}$
    with $\theta_m = b^{-2m/d_h}$ (RoFormer, arXiv 2104.09864).

    `layout` says which two channels are the real and imaginary part of pair m: "half" (m, m +
    d_h/2), as in Llama and GPT-NeoX, or "interleaved" (2m, 2m + 1), as in the paper and GPT-J.
    Models trained from scratch do not care; converted weights do. Beyond the training length the
    slow pairs reach angles never seen, and quality falls off within a small multiple unless an
    extension changes $\theta$.
    """

    handles = PositionEncoding.handles | {"frequencies", "distance", "positions"}

    def __init__(self, head_width: int, base: float = 10000.0, layout: str = "half") -> None:
        super().__init__()
        if head_width % 2:
            raise ConfigError(
                f"RoPE turns channels in pairs: head_width must be even, got {head_width}"
            )
        if layout not in PAIRS:
            raise ConfigError(f"layout must be one of {', '.join(PAIRS)}, got {layout!r}")
        self.frequencies = Frequencies(head_width // 2, base)
        self.pairs = PAIRS[layout]

    def encode(self, a: Attention) -> Attention:
        dtype = torch.promote_types(a.q.dtype, torch.float32)
        q_tables = self.frequencies.tables(a.q_pos, dtype)
        k_tables = q_tables if a.k_pos is a.q_pos else self.frequencies.tables(a.k_pos, dtype)
        return replace(
            a, q=rotate(*self.pairs(a.q), *q_tables), k=rotate(*self.pairs(a.k), *k_tables)
        )


PAIRS = {"half": halves, "interleaved": neighbours}
