"""Positions that are random real numbers, in order."""

from __future__ import annotations

import torch
from torch import Tensor

from posbench.base.errors import ConfigError
from posbench.core.encoding import Draw, PositionEncoding
from posbench.encodings.sampled import Sampled, require_floats


class RandomFloats(Sampled):
    r"""In training the host's positions are sorted real numbers, drawn from a long range.

    Positions $p_0 \le p_1 \le \dots$, uniform real numbers from $[0, N)$ in order, N =
    `largest` (random float sampling, arXiv 2602.14050).

    One draw for a batch, in training and at evaluation. Any number of tokens fits into the same
    range; what changes with length is how densely, and training has shown gaps of all sizes. Ids of
    a task are mapped, $p_{id}$, so that those which are equal stay equal. The host must accept
    positions that are not whole numbers.
    """

    def __init__(self, host: PositionEncoding, largest: int) -> None:
        super().__init__(host)
        if largest < 1:
            raise ConfigError(
                f"largest is the end of the range of positions, at least 1, got {largest}"
            )
        require_floats(host, "random_floats")
        self.largest = largest

    def positions(self, ids: Tensor, draw: Draw) -> Tensor:
        drawn = (
            self.largest * torch.rand(int(ids.max()) + 1, generator=draw.generator).sort().values
        )
        return self.host.positions(drawn[ids], draw)

    def span(self, length: int, training: bool = False) -> int:
        return self.host.span(self.largest, training)
