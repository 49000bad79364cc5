"""LM-Infinite: the first keys and the last ones, at distances with a cap."""

from __future__ import annotations

from posbench.core.masks import Visible
from posbench.extensions.distances import capped, counted, first_and_recent
from posbench.extensions.regions import Region, RegionExtension


class LMInfinite(RegionExtension):
    r"""Each query sees the first keys and the last ones, and distances are clipped.

    $d' = \min(d, w)$, and only the first keys and the last w are seen (Lambda-shaped mask,
    LM-Infinite, arXiv 2308.16137).

    The mask counts keys: `first` n keys of the sequence by index, and of the others those at
    offsets below `window` w. The cap goes by positions. w left out (null) is L, as published, and
    nothing changes at the training length; the first keys are then at most one position further
    than in training. Published n = 10 to 100 at 2,048 and 4,096. Keys in between are not seen at
    all: what is there cannot be retrieved but through the layers. The optional logarithm of the
    number of keys as temperature is left out.
    """

    def __init__(self, first: int, window: int | None = None) -> None:
        counted("first", first, low=0)
        counted("window", window)
        self.first = first
        self.window = window

    @property
    def is_identity(self) -> bool:
        return self.window is None

    def regions(self, train_positions: int, test_positions: int) -> list[Region]:
        return [Region(), capped(self.window or train_positions)]

    def visible(self, train_positions: int) -> Visible:
        return first_and_recent(self.first, self.window or train_positions)
