"""Numbers of a configuration: finite, and each written in one form before it is hashed.

JSON, of which hashes are made, distinguishes 1 and 1.0; what a run computes does not.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, TypeGuard

from posbench.base.errors import ConfigError

WHOLE = 2**53
"""Beyond it a float need not be the integer that it looks like."""
LARGEST = 2**63
WITHOUT_ORDER = (("evaluation", "multiples"), ("training", "learning_rate"))
"""Lists that say the same in any order: each length is tested, each rate is tried."""


def refuse_unbounded(content: Any, place: str = "") -> None:
    """ConfigError names the first number of a configuration that is infinite, none or too large."""
    if isinstance(content, float) and not math.isfinite(content):
        raise ConfigError(f"{place} must be a finite number, got {content}")
    if isinstance(content, int) and abs(content) >= LARGEST:
        raise ConfigError(
            f"{place} is a whole number of 2^63 or more, which torch cannot take: write it with an "
            "exponent, as 1e20"
        )
    items = content.items() if isinstance(content, Mapping) else ()
    for key, value in enumerate(content) if isinstance(content, list | tuple) else items:
        refuse_unbounded(value, f"{place}.{key}" if place else str(key))


def in_one_form(content: Any, usual: Any, *place: str) -> Any:
    """The content with each number as `usual` writes it where both have the same, and otherwise as
    an integer where it is one.

    Args:
        content: settings
        usual: those that the choices alone compose
        place: the keys that lead to both
    """
    if isinstance(content, dict):
        usual = usual if isinstance(usual, dict) else {}
        return {
            key: in_one_form(value, usual.get(key), *place, key) for key, value in content.items()
        }
    if isinstance(content, list):
        if place in WITHOUT_ORDER and all(map(_is_number, content)):
            content = _ordered(content, usual)
            if place == ("training", "learning_rate") and len(content) == 1:
                return in_one_form(content[0], usual, *place)
        same = isinstance(usual, list) and len(usual) == len(content)
        beside = usual if same else [None] * len(content)
        return [in_one_form(*each, *place) for each in zip(content, beside, strict=True)]
    if not _is_number(content):
        return content
    if _is_number(usual) and usual == content:
        return usual
    whole = isinstance(content, float) and content.is_integer() and abs(content) < WHOLE
    return int(content) if whole else content


def _ordered(content: list[float], usual: Any) -> list[float]:
    """The numbers of a list in the order in which `usual` has them, or else rising."""
    if isinstance(usual, list) and all(map(_is_number, usual)) and sorted(usual) == sorted(content):
        return usual
    return sorted(content)


def _is_number(value: Any) -> TypeGuard[float]:
    return isinstance(value, int | float) and not isinstance(value, bool)
