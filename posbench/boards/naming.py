"""Which rows of the records a part of a board asks for."""

from __future__ import annotations

import functools
import itertools
from importlib.resources import files

import yaml  # type: ignore[import-untyped]

from posbench.boards.definition import Rows
from posbench.composing.methods import AS_TRAINED, Method, methods


def pairs(rows: Rows) -> list[tuple[str, str, str]]:
    """The encoding, the extension and the changed settings of each row, as records name them."""
    table = methods()
    named = [table.get(name, Method(name, AS_TRAINED)) for name in rows.methods]
    chosen = [(method.base, method.extension) for method in named]
    chosen += list(itertools.product(rows.encodings, rows.extensions))
    settings = ", ".join(sorted(rows.settings))
    return [(encoding, recorded(extension), settings) for encoding, extension in chosen]


@functools.cache
def recorded(extension: str) -> str:
    """What records call an extension: its name, or of a sequence those of its parts, in order."""
    path = files("posbench.conf") / "extension" / f"{extension}.yaml"
    if not path.is_file():  # of a folder of one's own
        return extension
    defaults = (yaml.safe_load(path.read_text(encoding="utf-8")) or {}).get("defaults", [])
    parts = {
        key: part
        for entry in defaults
        if isinstance(entry, dict)
        for key, part in entry.items()
        if key.startswith("/extension@")
    }
    return "+".join(parts[key] for key in sorted(parts)) if len(parts) > 1 else extension
