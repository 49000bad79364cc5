"""Blocks at test time: a query sees the keys of its own block and of the one before."""

from __future__ import annotations

from posbench.core.masks import Visible
from posbench.extensions.mask import Mask


class BlockCausal(Mask):
    r"""Each query sees the keys of its own block and of the block before.

    A query i sees the keys $j \le i$ with $\lfloor i/b \rfloor - \lfloor j/b \rfloor \le 1$
    (blockwise causal attention of xPos, arXiv 2212.10554).

    `block` b, left out, is half of the positions seen in training, as published, rounded up, so
    that the two blocks of a training sequence see each other. Later queries see from b + 1 to 2 b
    keys by their place in the block. Where L is odd the last query of a block looks back L
    positions, one more than in training. Published for xPos, legal on any encoding.
    """

    def __init__(self, block: int | None = None) -> None:
        super().__init__(block, "block")

    def usual(self, train_positions: int) -> int:
        return -(-train_positions // 2)

    def visible(self, size: int) -> Visible:
        return lambda i, j: i // size - j // size <= 1
