"""Which rows of the records a part of a board asks for."""

from __future__ import annotations

import itertools

from posbench.boards.definition import Rows
from posbench.composing.methods import AS_TRAINED, Method, methods


def pairs(rows: Rows) -> list[tuple[str, str, str]]:
    """The encoding, the extension and the changed settings of each row, as records name them."""
    table = methods()
    named = [table.get(name, Method(name, AS_TRAINED)) for name in rows.methods]
    chosen = [(method.base, method.extension) for method in named]
    chosen += list(itertools.product(rows.encodings, rows.extensions))
    settings = ", ".join(sorted(rows.settings))
    return [(encoding, extension, settings) for encoding, extension in chosen]
