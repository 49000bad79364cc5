"""A page as JSON: the library draws ids by chance, and here the same code gives the same bytes."""

from __future__ import annotations

import json
import re
from typing import Any


def as_json(made: Any) -> str:
    """The JSON that the library would send, with its random ids numbered as they come."""
    content = json.loads(made._to_model().model_dump_json(by_alias=True))
    found: dict[str, str] = {}
    return json.dumps(_numbered(content, found), indent=1, sort_keys=True) + "\n"


ID = re.compile(r"[0-9a-z]{7,14}")  # numbers in base 36, mostly of eleven digits


def _numbered(content: Any, found: dict[str, str], key: str = "") -> Any:
    if isinstance(content, dict):
        return {name: _numbered(value, found, name) for name, value in content.items()}
    if isinstance(content, list):
        return [_numbered(value, found, key) for value in content]
    if isinstance(content, str):
        if key.strip("_").lower().endswith("id") and ID.fullmatch(content):
            found.setdefault(content, f"id-{len(found)}")
        return found.get(content, content)
    return content
