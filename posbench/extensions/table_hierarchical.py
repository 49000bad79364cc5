"""Positions of two digits, each with a trained row."""

from __future__ import annotations

from torch import Tensor

from posbench.base.errors import ConfigError
from posbench.core.encoding import PositionEncoding
from posbench.core.extension import Extension
from posbench.extensions.combined_rows import Combined, Rows


class TableHierarchical(Extension):
    r"""New rows of a position table are made of pairs of trained ones, as digits make a number.

    $P'_{iL+j} = a\,u_i + (1-a)\,u_j$ with $u_i = \frac{P_i - a P_0}{1-a}$ for $0 \le i, j < L$
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
                f"{test_positions}: shorten evaluation.longest, or choose "
                "extension=table_interpolation"
            )

        def combination(rows: Rows, pos: Tensor) -> Tensor:
            return rows(pos % base) + weight * (rows(pos // base) - rows(pos * 0))

        limit = encoding.max_positions
        return Combined(encoding, combination, None if limit is None else limit * base)
