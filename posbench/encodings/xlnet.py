"""XLNet: Transformer-XL with a term for segments."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from posbench.core.attention import Attention
from posbench.encodings.relative_sinusoids import vectors
from posbench.encodings.transformer_xl import TransformerXL


class XLNet(TransformerXL):
    r"""Transformer-XL's encoding, plus a term for whether two tokens are of one segment.

    `TransformerXL` plus a term for segments: $z_{ij} = \dots + c\,\langle q_i + r_h,
    s_{h,ij}\rangle$ with $s_{h,ij} = s^{same}_h$ where query and key are of one segment and
    $s^{other}_h$ where not (arXiv 1906.08237, section 2.5).

    u, v and r belong to each layer, as in the authors' code. s is [2, heads, head width]. A task's
    prompt is one segment, its answer the other; a call that names none is of one segment. Permuted
    factorisation orders and the two streams are a way of training, no encoding. Beyond the training
    length as `TransformerXL`; segments know no length.
    """

    shared = ()

    def __init__(
        self, num_heads: int, head_width: int, model_width: int, base: float = 10000.0
    ) -> None:
        super().__init__(num_heads, head_width, model_width, base)
        self.r = vectors(num_heads, head_width)
        self.segments = nn.Parameter(0.02 * torch.randn(2, num_heads, head_width))

    def encode(self, a: Attention) -> Attention:
        segments = (
            torch.zeros_like(a.q[:1, 0, :, 0], dtype=torch.long)
            if a.segments is None
            else a.segments
        )

        def term(rows: slice) -> Tensor:
            query = a.scale * (a.q[..., rows, :] + self.r[:, None])
            same, other = (
                query @ self.segments[index][..., None] for index in (0, 1)
            )  # [batch, heads, rows, 1]
            return torch.where(
                (segments[:, rows, None] == segments[:, None, :])[:, None], same, other
            )

        return super().encode(a).plus(term)
