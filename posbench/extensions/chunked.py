"""Chunks at test time: a query sees the keys of its own chunk."""

from __future__ import annotations

from posbench.core.masks import Visible
from posbench.extensions.mask import Mask


class Chunked(Mask):
    r"""Each query sees only the keys of its own chunk.

    A query i sees the keys $j \le i$ of its own chunk, $\lfloor i/c \rfloor = \lfloor j/c
    \rfloor$ (Llama 4 in transformers, in three layers of four with c = 8192, trained so).

    `chunk` c, left out, is the positions seen in training. Every chunk is then a training sequence
    of its own, and nothing passes from one to the next: the first query of a chunk sees itself
    alone, and what was asked in another chunk is out of reach. A lower bound for whatever carries
    information further.
    """

    def __init__(self, chunk: int | None = None) -> None:
        super().__init__(chunk, "chunk")

    def usual(self, train_positions: int) -> int:
        return train_positions

    def visible(self, size: int) -> Visible:
        return lambda i, j: i // size == j // size
