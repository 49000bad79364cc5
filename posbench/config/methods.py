"""The methods of conf/methods.yaml, each an option of the config group `method`."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable, Iterator, Mapping
from importlib.resources import files
from pathlib import Path
from typing import Any, NamedTuple

from omegaconf import OmegaConf

AS_TRAINED = "direct"
"""The extension that a method need not name: `rope: [direct]` is the method rope."""


class Method(NamedTuple):
    """What a method composes."""

    encoding: str
    extension: str
    model: tuple[tuple[str, int], ...] = ()  # settings of the model that it turns on

    @property
    def base(self) -> str:
        """The trained model without the extension: "rope", "rope-qk_norm"."""
        return "-".join((self.encoding, *turned_on(dict(self.model))))


def chosen_of_model(model: Mapping[str, Any]) -> dict[str, Any]:
    """The settings of a model that methods choose, where they are not off."""
    from posbench.core.settings import OF_METHODS

    return {name: model[name] for name, off in OF_METHODS.items() if model.get(name, off) != off}


def turned_on(model: Mapping[str, Any]) -> list[str]:
    """These settings as parts of a name, with the value where it says more than that it is on."""
    return [
        name if value is True else f"{name}_{value}"
        for name, value in chosen_of_model(model).items()
    ]


class Cell(NamedTuple):
    """A row of the leaderboard as conf/methods.yaml writes it."""

    family: str  # the heading of its encoding
    encoding: str
    kind: str  # the heading of its extension; "" but for those of rope
    suffix: str  # of its name
    chosen: dict[str, Any]  # an extension, settings of the model

    @property
    def extension(self) -> str:
        extension: str = self.chosen.get("extension", AS_TRAINED)
        return extension


@functools.cache
def cells() -> tuple[Cell, ...]:
    """What conf/methods.yaml says, row by row."""
    return tuple(_cells())


def _cells() -> Iterator[Cell]:
    with files("posbench.conf").joinpath("methods.yaml").open(encoding="utf-8") as file:
        table: Any = OmegaConf.to_container(OmegaConf.load(file))
    for family, encodings in table.items():
        for encoding, row in encodings.items():
            for kind, written in row.items() if isinstance(row, dict) else [("", row)]:
                for cell in written:
                    ((suffix, content),) = cell.items() if isinstance(cell, dict) else [(cell,) * 2]
                    chosen = content if isinstance(content, dict) else {"extension": content}
                    yield Cell(family, encoding, kind, suffix, chosen)


@functools.cache
def methods() -> dict[str, Method]:
    """The rows of the table by their names."""
    found: dict[str, Method] = {}
    for cell in cells():
        name = cell.encoding
        name += f"_{cell.suffix}" * (cell.suffix != AS_TRAINED)
        if name in found:  # as would be the extension nope of rope beside the encoding rope_nope
            raise ValueError(
                f"conf/methods.yaml has two methods {name}: name one of them otherwise, "
                f"`{cell.encoding}: [NAME: {cell.extension}]`"
            )
        model = tuple(cell.chosen.get("model", {}).items())
        found[name] = Method(cell.encoding, cell.extension, model)
    return found


def of_method(name: str, own: Iterable[Path] = ()) -> dict[str, str]:
    """The encoding and the extension that a method chooses, as far as it chooses them; of a method
    in a folder of the user its file says so.
    """
    if (row := methods().get(name)) is not None:
        return {"encoding": row.encoding, "extension": row.extension}
    found: dict[str, str] = {}
    for path in (folder / "method" / f"{name}.yaml" for folder in own):
        if path.is_file():
            text = path.read_text("utf-8", "replace")
            found |= re.findall(r"override /(encoding|extension): *([\w.-]+)", text)
    return found


def as_option(row: Method) -> dict[str, Any]:
    """What a file conf/method/NAME.yaml with `# @package _global_` would say."""
    choices = [{"override /encoding": row.encoding}, {"override /extension": row.extension}]
    return {"defaults": choices} | ({"model": dict(row.model)} if row.model else {})
