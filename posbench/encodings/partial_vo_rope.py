"""RoPE on a part of every head that turns values as well."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from posbench.core.attention import Attention
from posbench.core.encoding import PositionEncoding
from posbench.encodings.partial_rope import PartialRoPE
from posbench.encodings.rotation import halves, rotate


class PartialVORoPE(PartialRoPE):
    r"""Partial RoPE that also turns values by their positions, and outputs back by the query's.

    Scores are those of `PartialRoPE` with $r = \rho d_h$ rotated channels, and $o_i = \sum_j
    w_{ij}\,R\bigl((j-i)\theta\bigr)\,v_j$ with R on the first r channels of a value and 1 on the
    rest (DeepSeek V4 in transformers, where $\rho$, here `share`, is 64 of 512 channels; without
    the part, RoVE, arXiv 2606.11275, and QKVO-RoPE, Su, kexue.fm/archives/10862, April 2025).

    DeepSeek V4 has no choice: its keys serve as values, so that values come rotated and outputs
    must be turned back. Here values have their own projection. It turns the last channels and
    neighbours in pairs, which makes no difference to a model that is trained so. The channels that
    stay carry content from any distance; the others also carry how far it came. Beyond the training
    length, and under a factor on cosine and sine, as `VORoPE`; no distance is offered either, since
    keys with several positions at once have no one rotation to undo.
    """

    handles = PositionEncoding.handles | {"frequencies", "positions"}

    def __init__(self, head_width: int, share: float = 0.125, base: float = 10000.0) -> None:
        super().__init__(head_width, share, base)

    def encode(self, a: Attention) -> Attention:
        dtype, r = torch.promote_types(a.v.dtype, torch.float32), 2 * self.frequencies.count
        plain = replace(self.frequencies, magnitude=1.0)
        cos, sin = plain.tables(a.q_pos, dtype)

        def turned(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
            return torch.cat((rotate(*halves(x[..., :r]), cos, sin), x[..., r:]), -1)

        def back(out: Tensor, rows: slice) -> Tensor:
            return turned(out, cos[:, rows], -sin[:, rows])

        v = turned(a.v, *plain.tables(a.k_pos, dtype))
        return replace(super().encode(a), v=v, finish=back)
