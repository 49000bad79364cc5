"""Shaw's relative embeddings: a learned key and a learned value for each clipped distance."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor, nn

from posbench.base.errors import ConfigError
from posbench.core.attention import Attention
from posbench.core.encoding import PositionEncoding


class Shaw(PositionEncoding):
    r"""Keys and values have learned vectors of the clipped distance added to them.

    $z_{ij} = c\,\langle q_i, k_j + a^K_r\rangle$ and $o_i = \sum_j w_{ij}\,(v_j + a^V_r)$ with
    $r = \mathrm{clip}(j - i, -k, k)$ (arXiv 1803.02155, section 3).

    $a^K, a^V$ are [2k + 1, head width], one pair of tables a layer, shared by its heads, as in the
    paper (tables a head, in many repositories, are another model). Row k belongs to distance 0, the
    rows after it to later keys, which occur only where ids supplied by a task run backwards. Rows
    are drawn with the standard deviation of the token embeddings. Beyond the training length all
    distances over `clip` have the vectors of `clip`: nothing is untrained as long as `clip` stays
    below the training length, which the published 16 does not in a short model.

    No vector is formed for a pair: $\langle q_i, a^K_r\rangle$ is computed for every row of the
    table and gathered, and weights are summed by row of the table before they meet $a^V$.
    """

    handles = PositionEncoding.handles | {"distance"}
    float_positions = False

    def __init__(self, head_width: int, clip: int, init_std: float = 1.0) -> None:
        super().__init__()
        if clip < 1:
            raise ConfigError(
                f"clip is the largest distance with vectors of its own, at least 1, got {clip}"
            )
        self.clip = clip
        self.keys, self.values = (
            nn.Parameter(init_std * torch.randn(2 * clip + 1, head_width)) for _ in range(2)
        )

    def encode(self, a: Attention) -> Attention:
        heads = a.q.shape[:2]

        def row(rows: slice) -> Tensor:
            return (self.clip - a.distance(rows).clamp(-self.clip, self.clip))[:, None].expand(
                *heads, -1, -1
            )

        def term(rows: slice) -> Tensor:
            each = (
                a.q[..., rows, :].to(self.keys.dtype) @ self.keys.mT
            )  # [batch, heads, rows, 2 clip + 1]
            return (a.scale * each).gather(-1, row(rows))

        def value(weights: Tensor, rows: slice) -> Tensor:
            # Summed in float32: in bfloat16 thousands of small weights in one row would be lost.
            weights = weights.to(self.values.dtype)
            sums = weights.new_zeros(*weights.shape[:-1], 2 * self.clip + 1).scatter_add(
                -1, row(rows), weights
            )
            return (sums @ self.values).to(a.v.dtype)

        return replace(a.plus(term), values=(*a.values, value))
