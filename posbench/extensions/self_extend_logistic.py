"""SELF: Self-Extend with groups that grow as a logistic function."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass

import torch
from torch import Tensor

from posbench.base.errors import ConfigError
from posbench.core.attention import Attention
from posbench.extensions.distances import Shrinking, below, counted, smallest
from posbench.extensions.regions import Region, at_least, from_the_first


class LogisticSelfExtend(Shrinking):
    r"""Near distances stay, and positions further away share numbers in groups that grow as a
    logistic function.

    $d' = d$ for $d < W$, else $W + g(i - W) - g(j)$, where g numbers groups from the first token
    on, and group $x = 0, 1, \ldots$ has $\lfloor C / (1 + (C - 1) e^{-\rho x}) \rfloor$ tokens
    (SELF, arXiv 2505.17296).

    The first groups have one token each, the last ones C - 1; `rate` $\rho$ says how soon they
    grow. The authors' code has $\rho = 0.02$ and C the group size of `SelfExtend`, with W = 1,024
    of 4,096 (`window`). Left out (null), `capacity` C is the smallest with which no distance of the
    test is new, for each test length its own, and nothing changes at the training length. At the
    edge of the window d' is W, without a step.

    Of the paper only the abstract could be read, which says that groups grow with the distance; the
    formula is that of the authors' code. It numbers groups from the first token, so that of a
    query's far keys those at the edge of the window share large groups and the first tokens have
    small ones. Its code for prompts puts the first two tokens into one group; when it decodes, it
    does not, but takes W for C and turns the order of the far keys round. Here the groups are those
    of decoding, and order and C those of the prompt.
    """

    def __init__(self, window: int, rate: float, capacity: int | None = None) -> None:
        counted("window", window)
        counted("capacity", capacity)
        if not 0 < rate < math.inf:
            raise ConfigError(
                f"rate is the growth of groups and must exceed 0 and be finite, got {rate}"
            )
        self.window = window
        self.rate = rate
        self.factor = capacity

    @property
    def is_identity(self) -> bool:
        return self.factor is None or self.factor <= 2  # the largest groups have one token less

    def regions(self, train_positions: int, test_positions: int) -> list[Region]:
        window, capacity = self.window, self.factor
        if capacity is None:
            capacity = self.smallest(train_positions, test_positions)
        groups = LogisticGroups.of(capacity, self.rate)

        def places(a: Attention) -> tuple[Tensor, Tensor]:
            i, j = from_the_first(a)
            return window + groups.numbers(i - window), groups.numbers(j)

        return [Region(), Region(places, at_least(window))]

    def smallest(self, train_positions: int, test_positions: int) -> int:
        """The smallest C without a new distance in the test; ConfigError if there is none."""
        below("window", self.window, train_positions)
        last = test_positions - 1 - self.window

        def furthest(capacity: float) -> int:
            return self.window + LogisticGroups.of(capacity, self.rate, last).number(last)

        if furthest(math.inf) >= train_positions:
            raise ConfigError(
                f"rate={self.rate} lets groups grow too slowly: no capacity puts {test_positions} "
                f"positions at the {train_positions} of training; choose a larger rate"
            )
        return smallest(furthest, train_positions)


@dataclass(frozen=True)
class LogisticGroups:
    """Groups of tokens one after the other: where each begins, up to the first of the largest."""

    starts: tuple[int, ...]
    largest: int

    @classmethod
    def of(cls, capacity: float, rate: float, last: float = math.inf) -> LogisticGroups:
        """Those of C and the rate; as far as the last position, where C may be infinite."""
        starts = [0]
        for x in itertools.count():
            shrink = math.exp(-rate * x)
            grown = capacity / (1 + (capacity - 1) * shrink) if capacity < math.inf else 1 / shrink
            size = max(1, min(math.floor(grown), capacity - 1))  # rounding may reach C itself
            if size >= capacity - 1 or starts[-1] > last:
                return cls(tuple(starts), int(size))
            starts.append(starts[-1] + int(size))
        raise AssertionError

    def number(self, pos: int) -> int:
        return int(self.numbers(torch.tensor([pos]))[0])

    def numbers(self, pos: Tensor) -> Tensor:
        """The number of the group of each position; before the first token groups have one token.

        Groups of one leave fractions of positions as they are.
        """
        if self.largest == 1:
            return pos
        starts = torch.tensor(self.starts, dtype=pos.dtype, device=pos.device)
        grown = len(self.starts) - 1 + (pos - self.starts[-1]) // self.largest
        growing = torch.searchsorted(starts, pos.contiguous(), right=True) - 1
        number = torch.where(pos >= self.starts[-1], grown, growing.to(pos.dtype))
        return torch.where(pos < 0, pos.floor(), number)
