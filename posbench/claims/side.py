"""One side of a claim, as its file writes it and as records name its row."""

from __future__ import annotations

from typing import NamedTuple


class Side(NamedTuple):
    """A row that a claim compares: "pi", "pi (extension.scale=2)" or "rope_short_base/direct"."""

    encoding: str  # "" for each of the claim's encodings
    extension: str
    changed: str  # settings that differ from the row's own; "" if none do

    @classmethod
    def of(cls, text: object) -> Side:
        """Parse a side; ValueError if it is no text, or empty."""
        if not isinstance(text, str) or not text.strip():
            raise ValueError("not an extension")
        row, _, settings = text.partition(" (")
        encoding, _, extension = row.rpartition("/")
        return cls(encoding, extension, settings.removesuffix(")"))

    @property
    def label(self) -> str:
        """The side without its encoding."""
        return f"{self.extension} ({self.changed})" if self.changed else self.extension

    def __str__(self) -> str:
        return f"{self.encoding}/{self.label}" if self.encoding else self.label
