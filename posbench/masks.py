"""Which keys a query may see, by index, around any host."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from posbench.attention import Attention, Plan
from posbench.encoding import PositionEncoding, Wrapper

Visible = Callable[[Tensor, Tensor], Tensor]
"""(index of the query [rows, 1], of the key [1, keys]) -> True where the key may be seen, causality
aside.
"""


class Masked(Wrapper):
    """The host, with a query seeing only the earlier keys that are `visible`; indices, not
    positions, decide.

    What the host counts or sums over keys it does over those that are seen. A query must always see
    itself.
    """

    def __init__(self, host: PositionEncoding, visible: Visible) -> None:
        super().__init__(host)
        self.visible = visible

    def encode(self, a: Attention) -> Plan:
        index = torch.arange(a.num_queries, device=a.q.device)
        return self.host.encode(
            a.where(lambda rows: self.visible(index[rows, None], index[None])[None, None])
        )
