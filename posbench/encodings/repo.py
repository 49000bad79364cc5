"""RePo: RoPE at positions that each head reads from the content."""

from __future__ import annotations

from dataclasses import replace

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from posbench.base.errors import ConfigError
from posbench.core.attention import Attention
from posbench.core.encoding import PositionEncoding
from posbench.core.frequencies import Frequencies
from posbench.encodings.adarope import by_head


class RePo(PositionEncoding):
    r"""RoPE at positions that each head computes from the token.

    RoPE at the positions $p_{i,h} = w_h^\top \bigl(\mathrm{SiLU}(W_g x_i) \odot W_c x_i\bigr)$
    in place of those in the sequence, for every head h: context re-positioning (RePo, arXiv
    2512.14391v2 and its code).

    x is the input of the layer; $W_g$ and $W_c$ are [model width / `reduction`, model width] and
    shared by the heads, $w_h$ is a head's own; all are learned in each layer and have no offset. A
    position is any number, and two tokens are near if their contents say so: order and distance in
    the sequence count for nothing here. They must come from elsewhere, and so the paper leaves
    RoPE in the lowest third of the layers (5 of 16, 10 of 32). `repo` has RoPE in the first of
    every three layers, which for up to three layers is the same.

    Pair m is channels m and m + d_h/2, $\theta_m = b^{-2m/d_h}$; b is 500,000 in the authors' code.
    Matrices start as torch's linear layers, where theirs start at $N(0, 0.02^2)$: in either case
    the positions of a sequence start within some tenths of each other, which is near NoPE, and
    training spreads them out. The paper trains a model on that had RoPE in all layers; here all is
    trained from the start.

    Beyond the training length nothing is undefined in these layers: positions do not count tokens,
    and stay in the range that contents had in training.
    """

    handles = PositionEncoding.handles | {"frequencies"}

    def __init__(
        self,
        num_heads: int,
        head_width: int,
        model_width: int,
        reduction: int = 8,
        base: float = 10000.0,
    ) -> None:
        super().__init__()
        if num_heads < 1:
            raise ConfigError(
                f"every head reads positions of its own: there must be one, got {num_heads}"
            )
        if head_width % 2:
            raise ConfigError(
                f"RePo turns channels in pairs: head_width must be even, got {head_width}"
            )
        if not 1 <= reduction <= model_width:
            raise ConfigError(
                "reduction divides the width of the model, which leaves at least 1: from 1 to "
                f"{model_width}, got {reduction}"
            )
        self.frequencies = Frequencies(head_width // 2, base)
        hidden = model_width // reduction
        self.gate = nn.Linear(model_width, hidden, bias=False)
        self.content = nn.Linear(model_width, hidden, bias=False)
        self.position = nn.Linear(hidden, num_heads, bias=False)

    def encode(self, a: Attention) -> Attention:
        theta = self.frequencies.theta(a.q.device)
        angles = self.read(a.x).to(theta.dtype)[..., None] * theta
        q, k = (by_head(t, angles, self.frequencies) for t in (a.q, a.k))
        return replace(a, q=q, k=k)

    def read(self, x: Tensor) -> Tensor:
        """The positions, [batch, heads, n]."""
        # Not in bfloat16, whatever the precision of training: fast pairs turn by the whole
        # rounding error of a position.
        with torch.autocast(x.device.type, enabled=False):
            x = x.to(torch.promote_types(x.dtype, self.gate.weight.dtype))
            return self.position(F.silu(self.gate(x)) * self.content(x)).mT
