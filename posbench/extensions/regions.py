"""What all extensions that change distances share: a list of regions of the causal triangle.

A score of most hosts depends on the positions of its query and key alone. An extension that gives
far keys other distances encodes the host once for each region, at other positions, and takes every
score from the region that the pair is in. The distances of a region are differences q' - k' of two
maps of positions; a map that is no difference needs more regions.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from posbench.base.errors import IllegalExtension
from posbench.core.attention import Attention, Heads, Plan, Regions, Term
from posbench.core.encoding import PositionEncoding, Wrapper
from posbench.core.extension import Extension
from posbench.core.masks import Masked, Visible

Which = Callable[[Attention, slice], Tensor]
"""(call, rows) -> [batch|1, rows, keys], True for some pairs of a query and a key"""
Places = Callable[[Attention], tuple[Tensor, Tensor]]
"""call -> positions of queries and of keys, [batch|1, n] each"""


def as_they_are(a: Attention) -> tuple[Tensor, Tensor]:
    return a.q_pos, a.k_pos


def from_the_first(a: Attention) -> tuple[Tensor, Tensor]:
    """Positions counted from the first token: groups must not move when all are shifted."""
    return a.q_pos - a.k_pos[:, :1], a.k_pos - a.k_pos[:, :1]


def at_least(distance: float) -> Which:
    """The keys at that distance or further, by position."""
    return lambda a, rows: a.distance(rows) >= distance


def beyond(distance: float) -> Which:
    """The keys further away than that, by position."""
    return lambda a, rows: a.distance(rows) > distance


@dataclass(frozen=True)
class Region:
    """The keys that a query sees from `places`; without `keys`, all that no other region has."""

    places: Places = as_they_are
    keys: Which | None = None


class Regional(Wrapper):
    r"""The host seen from several places: $z_{ij} = z^{host}\bigl(q'_r(i),\, k'_r(j)\bigr)$ for the
    region r of (i, j).

    `regions` are disjoint and the first takes what the others leave, so that each pair is in
    exactly one. A host that knows whole positions only is given the floor of fractions.

    There is no longer one distance that another extension could change. Frequencies, temperature
    and masks remain.
    """

    def __init__(self, host: PositionEncoding, regions: Sequence[Region]) -> None:
        super().__init__(host)
        self.regions = tuple(regions)
        self.handles = host.handles - {"distance"}

    def encode(self, a: Attention) -> Plan:
        plans = []
        for region in self.regions:
            q_pos, k_pos = region.places(a)
            if not (
                self.host.float_positions or a.k_pos.is_floating_point()
            ):  # fractions of our own making alone
                q_pos, k_pos = q_pos.floor().long(), k_pos.floor().long()
            plans.append(self.host.encode(a.at(q_pos, k_pos)))

        def select(rows: slice) -> Tensor:
            """The index of the region of every pair, [batch|1, 1, rows, keys]."""
            index = torch.zeros((), dtype=torch.uint8, device=a.q.device)
            for number, region in enumerate(self.regions):
                if region.keys is not None:
                    index = torch.where(region.keys(a, rows), number, index)
            return index[:, None]

        return plans[0] if len(plans) == 1 else joined(select, plans)


def joined(select: Term, plans: Sequence[Plan]) -> Plan:
    """One plan whose scores come from `plans[select(rows)]`; heads that are split stay split."""
    if all(isinstance(plan, Heads) for plan in plans):
        return Heads(
            tuple(
                joined(select, parts)
                for parts in zip(*(plan.parts for plan in plans), strict=True)  # type: ignore[attr-defined]
            )
        )
    calls = [plan for plan in plans if isinstance(plan, Attention) and plan.finish is None]
    if len(calls) < len(plans):
        raise IllegalExtension(
            "this host maps its finished outputs by position, or its keys are in regions already: "
            "where a key has several positions neither has a meaning; choose another extension, "
            "or another host"
        )
    return Regions(select, tuple(calls))


class RegionExtension(Extension):
    """A list of regions, for any host whose scores depend on positions by their distance."""

    needs = "distance"

    @abstractmethod
    def regions(self, train_positions: int, test_positions: int) -> list[Region]:
        """Disjoint; the first takes what the others leave."""

    def visible(self, train_positions: int) -> Visible | None:
        """What attention may still see, None for everything."""
        return None

    def apply(
        self, encoding: PositionEncoding, train_positions: int, test_positions: int
    ) -> PositionEncoding:
        visible = self.visible(train_positions)
        seen = encoding if visible is None else Masked(encoding, visible)
        return Regional(seen, self.regions(train_positions, test_positions))
