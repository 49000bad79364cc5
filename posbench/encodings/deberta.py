"""DeBERTa's disentangled attention: content looks at position, and position at content."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

import torch
from torch import Tensor, nn

from posbench.base.errors import ConfigError
from posbench.core.attention import Attention
from posbench.core.encoding import PositionEncoding


class DeBERTa(PositionEncoding):
    r"""Content meets learned vectors of the clipped distance, from the query's side and from the
    key's.

    $z_{ij} = \frac{c}{\sqrt 3}\big(\langle q_i, k_j\rangle + \langle q_i, W^K
    P_{\delta(i,j)}\rangle + \langle k_j, W^Q P_{\delta(j,i)}\rangle\big)$ with $\delta(i,j) =
    \mathrm{clip}(i - j + k, 0, 2k - 1)$ (arXiv 2006.03654, section 3.1).

    P, [2k, D], is one table for all layers, drawn with the standard deviation of the token
    embeddings; $W^K$ and $W^Q$, [heads, head width, D], belong to each layer. `index` is that of
    the last term: "paper" is $\delta(j, i)$ as above, "published" is $\delta(i, j)$, which the
    authors' code and transformers use. Where positions count up, the two terms look into the two
    halves of P with the former and into the same half with the latter. The absolute positions that
    the paper adds before the last softmax serve masked words and are left out.

    Distances from k - 1 on share a row. `clip` k is the training length, as published with 512: the
    row of all distances beyond is trained by the longest one alone.
    """

    shared = ("table",)
    handles = PositionEncoding.handles | {"distance"}
    float_positions = False

    def __init__(
        self,
        num_heads: int,
        head_width: int,
        model_width: int,
        clip: int,
        index: str = "paper",
        init_std: float = 1.0,
    ) -> None:
        super().__init__()
        if num_heads < 1:
            raise ConfigError(f"DeBERTa needs at least one head, got {num_heads}")
        if clip < 1:
            raise ConfigError(
                f"clip is the distance from which rows are shared, at least 1, got {clip}"
            )
        if index not in INDICES:
            raise ConfigError(f"index must be one of {', '.join(INDICES)}, got {index!r}")
        self.clip = clip
        self.index = INDICES[index]
        self.table = nn.Parameter(init_std * torch.randn(2 * clip, model_width))
        self.w_k, self.w_q = (
            nn.Parameter(model_width**-0.5 * torch.randn(num_heads, head_width, model_width))
            for _ in range(2)
        )

    def encode(self, a: Attention) -> Attention:
        a = replace(a, scale=a.scale / math.sqrt(3))
        to_keys, to_queries = (
            w @ self.table.mT for w in (self.w_k, self.w_q)
        )  # [heads, head width, 2 clip]
        dtype = self.table.dtype
        by_row = (a.scale * to_queries).mT @ a.k.to(dtype).mT  # [batch, heads, 2 clip, keys]

        def row(distance: Tensor) -> Tensor:
            rows = (distance + self.clip).clamp(0, 2 * self.clip - 1)
            return rows[:, None].expand(*a.q.shape[:2], -1, -1)

        def term(rows: slice) -> Tensor:
            d = a.distance(rows)
            content_to_position = (a.scale * (a.q[..., rows, :].to(dtype) @ to_keys)).gather(
                -1, row(d)
            )
            position_to_content = by_row.gather(-2, row(self.index(d)))
            return content_to_position + position_to_content

        return a.plus(term)


def paper(distance: Tensor) -> Tensor:
    return -distance


def published(distance: Tensor) -> Tensor:
    return distance


INDICES: dict[str, Callable[[Tensor], Tensor]] = {"paper": paper, "published": published}
