"""Trained rows resampled linearly to more positions."""

from __future__ import annotations

import torch
from torch import Tensor

from posbench.encoding import PositionEncoding
from posbench.errors import ConfigError
from posbench.extension import Scaled
from posbench.extensions.combined_rows import Combined, Rows


class TableInterpolation(Scaled):
    r"""$P'_p = (1 - f)\,P_{\lfloor u \rfloor} + f\,P_{\lceil u \rceil}$ with $u =
    p\,\frac{L-1}{L'-1}$ and $f = u - \lfloor u \rfloor$: the trained rows, resampled linearly so
    that the first and the last stay the ends.

    For images ViT (arXiv 2010.11929) resamples in two dimensions, before training goes on; on text
    and without training it is position interpolation for tables. Neighbours differ less than any
    two trained rows did, and a mean of two rows is shorter than either. $L' = \max(L,
    \text{test})$, or L times `scale`: then the training length is changed too.
    """

    needs = "rows"

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
        old, new = train_positions - 1, longest - 1

        def combination(rows: Rows, pos: Tensor) -> Tensor:
            # In integers: u of a whole row must not come out a little below it.
            low, rest = pos * old // new, pos * old % new
            below = rows(low)
            share = (rest.to(torch.promote_types(below.dtype, torch.float32)) / new).to(
                below.dtype
            )[..., None]
            return below + share * (rows(low + (rest > 0)) - below)

        limit = encoding.max_positions
        return Combined(
            encoding, combination, None if limit is None else (limit - 1) * new // old + 1
        )
