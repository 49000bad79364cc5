"""Which extension can extend which encoding, and which task supplies what it asks for, read off declarations."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import hydra
from hydra.core.global_hydra import GlobalHydra
from omegaconf import DictConfig, OmegaConf


def options(group: str) -> list[str]:
    """The names a config group offers, those of folders given with --config-dir included."""
    loader = GlobalHydra.instance().config_loader()
    return sorted(loader.get_group_options(group))


def legal_encodings(extension: DictConfig) -> list[str]:
    """The encodings that offer what the extension needs. Needs an initialised Hydra."""
    needs = getattr(hydra.utils.get_class(extension["_target_"]), "needs", "")
    offers = {name: [getattr(cls, "handles", ()) for cls in _classes("encoding", name)] for name in options("encoding")}
    return [name for name, handles in offers.items() if not needs or any(needs in offered for offered in handles)]


def supplying_tasks(kind: str) -> list[str]:
    """The tasks that supply position ids of a kind. Needs an initialised Hydra."""
    return [name for name in options("task") if kind in _classes("task", name)[0].ids]


def _classes(group: str, name: str) -> list[Any]:
    """The classes that an option of a group names, the outermost first."""
    cfg = hydra.compose(config_name="config", overrides=[f"{group}={name}"])
    node = OmegaConf.to_container(cfg[group], resolve=False)
    return [hydra.utils.get_class(target) for target in _targets(node)]


def _targets(node: Any) -> Iterator[str]:
    if isinstance(node, dict):
        if "_target_" in node:
            yield node["_target_"]
        for value in node.values():
            yield from _targets(value)
    if isinstance(node, list):
        for value in node:
            yield from _targets(value)
