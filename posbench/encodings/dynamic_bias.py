"""Dynamic position bias: a small network of the logarithm of the distance."""

from __future__ import annotations

import itertools

import torch
from torch import Tensor, nn

from posbench.base.errors import ConfigError
from posbench.core.attention import Attention
from posbench.core.encoding import PositionEncoding


class DynamicBias(PositionEncoding):
    r"""A small network turns the logarithm of the distance into a bias for each head.

    $B_{ij} = f_h\big(\mathrm{sign}(d)\,\ln(1 + |d|)\big)$ with d = i - j, added after the scale
    (x-transformers' `DynamicPositionBias`; log-spaced continuous bias of Swin v2, arXiv
    2111.09883).

    f has `depth` hidden layers of a quarter of the model width with SiLU, and one output a head;
    one network serves all layers, as in x-transformers. Swin v2 has ReLU, takes two coordinates and
    bounds its result by $16\,\sigma$; x-transformers takes the logarithm and a layer norm only when
    asked, and here there is the logarithm and no norm. Beyond the training length f extrapolates,
    mildly: twice the distance is a step of ln 2. A later key has a negative input of its own.
    """

    shared = ("mlp",)
    handles = PositionEncoding.handles | {"distance", "positions"}

    def __init__(self, num_heads: int, model_width: int, depth: int = 2) -> None:
        super().__init__()
        if num_heads < 1:
            raise ConfigError(f"a dynamic bias needs at least one head, got {num_heads}")
        if model_width < 4:
            raise ConfigError(
                "layers have a quarter of the model width, which must be at least 4, got "
                f"{model_width}"
            )
        if depth < 1:
            raise ConfigError(f"depth is the number of hidden layers, at least 1, got {depth}")
        self.mlp = nn.Sequential()
        for width_in, width_out in itertools.pairwise([1, *[model_width // 4] * depth]):
            self.mlp.extend([nn.Linear(width_in, width_out), nn.SiLU()])
        self.mlp.append(nn.Linear(model_width // 4, num_heads))

    def encode(self, a: Attention) -> Attention:
        def term(rows: slice) -> Tensor:
            d = a.distance(rows).to(next(self.mlp.parameters()).dtype)
            # Not in bfloat16, whatever the precision of training: it would merge neighbouring
            # distances.
            with torch.autocast(a.q.device.type, enabled=False):
                bias = self.mlp((d.sign() * d.abs().log1p())[..., None])
            return bias.movedim(-1, 1)  # [batch|1, heads, rows, keys]

        return a.plus(term)
