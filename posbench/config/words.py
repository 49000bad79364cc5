"""Words of the command line, as Hydra reads them."""

from __future__ import annotations

import functools
import itertools
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import Glob, Override, Quote, QuotedString
from hydra.errors import OverrideParseException

from posbench.base.errors import ConfigError
from posbench.config.folders import GROUPS, OF_A_ROW, names

MOST = 1_000_000
"""Values of a word, and runs of a sweep: a list of more fills memory before anything is run."""

PLAIN = re.compile(r"(?!(?:null|true|false|nan|inf)$)[a-z_][\w./-]*", re.ASCII | re.IGNORECASE)
"""Texts that Hydra reads as they are, of which it need not be asked."""


@dataclass(frozen=True)
class Word:
    """A word such as `encoding.base=500`, `method=rope,alibi`, `+encoding@encoding.host=alibi`."""

    text: str
    override: Override = field(compare=False, repr=False)

    @classmethod
    def of(cls, text: str) -> Word:
        """The word of a text; OverrideParseException if Hydra cannot read it."""
        return cls(text, _override(text))

    @property
    def group(self) -> str:
        """What it chooses of, "encoding" of `+encoding@encoding.host=alibi`, or the setting."""
        return self.override.key_or_group

    @property
    def key(self) -> str:
        """All before the value but a sign, "encoding@encoding.host"."""
        return self.override.get_key_element().lstrip("+~")

    @property
    def section(self) -> str:
        """The first part of the key, "encoding" of `encoding.base=500`."""
        return self.key.replace("@", ".").partition(".")[0]

    @property
    def makes_row(self) -> bool:
        """Whether it chooses a row or sets something of it, not of its test."""
        from posbench.core.settings import OF_METHODS

        section, _, setting = self.key.partition(".")
        return self.section in OF_A_ROW or (section == "model" and setting in OF_METHODS)

    @property
    def several(self) -> bool:
        """Whether a sweep takes it for several words."""
        return self.override.is_sweep_override()

    def values(self, own: Sequence[Path] = ()) -> list[str]:
        """The values, each as it would be written for one run; those that a pattern matches may be
        in folders of the user.
        """
        if isinstance(pattern := self.override.value(), Glob):
            return pattern.filter(names(self.group, own) if self.group in GROUPS else [])
        if self.several:
            found = map(str, itertools.islice(self.override.sweep_string_iterator(), MOST + 1))
            if len(values := list(found)) > MOST:
                raise ConfigError(f"{self.text} lists more than {MOST:,} values: name fewer")
            return values
        return [str(self.override.get_value_element_as_str())]

    def each(self, own: Sequence[Path] = ()) -> list[str]:
        """The words of the runs, one for each value."""
        if not self.several:
            return [self.text]
        return [f"{self.override.get_key_element()}={value}" for value in self.values(own)]


def quoted(text: str) -> str:
    """A text as the value of a word, in quotes where Hydra would read something else."""
    return text if PLAIN.fullmatch(text) or _read(text) == [text] else _in_quotes(text)


def readable(text: str) -> str:
    """The value of a word, in quotes where Hydra could not read it: `1,2` still is two values."""
    return text if PLAIN.fullmatch(text) or _read(text) else _in_quotes(text)


def _in_quotes(text: str) -> str:
    return QuotedString(text, Quote.single).with_quotes()


def _read(text: str) -> list[Any]:
    """The value that Hydra reads, or several; none if it can read nothing."""
    try:
        override = _override(f"key={text}")
    except OverrideParseException:
        return []
    return [text, ...] if override.is_sweep_override() else [override.value()]


def is_file(word: str) -> bool:
    """Whether a word is the path of a YAML file, which need not be there, and no key=value.

    ConfigError if it ends in .yml: Hydra would not find it among those of its folder.
    """
    if "=" in word:
        return False
    if word.endswith(".yml"):
        raise ConfigError(
            f"{word} is not found, because Hydra reads *.yaml alone: rename it to "
            f"{Path(word).stem}.yaml"
        )
    return word.endswith(".yaml")


@functools.cache
def _override(text: str) -> Override:
    """What Hydra reads, once: a sweep composes the same words for thousands of runs."""
    (override,) = OverridesParser.create().parse_overrides([text])
    return override
