"""Positions that are a random subset of a longer range, in order."""

from __future__ import annotations

import torch
from torch import Tensor

from posbench.base.errors import ConfigError
from posbench.core.encoding import Draw, PositionEncoding
from posbench.encodings.sampled import Sampled


class RandomPositions(Sampled):
    r"""In training the host's positions are a sorted random choice from a long range.

    Positions $p_0 < p_1 < \dots$, a random subset of $\{0, \dots, N-1\}$ in order, N =
    `largest` (arXiv 2305.16843).

    One subset is drawn for a batch, in training and at evaluation. Every position that the longest
    test can use has been trained, and so has every distance below N: no test is beyond training,
    only denser. The price is that training shows few pairs of neighbouring positions. N must cover
    the longest test and is known before training; the published N is 2048 for 40 in training and
    500 in the test, the default is just what the tests need. Ids of a task are mapped, $p_{id}$, so
    that those which are equal stay equal. All layers see the same draw (the authors' code draws
    relative encodings anew in every layer).
    """

    def __init__(self, host: PositionEncoding, largest: int) -> None:
        super().__init__(host)
        if largest < 1:
            raise ConfigError(
                f"largest is the number of positions to draw from, at least 1, got {largest}"
            )
        self.largest = largest

    def positions(self, ids: Tensor, draw: Draw) -> Tensor:
        count = self._fits(int(ids.max()) + 1)
        drawn = torch.randperm(self.largest, generator=draw.generator)[:count].sort().values
        return self.host.positions(drawn[ids], draw)

    def span(self, length: int, training: bool = False) -> int:
        self._fits(length)
        return self.host.span(self.largest, training)

    def _fits(self, count: int) -> int:
        if count > self.largest:
            raise ConfigError(
                f"{count} positions cannot be drawn from largest={self.largest}: raise it to the "
                "longest test, or shorten evaluation.longest"
            )
        return count
