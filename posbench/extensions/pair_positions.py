r"""What extensions share that give every pair of channels positions of its own.

A host that turns its channels by $p\,\theta_m$ is told $p_m$ instead of p, at the query and at the
key: `q_pos` and `k_pos` have one more axis then, an entry for each frequency. Wrappers around the
host that turns keep the positions that they had.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from torch import Tensor

from posbench.base.errors import IllegalExtension
from posbench.core.attention import Attention, Plan
from posbench.core.encoding import EncodingStack, PositionEncoding, Wrapper
from posbench.core.extension import Extension
from posbench.core.frequencies import Frequencies

PairPlaces = Callable[[Attention], tuple[Tensor, Tensor]]
"""call -> positions of queries and of keys for every pair, [batch|1, n, pairs] each"""


@dataclass(frozen=True)
class ByPair(Frequencies):
    """Frequencies whose positions have an entry for each of them already."""

    def angles(self, pos: Tensor, rate: Tensor) -> Tensor:
        return pos.to(rate.dtype) * rate


class PairTold(Wrapper):
    """The host that turns, told a position for every pair of its channels."""

    def __init__(self, host: PositionEncoding, places: PairPlaces) -> None:
        super().__init__(host)
        held: Frequencies = host.frequencies  # type: ignore[assignment]  # promised by the handle
        by_pair = ByPair(held.count, held.base, held.stretch, held.magnitude)
        self.turned = host.variant(frequencies=by_pair)
        self.places = places

    def encode(self, a: Attention) -> Plan:
        plan = self.turned.encode(a.at(*self.places(a)))
        return plan.each(lambda part, _: part.at(a.q_pos, a.k_pos))  # for what is around the host


class PairSeen(Wrapper):
    """The encoding, of which the host that turns is told a position for every pair.

    Neither its frequencies nor its distances can be changed again.
    """

    def __init__(self, host: PositionEncoding, places: PairPlaces) -> None:
        super().__init__(host)
        self.places = places
        self.handles = host.handles - {"frequencies", "distance"}

    def encode(self, a: Attention) -> Plan:
        return told(self.host, self.places).encode(a)


def turning(encoding: PositionEncoding) -> PositionEncoding:
    """The host at the bottom, which turns channels."""
    return turning(encoding.host) if isinstance(encoding, Wrapper) else encoding


def learns_by_head(host: PositionEncoding) -> bool:
    """Whether it learns a number for every head and frequency.

    From outside nobody can tell whether that number changes the frequency, as in AdaRoPE. Such a
    host multiplies by its positions itself, and has no place for one a pair.
    """
    count = host.frequencies.count  # type: ignore[union-attr]  # promised by the handle
    return any(own.ndim == 2 and own.shape[1] == count for own in host.parameters(recurse=False))


def told(encoding: PositionEncoding, places: PairPlaces) -> PositionEncoding:
    """The encoding whose host is told other positions, for every pair its own."""
    if isinstance(encoding, Wrapper):
        return encoding.variant(host=told(encoding.host, places))
    return PairTold(encoding, places)


class PairExtension(Extension):
    """An extension of hosts that turn every pair of a head at one frequency for all heads."""

    needs = "frequencies and distance"

    def extend(
        self, stack: EncodingStack, train_positions: int, test_positions: int
    ) -> EncodingStack:
        held = [
            {"frequencies", "distance"} <= layer.handles and not learns_by_head(turning(layer))
            for layer in stack
        ]
        if not any(held):
            raise IllegalExtension(
                f"{type(self).__name__} needs distance, and frequencies that all heads share, "
                "which this encoding does not have"
            )
        return stack.replaced(
            [
                self.apply(layer, train_positions, test_positions) if turns else layer
                for layer, turns in zip(stack, held, strict=True)
            ]
        )
