"""Trained rows resampled linearly to more positions."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from posbench.base.errors import ConfigError
from posbench.core.encoding import PositionEncoding
from posbench.core.extension import Scaled
from posbench.extensions.combined_rows import Combined, Rows

ALIGN: dict[str, Callable[[int, int], tuple[int, int, int]]] = {
    "corners": lambda old, new: (old - 1, 0, new - 1),
    "ratio": lambda old, new: (old, 0, new),
    "half_pixels": lambda old, new: (2 * old, old - new, 2 * new),
}
"""(L, L') -> a, b, c of u = (a p + b) / c; whole, so that u of a row never comes out below it"""


class TableInterpolation(Scaled):
    r"""The trained rows of a position table are stretched over the longer text by linear
    interpolation.

    $P'_p = (1 - f)\,P_{\lfloor u \rfloor} + f\,P_{\lceil u \rceil}$ with $u =
    p\,\frac{L-1}{L'-1}$ and $f = u - \lfloor u \rfloor$: the trained rows, resampled linearly so
    that the first and the last stay the ends.

    For images ViT (arXiv 2010.11929) resamples in two dimensions, before training goes on; on text
    and without training it is position interpolation for tables. Neighbours differ less than any
    two trained rows did, and a mean of two rows is shorter than either. $L' = \max(L,
    \text{test})$, or L times `scale`: then the training length is changed too.

    `align` is "corners" as above (torch's align_corners), "ratio" with $u = p\,L/L'$, as PI divides
    positions, or "half_pixels" with $u = (p + 1/2)\,L/L' - 1/2$, torch's default and what ViTs in
    transformers do, in two dimensions and with cubics. Both others keep u from 0 to L - 1: the last
    few positions, and with half pixels the first few as well, share a row, and all do that lie
    beyond L times `scale`.
    """

    needs = "rows"

    def __init__(self, scale: float | None = None, align: str = "corners") -> None:
        super().__init__(scale)
        if align not in ALIGN:
            raise ConfigError(f"align must be one of {', '.join(ALIGN)}, got {align!r}")
        self.align = ALIGN[align]

    def apply(
        self, encoding: PositionEncoding, train_positions: int, test_positions: int
    ) -> PositionEncoding:
        if train_positions < 2:
            raise ConfigError(
                f"interpolation needs two trained rows, and training has seen {train_positions} "
                "position"
            )
        longest = (
            max(train_positions, test_positions)
            if self.scale is None
            else round(self.scale * train_positions)
        )
        slope, start, unit = self.align(train_positions, longest)
        last = (train_positions - 1) * unit
        beyond = slope * (longest - 1) + start > last  # then the ends are shared

        def combination(rows: Rows, pos: Tensor) -> Tensor:
            place = pos * slope + start
            if beyond:
                place = place.clamp(0, last)
            low, rest = place // unit, place % unit
            below = rows(low)
            share = (rest.to(torch.promote_types(below.dtype, torch.float32)) / unit).to(
                below.dtype
            )[..., None]
            return below + share * (rows(low + (rest > 0)) - below)

        limit = None if beyond else encoding.max_positions
        return Combined(
            encoding, combination, None if limit is None else (limit - 1) * unit // slope + 1
        )
