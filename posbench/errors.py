"""Errors a user can cause. Each carries one sentence: the value, what was expected, what to do."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pydantic import ValidationError


class PosbenchError(Exception):
    """An error the user can put right; shown as its sentence, without a traceback."""


class ConfigError(PosbenchError, ValueError):
    """A setting has a value that cannot work."""


OF_A_RESOLVER = f"{ConfigError.__name__} raised while resolving interpolation: "
"""What OmegaConf writes before a sentence of ours."""


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
