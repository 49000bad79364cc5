"""FoX-Pro: FoX with shifted keys and values, and a normalised output."""

from __future__ import annotations

from dataclasses import replace

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from posbench.core.attention import Attention
from posbench.encodings.fox import FoX


class FoXPro(FoX):
    r"""FoX whose keys and values mix with those of the token before, and whose output is
    normalised.

    `FoX` with $k_t = \alpha_t \hat k_{t-1} + (1 - \alpha_t)\,\hat k_t$ and the same of v,
    $\alpha_t = \sigma(u_h^\top x_t)$ for each of the two, and $o_i \leftarrow g \odot o_i /
    \mathrm{rms}(o_i)$ in every head: what the "Pro" layer of the Forgetting Transformer (arXiv
    2503.02130) has beside queries and keys of one length and a gate on the output, which are the
    settings `qk_norm` and `output_gate` of the model and belong to the row.

    Before the first token there is nothing. u [model width] and g [head width] are learned in every
    head and layer; u starts as other projections do, g at 1. The shift lets a key carry a part of
    the token before it, as an induction head needs. The authors normalise keys after the shift;
    here the model has normalised them before, so that a key between two others is a little shorter.
    """

    def __init__(
        self, model_width: int, num_heads: int, head_width: int, bias_init: float = 5.0
    ) -> None:
        super().__init__(model_width, num_heads, bias_init)
        self.shift = nn.Linear(model_width, 2 * num_heads, bias=False)
        nn.init.normal_(self.shift.weight, std=model_width**-0.5)
        self.output_scale = nn.Parameter(torch.ones(num_heads, 1, head_width))

    def encode(self, a: Attention) -> Attention:
        alpha = self.shift(a.x.to(self.shift.weight.dtype)).sigmoid()  # [batch, n, 2 heads]
        of_k, of_v = alpha.mT[..., None].to(a.q.dtype).chunk(2, 1)  # [batch, heads, n, 1] each

        def finish(out: Tensor, rows: slice) -> Tensor:
            exact = out.to(self.output_scale.dtype)
            size = (exact.square().mean(-1, keepdim=True) + 1e-6).rsqrt()
            return (self.output_scale * size * exact).to(out.dtype)

        shifted = replace(a, k=_mixed(a.k, of_k), v=_mixed(a.v, of_v), finish=finish)
        return super().encode(shifted)


def _mixed(x: Tensor, alpha: Tensor) -> Tensor:
    """Every token with the one before it, [batch, heads, n, width]."""
    before = F.pad(x, (0, 0, 1, 0))[..., :-1, :]
    return x + alpha * (before - x)
