"""YAML of the user: data of a size that a configuration can have, and nothing twice.

Hydra reads the files of config groups, and refuses a key that is there twice. What it does not
read, as boards and claims, is refused alike.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml  # type: ignore[import-untyped]

from posbench.base.disk import read_text
from posbench.base.errors import ConfigError, of_limits

LARGEST = 1_000_000
"""Bytes of a file."""
MOST, DEEPEST = 20_000, 50
"""Values in a file, each counted wherever an alias repeats it, and how deep one is in another."""


def text_of(path: Path) -> str:
    """What a file says; ConfigError if it is a pipe, a device, a folder, too large, or no text."""
    try:
        return read_text(path.resolve(), LARGEST)
    except (OSError, RuntimeError, ValueError) as error:  # RuntimeError: links in a ring
        reason = getattr(error, "strerror", None) or error
        raise ConfigError(f"{path} cannot be read ({reason}): put a file of YAML there") from None


def endless(text: str) -> str:
    """Why the aliases of a YAML text, written out, are more than a configuration can be, or ""."""
    sizes: dict[str, int] = {}
    inside: list[tuple[str | None, int]] = [(None, 0)]
    try:
        for event in yaml.parse(text, yaml.SafeLoader):
            size, anchor = 1, getattr(event, "anchor", None)
            if isinstance(event, yaml.AliasEvent):
                if anchor not in sizes:
                    return f"*{anchor} is a part of itself, or is nowhere defined"
                size, anchor = sizes[anchor], None
            elif isinstance(event, yaml.CollectionStartEvent):
                inside.append((anchor, 1))
                size, anchor = 0, None
            elif isinstance(event, yaml.CollectionEndEvent):
                anchor, size = inside.pop()
            elif not isinstance(event, yaml.ScalarEvent):
                continue
            if anchor is not None:
                sizes[anchor] = size
            inside[-1] = (inside[-1][0], inside[-1][1] + size)
            if inside[-1][1] > MOST or len(inside) > DEEPEST:
                return f"it has more than {MOST:,} values, or more than {DEEPEST} inside each other"
    except yaml.YAMLError:
        pass  # which whoever loads it finds as well, and names the line
    return ""


def loaded(text: str) -> Any:
    """What a YAML text holds; YAMLError if it is none, has no end, or a key of a mapping twice."""
    if why := endless(text):
        raise yaml.YAMLError(why)
    try:
        return yaml.load(text, _Loader)
    except ValueError as error:  # a date or a number that there is not
        raise yaml.YAMLError(of_limits(error) or str(error)) from None


class _Loader(yaml.SafeLoader):
    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        seen: dict[str, int] = {}
        for key, _ in node.value:
            name, line = str(key.value), key.start_mark.line + 1
            if name in seen:
                raise yaml.constructor.ConstructorError(
                    problem=f"{name} is in line {seen[name]} and in line {line}: keep one"
                )
            seen[name] = line
        found: dict[Any, Any] = super().construct_mapping(node, deep)
        return found
