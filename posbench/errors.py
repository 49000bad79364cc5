"""Errors a user can cause. Each carries one sentence: the value, what was expected, what to do."""

from __future__ import annotations

import difflib
from collections.abc import Collection, Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pydantic import ValidationError

SETTINGS = "python -m posbench --cfg job"
MANY = 15
"""More names than this are not listed in a sentence."""


class PosbenchError(Exception):
    """An error the user can put right; shown as its sentence, without a traceback."""


class ConfigError(PosbenchError, ValueError):
    """A setting has a value that cannot work."""


class IllegalExtension(PosbenchError):
    """An extension needs something that the encoding does not have."""


class Diverged(PosbenchError):
    """The training loss is no longer finite, after `cpu_seconds` of CPU time."""

    def __init__(self, sentence: str, cpu_seconds: float = 0.0) -> None:
        super().__init__(sentence)
        self.cpu_seconds = cpu_seconds


class Unwritable(PosbenchError):
    """A disk is full, or a folder may not be written to: whatever comes next would fail as well."""


class Terminated(BaseException):
    """SIGTERM or Ctrl-C arrived. Not an `Exception`, so that a sweep stops instead of going on."""


def place_and_reason(error: ValidationError) -> tuple[str, str]:
    """The place of the first mistake that pydantic has found, as "rows.0.score", and its reason.

    The place is "" where no field is wrong by itself.
    """
    first = error.errors(include_url=False)[0]
    reason = first["msg"].removeprefix("Value error, ")
    return ".".join(map(str, first["loc"])), reason[:1].lower() + reason[1:]


def setting_refused(error: ValidationError) -> str:
    """The sentence about the first setting that pydantic, or a check of ours, refuses."""
    first = error.errors(include_url=False)[0]
    if isinstance(own := first.get("ctx", {}).get("error"), ConfigError):
        return str(own)
    place, reason = place_and_reason(error)
    must = reason.partition(", unable to")[0].replace("input should", "must")
    return f"{place} {must}, got {shown(first['input'])}"


def closest(name: str, known: Iterable[str]) -> str | None:
    """The known name that `name` comes near, if there is one."""
    return next(iter(difflib.get_close_matches(name, sorted(known), n=1)), None)


def known_names(known: Iterable[str], command: str, meant: str | None = None) -> str:
    """The advice about an unknown name: the one that was meant, then all, or how to list them."""
    names = list(known)
    if len(names) == 1:
        return f"did you mean {meant}?" if meant else f"the only one is {names[0]}"
    few = 0 < len(names) <= MANY
    others = f"choose one of {', '.join(names)}" if few else f"`{command}` lists all of them"
    return f"did you mean {meant}? {others[0].upper()}{others[1:]}" if meant else others


def no_setting(prefix: str, key: str, known: Collection[str]) -> str:
    """The sentence about a key that is none, in a section ("training.") or at the top ("")."""
    near = closest(key, known)
    meant = f"{prefix}{near}" if near else None
    return f"{prefix}{key} is not a setting: {known_names(known, SETTINGS, meant)}"


def counted(number: int, noun: str) -> str:
    """A number with its noun: `1 run`, `2,000 runs`."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def shown(value: object) -> str:
    """A value as it is written in YAML, strings in quotes."""
    return "null" if value is None else repr(value)
