"""A window at test time: a query sees the last keys only."""

from __future__ import annotations

from posbench.core.masks import Visible
from posbench.extensions.mask import Mask


class SlidingWindow(Mask):
    r"""Each query sees only itself and the keys just before it.

    A query i sees the keys $i - w < j \le i$: itself and the w - 1 before it, as in the
    encoding of this name (the convention of Mistral in transformers; arXiv 2004.05150 counts w/2 on
    each side).

    `window` w, left out, is the positions seen in training: the first L queries see what they saw,
    later ones the last L keys, and the largest distance is L - 1 as in training. Through l layers
    information travels l (w - 1) tokens. Keys are counted by index: where positions are drawn from
    a range that training has filled, L is that range, which is longer than a training sequence.
    """

    def __init__(self, window: int | None = None) -> None:
        super().__init__(window, "window")

    def usual(self, train_positions: int) -> int:
        return train_positions

    def visible(self, size: int) -> Visible:
        return lambda i, j: i - j < size
