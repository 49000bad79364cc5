r"""Extensions of tables with a trained row $P_p$ a position: more positions out of the same L rows.

None makes a row of its own: each new one is a combination of trained rows, with weights that add up
to 1. An encoding that offers its rows puts the row of p into the token of p and is affine in it, as
x + P and x (1 + P) are, so that combining rows is combining what it makes of the token.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from posbench.encoding import PositionEncoding, Wrapper
from posbench.errors import ConfigError
from posbench.extension import Extension, Scaled

Rows = Callable[[Tensor], Tensor]
"""row numbers [batch|1, n] -> the tokens with these rows, [batch, n, width]"""
Combination = Callable[[Rows, Tensor], Tensor]
"""(rows, positions [batch|1, n]) -> the tokens with the rows that these positions have now"""


class Combined(Wrapper):
    """The host, with a combination of its rows for each position. Rows combined once are not
    offered again.
    """

    def __init__(
        self, host: PositionEncoding, combination: Combination, max_positions: int | None
    ) -> None:
        super().__init__(host)
        self.combination = combination
        self.max_positions = max_positions
        self.handles = host.handles - {"rows"}

    def embed(self, x: Tensor, pos: Tensor) -> Tensor:
        return self.combination(lambda row: self.host.embed(x, row), pos)


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


class TableTiling(Extension):
    r"""$P'_p = P_{p \bmod L}$: the trained rows over and over (Longformer, arXiv 2004.05150,
    section 5, from RoBERTa's 512 to 4096).

    Every row is one that was trained, and near neighbours are as they were except across a seam.
    Tokens L apart share a row, by design: nothing in it tells them apart. Longformer goes on to
    train.
    """

    needs = "rows"

    def apply(
        self, encoding: PositionEncoding, train_positions: int, test_positions: int
    ) -> PositionEncoding:
        return Combined(encoding, lambda rows, pos: rows(pos % train_positions), None)


class TableHierarchical(Extension):
    r"""$P'_{iL+j} = a\,u_i + (1-a)\,u_j$ with $u_i = \frac{P_i - a P_0}{1-a}$ for $0 \le i, j < L$
    (J. Su, kexue.fm/archives/7947, with a = 0.4).

    That is $P_j + \frac{a}{1-a}\,(P_i - P_0)$: a position is a pair of digits, the lower by its own
    row, the upper by the way of a row from the first. The first L rows are unchanged, and there are
    up to $L^2$. At a = 1/2 positions iL + j and jL + i would share a row. Published with training
    after it.
    """

    needs = "rows"

    def __init__(self, a: float = 0.4) -> None:
        if not 0 < a < 1 or a == 0.5:
            raise ConfigError(
                f"a is the share of the upper digit, between 0 and 1 and not one half, got {a}"
            )
        self.a = a

    def apply(
        self, encoding: PositionEncoding, train_positions: int, test_positions: int
    ) -> PositionEncoding:
        base, weight = train_positions, self.a / (1 - self.a)
        if test_positions > base**2:
            raise ConfigError(
                f"{base} trained rows make {base**2} positions, and the longest test has "
                f"{test_positions}: shorten evaluation.multiples and evaluation.further, or choose "
                "extension=table_interpolation"
            )

        def combination(rows: Rows, pos: Tensor) -> Tensor:
            return rows(pos % base) + weight * (rows(pos // base) - rows(pos * 0))

        limit = encoding.max_positions
        return Combined(encoding, combination, None if limit is None else limit * base)
