"""Dual chunk attention: exact within a chunk, and no distance larger than trained."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from posbench.base.errors import ConfigError
from posbench.core.attention import Attention
from posbench.extensions.distances import chunks_back, counted
from posbench.extensions.regions import Region, RegionExtension, from_the_first

CAPS: dict[str, Callable[[int, int], tuple[int, int]]] = {
    "paper": lambda c, s: (c - 1, c - 1),
    "code": lambda c, s: (c, min(2 * s - 1, c)),
}
"""(c, s) -> the largest position of a query for keys of the chunk before, and for those of earlier
ones."""


class DCA(RegionExtension):
    r"""Text is cut into chunks; distances within and between chunks are remapped into the trained
    range.

    $d' = q' - (j \bmod s)$ with $q' = i \bmod s$ for keys of the query's own chunk, $\min(i
    \bmod s + s,\, c - 1)$ for those of the one before, $c - 1$ for all earlier ones, and chunks of
    $s = c - w$ positions (dual chunk attention, ChunkLlama, arXiv 2402.17463).

    Distances up to `window` w are exact, none reaches `largest` c, and no distance is new at any
    length while c does not exceed L. Keys of earlier chunks keep their order within a chunk, but
    the order of the chunks is lost. Chunks are counted from the first token. c left out (null) is
    L, and w left out a quarter of c (rounded), as published: then two chunks cover L, and nothing
    changes at the training length. With c < L far keys are put together there already.

    `caps` is the largest position of a query: "paper" as above; with "code", as in the authors'
    code, c for the chunk before and $\min(2s - 1, c)$ for earlier ones, so that c itself is used
    and distances may be exact up to w + 1. That code has c = 3 L/4 and w = L/8 (in another version
    L/16). Its temperature, 1 up to L, is left out.
    """

    def __init__(
        self, largest: int | None = None, window: int | None = None, caps: str = "paper"
    ) -> None:
        counted("window", window)
        if caps not in CAPS:
            raise ConfigError(f"caps must be one of {', '.join(CAPS)}, got {caps!r}")
        self.largest = largest
        self.window = window
        self.caps = CAPS[caps]

    @property
    def is_identity(self) -> bool:
        return self.largest is None and self.window is None

    def regions(self, train_positions: int, test_positions: int) -> list[Region]:
        largest = self.largest or train_positions
        window = self.window or max(1, round(largest / 4))
        size = largest - window
        next_cap, later_cap = self.caps(largest, size)
        if size < 1:
            raise ConfigError(
                f"chunks have largest - window positions: largest={largest} must exceed "
                f"window={window}"
            )

        def next_chunk(a: Attention) -> tuple[Tensor, Tensor]:
            i, j = from_the_first(a)
            return (i % size + size).clamp(max=next_cap), j % size

        def later_chunk(a: Attention) -> tuple[Tensor, Tensor]:
            return torch.full_like(a.q_pos, later_cap), from_the_first(a)[1] % size

        return [
            Region(),
            Region(next_chunk, lambda a, rows: chunks_back(a, rows, size) == 1),
            Region(later_chunk, lambda a, rows: chunks_back(a, rows, size) >= 2),
        ]
