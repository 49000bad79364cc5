"""Which rows of the records a part of a board asks for."""

from __future__ import annotations

import functools
import itertools
from contextlib import suppress
from importlib.resources import files

import yaml  # type: ignore[import-untyped]
from hydra.core.global_hydra import GlobalHydra

from posbench.config.board import Rows
from posbench.config.compose import compose, composing
from posbench.config.identity import PART, identify, parted
from posbench.config.methods import AS_TRAINED, Method, methods
from posbench.config.options import BROKEN
from posbench.config.words import Word

Pair = tuple[str, str, str]
"""The encoding, the extension and the changed settings of a row, as records name them."""


def pairs(rows: Rows) -> list[Pair]:
    """How records name each row.

    Where settings make rows, what names records is asked, which takes a tenth of a second a row:
    they may be those of the method already, or be part of its name, and a value is not always
    written as it is read. Rows of a folder of the user are found where Hydra has that folder. A
    row that is not, and settings that make no row, are kept as they are written.
    """
    if not any(Word.of(setting).makes_row for setting in rows.settings):
        return _written(rows)
    if GlobalHydra.instance().is_initialized():  # with its folders
        return _identified(rows)
    return _identified_alone(rows)


def _written(rows: Rows) -> list[Pair]:
    table = methods()
    named = [table.get(name, Method(name, AS_TRAINED)) for name in rows.methods]
    chosen = [(method.base, method.extension) for method in named]
    chosen += list(itertools.product(rows.encodings, rows.extensions))
    return [
        (encoding, recorded(extension), ", ".join(sorted(settings)))
        for encoding, extension in chosen
        for settings in rows.combinations
    ]


def _identified(rows: Rows) -> list[Pair]:
    found = _written(rows)
    for place, words in enumerate(rows.words):
        with suppress(*BROKEN):
            found[place] = _named(words)
    return found


@functools.cache
def _identified_alone(rows: Rows) -> list[Pair]:
    with composing():
        return _identified(rows)


def _named(words: tuple[str, ...]) -> Pair:
    """How the records of a row are named; what its words say of other things comes last."""
    method = identify(compose(*(word for word in words if Word.of(word).makes_row))).method
    others = [word for word in words if not Word.of(word).makes_row]
    return method.base, method.extension, ", ".join([*method.changed, *sorted(others)])


@functools.cache
def protocol_label(protocol: str, settings: tuple[str, ...]) -> str:
    """What records call a protocol with these settings: "cpu (training.steps=600)"."""
    words = (f"protocol={protocol}", *settings)
    if GlobalHydra.instance().is_initialized():
        return identify(compose(*words)).protocol.label
    with composing():
        return identify(compose(*words)).protocol.label


@functools.cache
def recorded(extension: str) -> str:
    """What records call an extension: its name, or of a sequence those of its parts, in order."""
    path = files("posbench.conf") / "extension" / f"{extension}.yaml"
    if not path.is_file():  # of a folder of the user
        return extension
    defaults = (yaml.safe_load(path.read_text(encoding="utf-8")) or {}).get("defaults", [])
    chosen = [item for entry in defaults if isinstance(entry, dict) for item in entry.items()]
    return parted(extension, {key.replace("/extension@", PART): part for key, part in chosen}, {})
