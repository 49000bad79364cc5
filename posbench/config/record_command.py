"""The command of a record, which repeats its run."""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass, replace
from typing import Self

from posbench.base.errors import ConfigError

LONGEST = 200
"""Characters of what is wrong that a sentence has."""
MODULES = ("posbench", "posbench.pretrained")
"""Modules whose commands make records."""
CHOICE = re.compile(
    r"(protocol|task|method|encoding|extension|experiment"
    r"|(encoding|extension)@(encoding|extension)(\.\w+)+)"
    r"=(?P<value>.*)",
    re.DOTALL,
)
"""A word that chooses, as `method=rope` and `encoding@encoding.host=alibi`."""
SETTING = re.compile(
    r"(model|training|evaluation|task|encoding|extension)(\.[\w-]+)+=(?P<value>.*)|seed=\d+",
    re.DOTALL,
)
"""A word that sets what a run computes."""
NAME = re.compile(r"[A-Za-z_][\w.-]*")
PLAIN = re.compile(r"[\w@%+=:,./ -]*", re.ASCII)
"""A text without characters that a shell reads otherwise."""


@dataclass(frozen=True)
class Command:
    """`python -m MODULE WORDS` for what makes records, `posbench COMMAND WORDS` for the others."""

    module: str
    words: tuple[str, ...]

    @classmethod
    def parse(cls, text: str) -> Self:
        """The command of a record that a shell reads in a text; ConfigError if it reads another,
        or if it sets what no record depends on, as `hydra` and `results_dir`.
        """
        try:
            read = _split(text) if text.isprintable() else []
        except ValueError:  # a quotation mark is not closed
            read = []
        if len(read) < 3 or read[:2] != ["python", "-m"]:
            raise ConfigError(f"{text[:LONGEST]!r} is no command python -m posbench WORDS")
        if read[2] not in MODULES:
            raise ConfigError(
                f"{text[:LONGEST]!r} makes no record: those that do are of {' and '.join(MODULES)}"
            )
        found = cls(read[2], tuple(read[3:]))
        for word in found.words if found.module == "posbench" else ():
            if not CHOICE.fullmatch(word) and not SETTING.fullmatch(word):
                raise ConfigError(
                    f"{text[:LONGEST]!r} is not the command of a record, because of "
                    f"{word[:LONGEST]!r}: it may choose a method and a test, and set what they "
                    "compute"
                )
        return found

    def refuse_hidden(self) -> None:
        """ConfigError if a word sets what no setting is called, as `_target_`: a record is read
        and shown without it.
        """
        for word in self.words:
            if any(part.startswith("_") for part in word.partition("=")[0].split(".")):
                raise ConfigError(
                    f"{word[:LONGEST]!r} is no word of a record's command: only names and values "
                    "of settings are"
                )

    def refuse_others(self) -> None:
        """ConfigError if a word says more than a name or a value: a class to call, a text that is
        resolved, a path. Asked before anything is composed of the words of somebody else.
        """
        for word in self.words:
            choice, setting = CHOICE.fullmatch(word), SETTING.fullmatch(word)
            named = NAME.fullmatch(choice["value"]) if choice else setting
            key, _, value = word.partition("=")
            hidden = any(part.startswith("_") for part in key.split("."))
            value = value.replace("\\", "")  # Hydra reads what follows one as it is
            if not named or hidden or "${" in value or "_target_" in value:
                raise ConfigError(
                    f"its command holds {word[:LONGEST]!r}, which is not composed of a record: "
                    "only names and values are"
                )

    def __str__(self) -> str:
        """As a shell reads it."""
        called = ["python", "-m", self.module] if self.module in MODULES else self.module.split()
        return shlex.join([*called, *self.words])

    def with_module(self, module: str) -> Self:
        """The command that gives another module the same words."""
        return replace(self, module=module)

    def with_options(self, *options: str) -> Self:
        """The same command with options before its words."""
        return replace(self, words=(*options, *self.words))


def _split(text: str) -> list[str]:
    """What a shell reads; `shlex` takes each character by itself, and most commands quote none."""
    return text.split() if PLAIN.fullmatch(text) else shlex.split(text)
