"""The command of a record, which repeats its run."""

from __future__ import annotations

import shlex
from dataclasses import dataclass, replace
from typing import Self

from posbench.errors import ConfigError


@dataclass(frozen=True)
class Command:
    """`python -m MODULE WORDS`."""

    module: str
    words: tuple[str, ...]

    @classmethod
    def parse(cls, text: str) -> Self:
        """The command that a shell reads in a text; ConfigError if it reads another."""
        try:
            read = shlex.split(text)
        except ValueError:  # a quotation mark is not closed
            read = []
        if len(read) < 3 or read[:2] != ["python", "-m"]:
            raise ConfigError(f"{text!r} is no command python -m MODULE WORDS")
        return cls(read[2], tuple(read[3:]))

    def __str__(self) -> str:
        """As a shell reads it."""
        return shlex.join(["python", "-m", self.module, *self.words])

    def with_module(self, module: str) -> Self:
        """The command that gives another module the same words."""
        return replace(self, module=module)

    def with_options(self, *options: str) -> Self:
        """The same command with options before its words."""
        return replace(self, words=(*options, *self.words))
