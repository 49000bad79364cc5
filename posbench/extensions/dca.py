"""Dual chunk attention: exact within a chunk, and no distance larger than trained."""

from __future__ import annotations

import torch
from torch import Tensor

from posbench.attention import Attention
from posbench.errors import ConfigError
from posbench.extensions.distances import chunks_back, counted
from posbench.extensions.regions import Region, RegionExtension, from_the_first


class DCA(RegionExtension):
    r"""$d' = q' - (j \bmod s)$ with $q' = i \bmod s$ for keys of the query's own chunk, $\min(i
    \bmod s + s,\, c - 1)$ for those of the one before, $c - 1$ for all earlier ones, and chunks of
    $s = c - w$ positions (dual chunk attention, ChunkLlama, arXiv 2402.17463).

    Distances up to `window` w are exact, none reaches `largest` c, and no distance is new at any
    length while c does not exceed L. Keys of earlier chunks keep their order within a chunk, but
    chunks are not told apart. The authors' code has c = 3 L/4 and w = L/8 (in another version
    L/16), and c and $\min(2s - 1, c)$ where the paper has c - 1: this is the paper, at those
    settings. So far keys are put together also at the training length, unless a chunk covers it.
    Chunks are counted from the first token. The code's temperature, 1 up to L, is left out.
    """

    is_identity = False

    def __init__(self, largest: int, window: int) -> None:
        counted("window", window)
        self.largest = largest
        self.window = window

    def regions(self, train_positions: int, test_positions: int) -> list[Region]:
        size, largest = self.largest - self.window, self.largest - 1
        if size < 1:
            raise ConfigError(
                f"chunks have largest - window positions: largest={self.largest} must exceed "
                f"window={self.window}"
            )

        def next_chunk(a: Attention) -> tuple[Tensor, Tensor]:
            i, j = from_the_first(a)
            return (i % size + size).clamp(max=largest), j % size

        def later_chunk(a: Attention) -> tuple[Tensor, Tensor]:
            return torch.full_like(a.q_pos, largest), from_the_first(a)[1] % size

        return [
            Region(),
            Region(next_chunk, lambda a, rows: chunks_back(a, rows, size) == 1),
            Region(later_chunk, lambda a, rows: chunks_back(a, rows, size) >= 2),
        ]
