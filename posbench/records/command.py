"""The command of a record, which repeats its run."""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass, replace
from typing import Self

from posbench.errors import ConfigError

LONGEST = 200
"""Characters of what is wrong that a sentence has."""
RUNS = ("posbench", "posbench.pretrained")
"""The modules that make records."""
KEY = re.compile(
    r"(?!(hydra|job|logger|results_dir|definition)\b)(?!.*\b_[a-z]+_\b)[A-Za-z_][\w.@/-]*"
)
"""What a word of a record's command sets: no word adds or deletes anything, speaks to Hydra itself,
says what is to be called or where results go.
"""


@dataclass(frozen=True)
class Command:
    """`python -m MODULE WORDS`."""

    module: str
    words: tuple[str, ...]

    @classmethod
    def parse(cls, text: str) -> Self:
        """The command that a shell reads in a text; ConfigError if it reads one of another kind
        than records have.
        """
        try:
            read = shlex.split(text) if text.isprintable() else []
        except ValueError:  # a quotation mark is not closed
            read = []
        if len(read) < 3 or read[:2] != ["python", "-m"] or read[2] not in RUNS:
            raise ConfigError(
                f"{text[:LONGEST]!r} is no command python -m posbench WORDS, nor one of {RUNS[-1]}"
            )
        for word in read[3:]:
            key, equals, _ = word.partition("=")
            if not equals or not KEY.fullmatch(key):
                raise ConfigError(
                    f"{word[:LONGEST]!r} is no word of a command that repeats a run: all of them "
                    "are NAME=VALUE, and of a choice or a setting of the run itself"
                )
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
