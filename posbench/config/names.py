"""What a protocol, task or method is called, with the hash of what the name means."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

from pydantic import AfterValidator, Field

from posbench.base.errors import ConfigError
from posbench.base.wording import printable
from posbench.core.row import Part

LONGEST_TEXT = 300
"""Characters of a text that becomes a name, or part of one, on pages and in tables."""

LONGEST_FILE_NAME = 230
"""Bytes of a name that files are called by: file systems allow 255, and a hash and .jsonl.gz follow
it.
"""

MOST_TEXTS = 256
"""Changed settings of a name, and packages whose versions are noted."""


def as_text(text: str) -> str:
    """The text; ConfigError if it cannot be printed in a line, or is too long to name anything."""
    if len(text) > LONGEST_TEXT:
        raise ConfigError(
            f"{text[:40]!r}... has {len(text):,} characters, and what becomes a name has "
            f"{LONGEST_TEXT} at the most: put a long setting into a YAML file, which has a name"
        )
    if not text.isprintable():
        raise ConfigError(
            f"{text!r} cannot be printed, and becomes a name: leave out line breaks, control "
            "characters and halves of characters"
        )
    return text


def in_a_line(text: str) -> str:
    """What a class of the user says of itself, as a text that `as_text` accepts: a run that is
    complete is not lost over it.
    """
    line = " ".join(printable(" ".join(text.split())).split())
    return line if len(line) <= LONGEST_TEXT else f"{line[: LONGEST_TEXT - 4]} ..."


def as_file_name(name: str) -> str:
    """The name; ConfigError if it leads out of the folder in which a file is called by it."""
    as_text(name)
    if not name or name[0] == "." or {"/", "\\"} & {*name}:
        raise ConfigError(
            f"{name!r} cannot be the name of a file, and files are called by it: leave out "
            "slashes and a dot in front"
        )
    if (length := len(name.encode())) > LONGEST_FILE_NAME:
        raise ConfigError(
            f"{name[:40]!r}... has {length} bytes, and files are called by it, which may have "
            f"{LONGEST_FILE_NAME}: choose a shorter name"
        )
    return name


Text = Annotated[str, AfterValidator(as_text)]


FileName = Annotated[str, AfterValidator(as_file_name)]


Texts = Annotated[tuple[Text, ...], Field(max_length=MOST_TEXTS)]


class Name(Part):
    """What a protocol, task or method is called, and the hash of what the name means."""

    name: FileName  # as it is chosen: "rope_ntk"
    changed: Texts = ()  # settings that differ from the name's own: ["extension.scale=4"]
    hash: FileName  # of the content, changes included

    @property
    def label(self) -> str:
        """The name for people: "rope_ntk (extension.scale=4)"."""
        return labelled(self.name, self.changed)

    @property
    def slug(self) -> str:
        """The name for folders: "rope_ntk-1a2b3c4d"."""
        return f"{self.name}-{self.hash[:8]}" if self.changed else self.name


class MethodName(Name):
    """A method: an encoding, with a host inside it where it is a wrapper, what it turns on in the
    model, and an extension.
    """

    encoding: Text  # "ssmax"
    host: Text | None = None  # "alibi", where it is not the host of the encoding's own YAML
    extension: Text  # "yarn", or its parts in order: "yarn+sliding_window"
    encoding_changed: Texts = ()  # those of `changed` that belong to the encoding
    model: Texts = ()  # what it turns on in the model: "qk_norm", "short_conv_4"

    @property
    def base(self) -> str:
        """What is trained, by its name: the encoding with its host, "ssmax-alibi", and what is
        turned on in the model, "rope-qk_norm".
        """
        return "-".join((self.encoding, *([self.host] if self.host else []), *self.model))

    @property
    def row(self) -> tuple[str, str, str]:
        """The row of a board, as `posbench.config.board_rows.pairs` names it."""
        return self.base, self.extension, ", ".join(self.changed)

    @property
    def base_label(self) -> str:
        """The same without the extension, for people."""
        return labelled(self.base, self.encoding_changed)


def labelled(name: str, changed: Sequence[str]) -> str:
    return f"{name} ({', '.join(changed)})" if changed else name
