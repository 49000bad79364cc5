"""Attention that sees only the last tokens."""

from __future__ import annotations

from posbench.base.errors import ConfigError
from posbench.core.encoding import PositionEncoding
from posbench.core.masks import Masked


class SlidingWindow(Masked):
    r"""The host, with each query seeing only itself and the keys just before it.

    The host, with a query i seeing only the keys $i - w < j \le i$: itself and the w - 1 before
    it.

    That is the convention of transformers (Mistral, Gemma); Longformer (arXiv 2004.05150) counts
    w/2 on each side, x-transformers w keys before its own. Offsets are counted by index, so that w
    keys are seen whatever positions the host is given. No distance is new beyond the training
    length, but l layers of windows see at most l (w - 1) tokens back: alone it cannot retrieve from
    further away. Layers without a window beside it can (arXiv 2501.18795: RoPE in windows, NoPE in
    full layers).
    """

    def __init__(self, host: PositionEncoding, window: int) -> None:
        if window < 1:
            raise ConfigError(
                f"window counts the query's own key and must be at least 1, got {window}"
            )
        super().__init__(host, lambda query, key: query - key < window)
        self.window = window
