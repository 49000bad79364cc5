"""Masks by index, around any host: which keys a query may see."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from posbench.core.attention import Attention, Plan
from posbench.core.encoding import PositionEncoding, Wrapper

Visible = Callable[[Tensor, Tensor], Tensor]
"""(query index [rows, 1], key index [1, keys]) -> True where a key is visible, causality aside."""


class Masked(Wrapper):
    """The host, with each query seeing only the earlier keys that are `visible`, by index.

    What the host counts or sums over keys, it counts or sums over the visible ones.
    A query must always see itself.
    """

    def __init__(self, host: PositionEncoding, visible: Visible) -> None:
        super().__init__(host)
        self.visible = visible

    def encode(self, a: Attention) -> Plan:
        index = torch.arange(a.num_queries, device=a.q.device)
        return self.host.encode(
            a.where(lambda rows: self.visible(index[rows, None], index[None])[None, None])
        )
