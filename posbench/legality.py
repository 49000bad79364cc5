"""Which extension can extend which encoding, read off the declarations of both."""

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
    found = []
    for name in options("encoding"):
        cfg = hydra.compose(config_name="config", overrides=[f"encoding={name}"])
        node = OmegaConf.to_container(cfg.encoding, resolve=False)
        classes = [hydra.utils.get_class(target) for target in _targets(node)]
        if not needs or any(needs in getattr(cls, "handles", ()) for cls in classes):
            found.append(name)
    return found


def _targets(node: Any) -> Iterator[str]:
    if isinstance(node, dict):
        if "_target_" in node:
            yield node["_target_"]
        for value in node.values():
            yield from _targets(value)
    if isinstance(node, list):
        for value in node:
            yield from _targets(value)
