"""RoPE that turns values as well."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from posbench.core.attention import Attention
from posbench.core.encoding import PositionEncoding
from posbench.encodings.rope import RoPE
from posbench.encodings.rotation import halves, rotate


class VORoPE(RoPE):
    r"""RoPE that also turns values by their positions, and outputs back by the query's.

    RoPE, and $o_i = R(-i\,\theta)\sum_j w_{ij}\,R(j\,\theta)\,v_j = \sum_j
    w_{ij}\,R\bigl((j-i)\theta\bigr)\,v_j$: values are turned by their positions and outputs back by
    the query's (RoVE, arXiv 2606.11275). Su (kexue.fm/archives/10862, April 2025) calls this
    QKVO-RoPE, and the turn of values and outputs without queries and keys VO-RoPE.

    What a key contributes then depends on its distance too, and on nothing absolute. R and $\theta$
    are those of queries and keys; pair m is channels m and m + d_h/2. RoFormer's code can turn
    values without turning outputs back, which is not relative and not this. Beyond the training
    length as RoPE. A factor on cosine and sine, as YaRN has it, scales scores alone: lengths of
    values stay. Region methods, whose keys have several positions at once, have no one rotation to
    undo: no distance is offered to them.
    """

    handles = PositionEncoding.handles | {"frequencies", "positions"}

    def __init__(self, head_width: int, base: float = 10000.0) -> None:
        super().__init__(head_width, base)

    def encode(self, a: Attention) -> Attention:
        dtype = torch.promote_types(a.v.dtype, torch.float32)
        plain = replace(self.frequencies, magnitude=1.0)
        cos, sin = plain.tables(a.q_pos, dtype)

        def back(out: Tensor, rows: slice) -> Tensor:
            return rotate(*halves(out), cos[:, rows], -sin[:, rows])

        v = rotate(*halves(a.v), *plain.tables(a.k_pos, dtype))
        return replace(super().encode(a), v=v, finish=back)
