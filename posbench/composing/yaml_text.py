"""YAML of one's own that Hydra does not read, refused where Hydra would refuse it: of two equal
keys YAML's own loader silently takes the second.
"""

from __future__ import annotations

from typing import Any

import yaml  # type: ignore[import-untyped]


def loaded(text: str) -> Any:
    """What a YAML text holds; YAMLError if it is none, or if a mapping has a key twice."""
    return yaml.load(text, _Loader)


class _Loader(yaml.SafeLoader):
    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        seen: dict[str, int] = {}
        for key, _ in node.value:
            name, line = str(key.value), key.start_mark.line + 1
            if name in seen:
                raise yaml.constructor.ConstructorError(
                    problem=f"{name} stands in line {seen[name]} and in line {line}: keep one"
                )
            seen[name] = line
        found: dict[Any, Any] = super().construct_mapping(node, deep)
        return found
