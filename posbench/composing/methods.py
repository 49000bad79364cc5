"""The methods of conf/methods.yaml, each an option of the config group `method`."""

from __future__ import annotations

import functools
from importlib.resources import files
from typing import Any

from hydra.core.config_store import ConfigStore
from omegaconf import OmegaConf

AS_TRAINED = "direct"
"""The extension that a method need not name: `rope: [direct]` is the method rope."""


@functools.cache
def methods() -> dict[str, tuple[str, str]]:
    """What each method composes: an encoding and an extension."""
    with files("posbench.conf").joinpath("methods.yaml").open(encoding="utf-8") as file:
        table: Any = OmegaConf.to_container(OmegaConf.load(file))
    found: dict[str, tuple[str, str]] = {}
    for encoding, row in table.items():
        for cell in row:
            ((suffix, extension),) = cell.items() if isinstance(cell, dict) else [(cell, cell)]
            name = encoding if suffix == AS_TRAINED else f"{encoding}_{suffix}"
            if (
                name in found
            ):  # as would be the extension nope of rope beside the encoding rope_nope
                raise ValueError(
                    f"conf/methods.yaml has two methods {name}: name one of them otherwise, "
                    f"`{encoding}: [NAME: {extension}]`"
                )
            found[name] = encoding, extension
    return found


def register() -> None:
    """What a file conf/method/NAME.yaml would say, of each of them."""
    for name, (encoding, extension) in methods().items():
        choices = [{"override /encoding": encoding}, {"override /extension": extension}]
        ConfigStore.instance().store(
            group="method",
            name=name,
            package="_global_",
            provider="conf/methods.yaml",
            node={"defaults": choices},
        )
