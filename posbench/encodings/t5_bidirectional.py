"""T5 with buckets of their own for later keys."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from posbench.encodings.t5 import T5, t5_bucket


class BidirectionalT5(T5):
    r"""T5 with separate buckets for later keys, as in T5's encoder.

    $B_{ij} = E[\text{bucket}(|i - j|) + N\,[i < j], h]$ (`T5`, arXiv 1910.10683).

    Attention stays causal: what is later here is a key seen already whose position lies beyond the
    query's, as ids supplied by a task may have it. Where positions count up, the second half of the
    table is never used and the rest is `T5`. `num_buckets` N counts those of one direction (T5's
    own 32 count both). Beyond the training length as T5.
    """

    def __init__(
        self, num_heads: int, model_width: int, num_buckets: int, max_distance: int
    ) -> None:
        super().__init__(num_heads, model_width, num_buckets, max_distance)
        self.table = nn.Parameter(model_width**-0.5 * torch.randn(2 * num_buckets, num_heads))

    def bucket(self, distance: Tensor) -> Tensor:
        return t5_bucket(distance, 2 * self.num_buckets, self.max_distance, bidirectional=True)
