"""The search for the last length at which a model holds a share of what it can do."""

from __future__ import annotations

import functools
import math
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from posbench.base.wording import counted
from posbench.showing.table import NOTHING, number, span

if TYPE_CHECKING:
    from posbench.pretrained.abilities import Ability, KeptTexts, MeasuredText, Point

NEAR = 1.1
"""Bisection ends where the two lengths differ by less than this factor."""


class Clock:
    """Seconds since the command began, those of loading the model among them."""

    def __init__(self) -> None:
        self._began = time.monotonic()

    @property
    def seconds(self) -> float:
        return time.monotonic() - self._began


def next_length(holds: Mapping[int, bool], start: int, longest: int) -> int | None:
    """The length that a search measures after those that it knows; None at its end.

    It doubles until a length does not hold, and then halves the ratio of the two lengths between
    which the reach lies.
    """
    if start not in holds:
        return start
    failing = [length for length, each in holds.items() if not each]
    if not failing:
        reached = max(holds)
        return None if reached >= longest else min(2 * reached, longest)
    high = min(failing)
    low = max(length for length in holds if length < high)
    if high <= NEAR * low or high - low <= 1:
        return None
    return min(max(round(math.sqrt(low * high)), low + 1), high - 1)


def path(start: int, longest: int, reach: int, known: Mapping[int, bool]) -> list[int]:
    """The lengths that are still measured of a model that reads so far."""
    holds = dict(known)
    while (length := next_length(holds, start, longest)) is not None:
        holds[length] = length <= reach
    return [each for each in holds if each not in known]


@dataclass
class LengthSearch:
    """The search for the last length at which an ability holds.

    All that it knows is in the texts that were measured, those of earlier commands among them.
    An ability that falls and rises again may have several such lengths; one of them is found.
    """

    ability: Ability
    kept: KeptTexts
    texts: int
    start: int
    longest: int
    hold: float
    ended: bool = False  # at its end, and not for lack of time

    # -- measuring ---------------------------------------------------------------------------------

    def texts_at(self, length: int) -> list[MeasuredText]:
        return self.kept.at(length)[: self.texts]

    def lacking(self, length: int) -> int:
        """How many texts of a length are not measured yet."""
        return self.texts - len(self.texts_at(length))

    def measure(self, length: int) -> None:
        """Measure the next text of a length, and keep it."""
        from posbench.pretrained.abilities import MeasuredText

        clock = Clock()
        samples = self.ability.samples(length, len(self.kept.at(length)))
        self.kept.add(length, MeasuredText(samples, round(clock.seconds, 3)))

    def next(self, seconds: float) -> int | None:
        """The length to measure in the seconds that are left; None where there is none."""
        length = next_length(self._found, *self._ends)
        if length is None or (self._found and not self.can):
            self.ended = True
            return None
        if self.expected(length) <= seconds:
            return length
        if not self._found or self.failing:
            return None
        reached = self.all[-1].length
        fits = int(reached * math.sqrt(max(seconds, 0) / max(self.expected(reached, 0), 1e-9)))
        return min(fits, length) if fits >= NEAR * reached else None

    def expected(self, length: int, known: int | None = None) -> float:
        """Seconds of the texts that a length lacks, if time grows with the square of tokens from
        the nearest length that was measured; 0 where none was.
        """
        lacking = self.texts - (len(self.texts_at(length)) if known is None else known)
        measured = [each for each in self.kept.lengths if self.kept.at(each)]
        below = max((each for each in measured if each <= length), default=None)
        nearest = min(measured, default=None) if below is None else below
        if nearest is None:
            return 0.0
        texts = self.kept.at(nearest)
        each = sum(text.seconds for text in texts) / len(texts)
        return lacking * each * (max(length / nearest, 1.0) ** 2)

    def time(self, reach: int, seconds: float, power: int) -> float:
        """Seconds of the texts that a search lacks, of a model that reads so far, if a text of the
        first length takes some and time grows with a power of tokens.
        """
        if self._found and not self.can:
            return 0.0
        return sum(
            self.lacking(length) * seconds * (length / self.start) ** power
            for length in path(*self._ends, reach, self._found)
        )

    @property
    def _ends(self) -> tuple[int, int]:
        return self.start, self.longest

    @property
    def _found(self) -> dict[int, bool]:
        """Whether it holds at the lengths that are known."""
        return {each.length: self.holds(each) for each in self.all}

    # -- what was found ----------------------------------------------------------------------------

    @property
    def all(self) -> list[Point]:
        """The lengths with all their texts, in their order; none before the first is known."""
        if self.lacking(self.start):
            return []
        within = (each for each in self.kept.lengths if self.start <= each <= self.longest)
        return [self.at(length) for length in within if not self.lacking(length)]

    def at(self, length: int) -> Point:
        samples = [each for text in self.texts_at(length) for each in text.samples]
        return self.ability.point(length, samples)

    @functools.cached_property
    def first(self) -> Point:
        """What it does at the first length, with which others are compared."""
        return self.at(self.start)

    @property
    def threshold(self) -> float:
        return self.hold * self.first.value

    def holds(self, point: Point) -> bool:
        """Whether it has its share of the first length, which has all of it, even of a loss."""
        return point.length == self.start or point.value >= self.threshold

    @property
    def can(self) -> bool:
        """Whether there is anything at the first length."""
        return self.first.value > 0

    @property
    def reach(self) -> int:
        """The length up to which it holds, among those that were measured."""
        before = self.failing or self.longest + 1
        return max(each.length for each in self.all if each.length < before)

    @property
    def failing(self) -> int | None:
        """The shortest length at which it does not hold; None where there is none."""
        return min((each.length for each in self.all if not self.holds(each)), default=None)

    @property
    def bounds(self) -> tuple[int | None, int | None]:
        """The longest length at which even the lower bound holds, before any whose value does not,
        and the shortest at which even the upper bound does not; None where there is none.
        """
        surely = [p.length for p in self.all if p.low >= self.threshold and p.length <= self.reach]
        never = [p.length for p in self.all if p.high < self.threshold]
        return max(surely, default=None), min(never, default=None)

    @property
    def decided(self) -> bool:
        """Whether the intervals say that it holds at the longest length, or where it does not."""
        surely, never = self.bounds
        if self.reach == self.longest:
            return surely == self.longest
        return surely is not None or never is not None

    # -- in words ----------------------------------------------------------------------------------

    def cells(self, point: Point, trained: int) -> list[str]:
        multiple = f"{point.length / trained:.3g}x"
        holds = self._holds_for_sure(point) if self.can else NOTHING
        return [
            *(str(point.length), multiple, str(point.samples), number(point.value, 3)),
            *(span(point.low, point.high, 3), holds),
        ]

    def _holds_for_sure(self, point: Point) -> str:
        """Yes or no, as the whole interval has it; open where it does not decide."""
        if point.length == self.start or point.low >= self.threshold:
            return "yes"
        return "no" if point.high < self.threshold else "open"

    def decision(self, length: int) -> str:
        """What a length was found to be, and what that says of the reach."""
        point = self.at(length)
        bounds = f" ({span(point.low, point.high, 3)})" if not math.isnan(point.low) else ""
        said = f"{self.ability.name}, {length} tokens: {number(point.value, 3)}{bounds}"
        if not self.can:
            return f"{said}, so there is nothing to lose."
        if length == self.start:
            return f"{said}. A longer text has to have {number(self.threshold, 3)}."
        verb = "holds" if self.holds(point) else "does not hold"
        unsure = ", though its interval leaves that open"
        open_ = unsure if self._holds_for_sure(point) == "open" else ""
        return f"{said}, which {verb}{open_}. The reach is {self._between}."

    @property
    def _between(self) -> str:
        if self.failing is None:
            return f"at least {self.reach} tokens"
        return f"between {self.reach} and {self.failing} tokens"

    def sentence(self) -> str:
        name, what = self.ability.name, f"{self.hold:g} of what it does at {self.start} tokens"
        if not self.all:
            return (
                f"{name}: the time was up before {counted(self.texts, 'text')} of {self.start} "
                "tokens had been read: give more minutes=, fewer texts= or a shorter start="
            )
        if not self.can:
            return (
                f"{name}: the model can do nothing at {self.start} tokens, so it has no reach "
                "from there: give a shorter start= or another task="
            )
        surely, never = self.bounds
        at_least = f"at least {surely}" if surely else "no length is sure"
        said = f"95 %: {at_least}, {f'less than {never}' if never else 'no upper bound'}"
        if not self.ended:
            return (
                f"{name}: the time was up. {what} holds at {self.reach}, and "
                + (f"not at {self.failing}" if self.failing else "nothing longer was measured")
                + f" ({said}). The same command with more minutes= goes on from there."
            )
        if not self.decided:
            where = (
                f"still holds at {self.longest}, the longest measured"
                if self.reach == self.longest
                else f"holds anywhere up to {self.longest}"
            )
            return (
                f"{name}: it is not decided whether {what} {where} ({said}). More texts are "
                "needed: raise texts="
            )
        if self.reach == self.longest:
            return f"{name}: {what} still holds at {self.longest}, the longest measured ({said})."
        return (
            f"{name}: {what} holds up to {self.reach} tokens, {self.reach / self.start:.3g} times "
            f"as many ({said})."
        )
