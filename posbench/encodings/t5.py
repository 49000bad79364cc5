"""T5: a learned bias for each bucket of distances."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from posbench.base.errors import ConfigError
from posbench.core.attention import Attention
from posbench.core.encoding import PositionEncoding


class T5(PositionEncoding):
    r"""Distances fall into buckets that widen with distance; each has a learned bias in every head.

    $B_{ij} = E[\text{bucket}(i - j), h]$, a learned bias for each bucket of distances and head
    (arXiv 1910.10683, section 2.1).

    Half of the buckets hold one distance each, the rest grow logarithmically up to `max_distance`;
    the last one holds everything further and begins before `max_distance` (at 113 of 128). One
    table serves all layers. E starts at $N(0, 1/D)$, as in T5. T5 itself leaves out the scale
    $1/\sqrt{d_h}$; here scores are scaled for every encoding alike and the bias is added after the
    scale. Beyond the training length all new distances fall into the last bucket. The published
    `max_distance` of 128 is a quarter of the training length of 512, and 16 distances have a bucket
    of their own; a quarter of a few dozen positions is fewer than that. So the default is all
    trained positions, with half as many buckets, at most 32.
    """

    shared = ("table",)
    handles = PositionEncoding.handles | {"distance", "positions"}

    def __init__(
        self, num_heads: int, model_width: int, num_buckets: int, max_distance: int
    ) -> None:
        super().__init__()
        if num_buckets < 2:
            raise ConfigError(f"T5 needs at least 2 buckets, got num_buckets={num_buckets}")
        if max_distance <= num_buckets // 2:
            raise ConfigError(
                f"max_distance={max_distance} must exceed the {num_buckets // 2} distances that "
                f"have a bucket of their own: raise it or lower num_buckets={num_buckets}"
            )
        self.num_buckets = num_buckets
        self.max_distance = max_distance
        self.table = nn.Parameter(model_width**-0.5 * torch.randn(num_buckets, num_heads))

    def encode(self, a: Attention) -> Attention:
        def term(rows: slice) -> Tensor:
            return self.table[self.bucket(a.distance(rows))].movedim(
                -1, 1
            )  # [batch|1, heads, rows, keys]

        return a.plus(term)

    def bucket(self, distance: Tensor) -> Tensor:
        return t5_bucket(distance, self.num_buckets, self.max_distance)


def t5_bucket(
    distance: Tensor, num_buckets: int, max_distance: int, bidirectional: bool = False
) -> Tensor:
    r"""The bucket of d = i - j, an integer tensor of the shape of `distance`.

    With e = `num_buckets` / 2: d for d < e, else $e + \lfloor (N - e)\ln(d/e) / \ln(M/e) \rfloor$,
    at most N - 1; negative d counts as 0. `bidirectional` halves the buckets and uses the second
    half for d < 0.
    """
    offset = torch.zeros_like(distance, dtype=torch.long)
    if bidirectional:
        num_buckets //= 2
        offset = (distance < 0).long() * num_buckets
        distance = distance.abs()
    distance = distance.clamp(min=0)
    exact = num_buckets // 2
    # The logarithm in float32, as the published models have it: it fixes which side of an edge a
    # distance falls.
    ratio = distance.clamp(min=exact).float() / exact
    far = exact + (ratio.log() / math.log(max_distance / exact) * (num_buckets - exact)).long()
    return offset + torch.where(distance < exact, distance.long(), far.clamp(max=num_buckets - 1))
