"""Errors a user can cause. Each carries one sentence: the value, what was expected, what to do."""

from __future__ import annotations

from typing import TYPE_CHECKING

from posbench.base.wording import listed

if TYPE_CHECKING:
    from pydantic import ValidationError


class PosbenchError(Exception):
    """An error the user can put right; shown as its sentence, without a traceback."""

    def _render_traceback_(self) -> list[str]:
        """What IPython shows of it."""
        return [str(self)]


class ConfigError(PosbenchError, ValueError):
    """A setting has a value that cannot work."""


class TaskLacks(ConfigError):
    """The YAML of a task does not set all that it has to."""

    def __init__(self, *keys: str) -> None:
        self.keys = keys
        super().__init__(self.told("the YAML of the task"))

    def told(self, where: str) -> str:
        """The sentence, with what to add where."""
        examples = {"min_length": 1, "max_length": 20, "steps": 4000}
        lines = listed([f"`{key}: {examples[key]}`" for key in self.keys])
        lacking = listed([f"training.{key}" for key in self.keys])
        verb = "is missing, and comes" if len(self.keys) == 1 else "are missing, and come"
        return (
            f"{lacking} {verb} from the task: add {lines} below `training:` in {where}, whose "
            "first line is '# @package _global_'"
        )


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


class Unreadable(PosbenchError):
    """A file is there and cannot be read, for now or because it is damaged. It is kept."""


class Terminated(BaseException):
    """SIGTERM or Ctrl-C arrived. Not an `Exception`, so that a sweep stops instead of going on."""


def place_and_reason(error: ValidationError) -> tuple[str, str]:
    """The place of the first mistake that pydantic has found, as "rows.0.score", and its reason.

    The place is "" where no field is wrong by itself.
    """
    first = error.errors(include_url=False)[0]
    reason = first["msg"].removeprefix("Value error, ")
    return ".".join(map(str, first["loc"])), reason[:1].lower() + reason[1:]


def first_mistake(error: ValidationError) -> str:
    """Both in a phrase: "rows.0.score: input should be less than or equal to 1"."""
    return ": ".join(filter(None, place_and_reason(error)))


NO_MEMORY = (
    "memory does not hold what this needs: free some, or ask for less; what was complete is kept"
)


def of_limits(error: BaseException) -> str | None:
    """What is larger, longer or deeper than can be worked with, in a sentence; None where an error
    says something else. Python and torch have no classes for these, so the text decides.
    """
    if isinstance(error, RecursionError):
        return "what was given is nested too deeply to be read: give it with fewer brackets"
    text = str(error)
    if isinstance(error, RuntimeError) and ("allocate memory" in text or "of memory" in text):
        return NO_MEMORY
    if isinstance(error, ValueError) and "set_int_max_str_digits" in text:
        return "a number has more digits than can be read: give a smaller one"
    return None
