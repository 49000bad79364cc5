"""Partial RoPE: a part of every head turns, on a grid of frequencies of its own."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from posbench.core.attention import Attention
from posbench.core.encoding import PositionEncoding
from posbench.core.frequencies import Frequencies
from posbench.encodings.partial_rotation import rotated_pairs
from posbench.encodings.rotation import halves, rotate


class PartialRoPE(PositionEncoding):
    r"""RoPE on the first channels of a head, with the rest as they are.

    RoPE on the first $r = \rho d_h$ channels of a head, the rest as they are: $z_{ij} =
    c\,\bigl(\mathrm{Re}\sum_{m<r/2} q_{i,m}\,\overline{k_{j,m}}\;e^{\,\mathrm{i}(i-j)\theta_m} +
    \sum_{c \ge r} q_{i,c}\,k_{j,c}\bigr)$ with $\theta_m = b^{-2m/r}$ (GPT-NeoX, arXiv 2204.06745,
    where $\rho$, here `share`, is 0.25; GPT-J has 64 channels of 256).

    The whole range of frequencies is spread over the few pairs, unlike in `PRoPE`. Pair m is
    channels m and m + r/2, as in GPT-NeoX. Beyond the training length the slow pairs reach angles
    never seen, as in RoPE, but the unrotated channels match content at any distance. A factor on
    cosine and sine, as YaRN has it, leaves the unrotated channels alone, as in transformers.
    """

    handles = PositionEncoding.handles | {"frequencies", "distance", "positions"}

    def __init__(self, head_width: int, share: float = 0.25, base: float = 10000.0) -> None:
        super().__init__()
        self.frequencies = Frequencies(rotated_pairs(head_width, share), base)

    def encode(self, a: Attention) -> Attention:
        dtype, r = torch.promote_types(a.q.dtype, torch.float32), 2 * self.frequencies.count

        def turned(x: Tensor, pos: Tensor) -> Tensor:
            return torch.cat(
                (rotate(*halves(x[..., :r]), *self.frequencies.tables(pos, dtype)), x[..., r:]), -1
            )

        return replace(a, q=turned(a.q, a.q_pos), k=turned(a.k, a.k_pos))
