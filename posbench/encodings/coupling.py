"""Position coupling: tokens that correspond have the same position."""

from __future__ import annotations

import torch
from torch import Tensor

from posbench.base.errors import ConfigError
from posbench.core.encoding import Draw, PositionEncoding, Wrapper
from posbench.encodings.supplied_ids import room


class Coupling(Wrapper):
    r"""Tokens that correspond to each other share a position; positions begin at random.

    $p_t = s + \mathrm{id}_t$, where tokens that correspond share an id of the task; s is a
    random start (position coupling, arXiv 2405.20671).

    The host is told that a token and the one it is to repeat or to add have the same position.
    In training the start is drawn for each sequence from all that fit, 0 to N - 1 - max id with N =
    `largest`, so that every position of the longest test is trained; at evaluation it is 0. The
    paper's host is a learned table of N rows; a relative host does not notice the start. The
    structure of the task is given, not learned: rows of this method compare with those that are
    given it as well.
    """

    ids = "coupled"
    method_class = "task-supplied ids"

    def __init__(self, host: PositionEncoding, largest: int) -> None:
        super().__init__(host)
        if largest < 1:
            raise ConfigError(
                f"largest is the number of positions that ids may take, at least 1, got {largest}"
            )
        self.largest = largest

    def positions(self, ids: Tensor, draw: Draw) -> Tensor:
        starts = room(ids, self.largest, "largest")
        if draw.training:
            ids = ids + torch.randint(starts, (draw.batch_size, 1), generator=draw.generator)
        return self.host.positions(ids, draw)

    def span(self, length: int, training: bool = False) -> int:
        return self.host.span(self.largest, training)
