"""The classes of rows, by what each row was given."""

from __future__ import annotations

ZERO_SHOT = "zero-shot"
PRETRAINED = "pretrained"
"""What the classes of rows of pretrained models begin with."""


def zero_shot_first(kind: str) -> tuple[bool, str]:
    """The order of classes on every board, to sort by."""
    return kind != ZERO_SHOT, kind


def is_pretrained(kind: str) -> bool:
    return kind.startswith(PRETRAINED)
