"""CoPE: positions that are counted by the content."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from posbench.base.errors import ConfigError
from posbench.core.attention import Attention
from posbench.core.encoding import PositionEncoding

SCALES = {"attention": lambda scale: scale, "one": lambda scale: 1.0}
"""The factor on <q_i, e_p>, from that on <q_i, k_j>."""


class CoPE(PositionEncoding):
    r"""A position counts the keys that the query lets pass, and each count has a learned vector.

    $B_{ij} = c\,\langle q_i, e(p_{ij}) \rangle$ with $p_{ij} = \min\left(\sum_{s=j}^{i}
    g_{is},\, P\right)$, $g_{is} = \sigma(c\,\langle q_i, k_s \rangle)$, and e interpolated between
    the rows of a table: $e(p) = (1 - f)\,e_{\lfloor p \rfloor} + f\,e_{\lceil p \rceil}$, $f = p -
    \lfloor p \rfloor$ (contextual position encoding, arXiv 2405.18719).

    A query counts those keys between the key and itself for which its gate opens, instead of all of
    them; with all gates open $p = i - j + 1$. Masked keys are not counted. The table has P + 1 rows
    (P is `largest`) of the head width, shared by the heads of a layer, and starts at zero, which is
    NoPE. Beyond the training length a count stays in range where gates close, and everything
    counted further than P gets $e_P$. The paper's P is 64, or the training length; the default is
    half of that, because gates start half open. Token positions are not used.

    `scale_pos` settles a disagreement: the paper adds e(p) to the key and its code divides both by
    $\sqrt{d_h}$ ("attention"); x-transformers and an option of the paper's code leave $\langle q_i,
    e(p) \rangle$ as it is ("one"), as if the table were $\sqrt{d_h}$ times larger. Gates are those
    of the scores before any temperature.
    """

    def __init__(self, head_width: int, largest: int, scale_pos: str = "attention") -> None:
        super().__init__()
        if largest < 1:
            raise ConfigError(
                f"largest is the highest count that has a row of its own: at least 1, got {largest}"
            )
        if scale_pos not in SCALES:
            raise ConfigError(f"scale_pos must be one of {', '.join(SCALES)}, got {scale_pos!r}")
        self.largest = largest
        self.scale_pos = SCALES[scale_pos]
        self.table = nn.Parameter(torch.zeros(largest + 1, head_width))

    def encode(self, a: Attention) -> Attention:
        dtype = torch.promote_types(a.q.dtype, torch.float32)

        def term(rows: slice) -> Tensor:
            # Not in bfloat16, whatever the precision of training: a sum of hundreds of gates would
            # lose single ones.
            with torch.autocast(a.q.device.type, enabled=False):
                q = a.q[..., rows, :].to(dtype)
                gates = (a.scale * (q @ a.k.to(dtype).mT)).sigmoid() * a.allowed(rows)
                count = gates.flip(-1).cumsum(-1).flip(-1).clamp(max=self.largest)
                by_row = self.scale_pos(a.scale) * (
                    q @ self.table.to(dtype).mT
                )  # [batch, heads, rows, P + 1]
                below = count.detach().long().clamp(max=self.largest - 1)
                step = by_row.diff(dim=-1)  # from one row of the table to the next
                return by_row.gather(-1, below) + (count - below) * step.gather(-1, below)

        return a.plus(term)
