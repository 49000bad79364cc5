r"""Extensions of tables with a trained row $P_p$ a position: more positions out of the same L rows.

None makes a row of its own: each new one is a combination of trained rows, with weights that add up
to 1. An encoding that offers its rows puts the row of p into the token of p and is affine in it, as
x + P and x (1 + P) are, so that combining rows is combining what it makes of the token.
"""

from __future__ import annotations

from collections.abc import Callable

from torch import Tensor

from posbench.core.encoding import PositionEncoding, Wrapper

Rows = Callable[[Tensor], Tensor]
"""row numbers [batch|1, n] -> the tokens with these rows, [batch, n, width]"""
Combination = Callable[[Rows, Tensor], Tensor]
"""(rows, positions [batch|1, n]) -> the tokens with the rows that these positions have now"""


class Combined(Wrapper):
    """The host, with a combination of its rows for each position; they are not offered again."""

    def __init__(
        self, host: PositionEncoding, combination: Combination, max_positions: int | None
    ) -> None:
        super().__init__(host)
        self.combination = combination
        self.max_positions = max_positions
        self.handles = host.handles - {"rows"}

    def embed(self, x: Tensor, pos: Tensor) -> Tensor:
        return self.combination(lambda row: self.host.embed(x, row), pos)
