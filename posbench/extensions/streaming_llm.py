"""StreamingLLM: the first keys and the last ones, as if they were neighbours."""

from __future__ import annotations

import torch
from torch import Tensor

from posbench.core.attention import Attention
from posbench.core.masks import Visible
from posbench.extensions.distances import below, counted, first_and_recent
from posbench.extensions.regions import Region, RegionExtension


class StreamingLLM(RegionExtension):
    r"""Each query sees the first keys and the last ones, at their places among these.

    Only the first S keys (sinks) and the last w are seen, at their places among these: a sink t
    at $d' = \min(i,\, S + w - 1) - t$, the others at d (StreamingLLM, arXiv 2309.17453).

    Counted positions are places in a cache of S + w keys, the query's own included. With positions
    that are not counted from 0 the same: those between the last sink and the first recent key are
    taken out of the query's, so that both are neighbours. Published S = 4, `sinks`, with w up to
    the training length of 2,048 or 4,096, and one where every training begins with the same token,
    as here. w, `window`, left out (null) is L - S: the cache holds L keys, nothing changes at the
    training length, and beyond it no distance is new. Keys in between are not seen at all: what is
    there cannot be retrieved but through the layers.
    """

    def __init__(self, sinks: int, window: int | None = None) -> None:
        counted("sinks", sinks)
        counted("window", window)
        self.sinks = sinks
        self.window = window

    @property
    def is_identity(self) -> bool:
        return self.window is None

    def recent(self, train_positions: int) -> int:
        if self.window is None:
            below("sinks", self.sinks, train_positions)
        return self.window or train_positions - self.sinks

    def regions(self, train_positions: int, test_positions: int) -> list[Region]:
        sinks, window = self.sinks, self.recent(train_positions)

        def places(a: Attention) -> tuple[Tensor, Tensor]:
            oldest = (torch.arange(a.num_queries, device=a.q.device) - window + 1).clamp(min=0)
            last = min(sinks, a.num_queries) - 1
            evicted = a.k_pos[:, oldest] - a.k_pos[:, last, None] - 1
            return a.q_pos - torch.where(oldest > sinks, evicted, 0), a.k_pos

        def first(a: Attention, rows: slice) -> Tensor:
            return (torch.arange(a.num_queries, device=a.q.device) < sinks)[None, None]

        return [Region(), Region(places, first)]

    def visible(self, train_positions: int) -> Visible:
        return first_and_recent(self.sinks, self.recent(train_positions))
