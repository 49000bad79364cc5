"""Distances cut off at the largest trained one."""

from __future__ import annotations

from posbench.extensions.distances import capped, counted
from posbench.extensions.regions import Region, RegionExtension


class Clamp(RegionExtension):
    r"""Distances beyond the longest trained one count as that one.

    $d' = \min(d, c)$: `ReRoPE` at the largest trained distance (`clamp_len` of Transformer-XL,
    arXiv 1901.02860).

    c is `largest`, or L - 1 where it is left out (null): nothing changes at the training length,
    and beyond it no distance is new. Published for Transformer-XL with c = 400 to 1,000, beyond its
    training length. Encodings that clip distances below c themselves (T5, Shaw, DeBERTa) have this
    already, and it changes nothing.
    """

    def __init__(self, largest: int | None = None) -> None:
        counted("largest", largest)
        self.largest = largest

    @property
    def is_identity(self) -> bool:
        return self.largest is None

    def regions(self, train_positions: int, test_positions: int) -> list[Region]:
        return [Region(), capped(train_positions - 1 if self.largest is None else self.largest)]
