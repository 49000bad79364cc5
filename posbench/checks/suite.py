"""The checks of one kind of class, and how they depend on each other."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

Check = Callable[[Any], None]
"""Takes what is asked, and raises where a promise is not kept, or `NotAsked` where it has none."""


class NotAsked(Exception):
    """A promise has no meaning for what is examined; the reason, after "because"."""


@dataclass(frozen=True)
class Suite:
    """The checks of encodings, of extensions or of tasks."""

    subject: Callable[..., Any]  # what is asked, made of words of the command line
    first: tuple[Check, ...]  # all others rest on these: where one fails, the others are not asked
    others: tuple[Check, ...]
    # Checks that would only say again what another has found:
    rests_on: Mapping[Check, tuple[Check, ...]] = field(default_factory=dict)

    @property
    def checks(self) -> tuple[Check, ...]:
        """All of them, in the order in which they are asked."""
        return (*self.first, *self.others)
