"""APE's bias: a linear, a logarithmic and a root term of the distance, learned in every head."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from posbench.base.errors import ConfigError
from posbench.core.attention import Attention
from posbench.core.encoding import PositionEncoding
from posbench.encodings.alibi import alibi_slopes
from posbench.encodings.bounded import bounded


class APEBias(PositionEncoding):
    r"""A bias falls with the distance, its logarithm and its root, by three learned weights a head.

    $B_{ij} = -\delta_h\,d - \beta_h \ln(1 + d) - \gamma_h \sqrt d$ with d = i - j, added after
    the scale: the bias of adaptive positional encoding (APE, arXiv 2601.06113).

    $\delta, \beta, \gamma \ge 0$ are learned, three a head for all layers. With the linear term
    alone it is ALiBi, with the logarithm alone KERPLE-log at $r_2 = 1$. The linear term keeps the
    sum of weights finite at any length, the two others let near keys differ before it does. Each
    starts at a third of what ALiBi with the same `steepness` has at L = `length`, the positions of
    training, so that the scores there start as ALiBi's; what the paper starts from is not known.
    A later key counts as distance 0.

    The paper could be read in others' notes only. Two parts of APE are left out: a rotation by $n /
    \alpha(n)$, in which $\alpha$ follows the entropy of the very weights that it enters, and the
    factor $1/(1 + \lambda d)$ on the scores.
    """

    shared = ("linear", "log", "root")
    handles = PositionEncoding.handles | {"distance", "positions"}

    def __init__(self, num_heads: int, length: int, steepness: float = 8.0) -> None:
        super().__init__()
        if length < 1:
            raise ConfigError(
                "length is where the three terms start alike, a number of positions of at least 1, "
                f"got {length}"
            )
        third = length / 3 * torch.tensor(alibi_slopes(num_heads, steepness))
        self.linear = nn.Parameter(third / length)
        self.log = nn.Parameter(third / math.log1p(length))
        self.root = nn.Parameter(third / math.sqrt(length))

    def encode(self, a: Attention) -> Attention:
        def term(rows: slice) -> Tensor:
            d = a.distance(rows).clamp(min=0).to(self.linear.dtype)[:, None]
            linear, log, root = (
                bounded(rate, 0.0)[:, None, None] for rate in (self.linear, self.log, self.root)
            )
            return -linear * d - log * d.log1p() - root * d.sqrt()

        return a.plus(term)
