"""The settings of a class and of those inside it, one after the other."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any


def settings(node: Any, prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Yield each setting with its place, ("host.base", 10000).

    Classes in a list have its places, ("layers.0.host.base", 10000); any other list is one setting.
    """
    items = enumerate(node) if isinstance(node, list) else node.items()
    for key, value in items:
        if isinstance(value, dict) or _has_classes(value):
            yield from settings(value, f"{prefix}{key}.")
        elif key not in ("_target_", "_partial_"):
            yield f"{prefix}{key}", value


def _has_classes(value: Any) -> bool:
    return isinstance(value, list) and any(isinstance(each, dict) for each in value)
