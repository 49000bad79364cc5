"""Which extension can extend which encoding, and which task supplies what it asks for, read off declarations."""

from __future__ import annotations

from typing import Any

import hydra
from hydra.core.global_hydra import GlobalHydra
from omegaconf import DictConfig, OmegaConf

from posbench.building import build

TRAIN_POSITIONS, TEST_POSITIONS = 64, 512
"""Of the encodings that are built here to be asked: what they offer does not depend on lengths."""


def options(group: str) -> list[str]:
    """The names a config group offers, those of folders given with --config-dir included."""
    loader = GlobalHydra.instance().config_loader()
    return sorted(loader.get_group_options(group))


def legal_encodings(extension: DictConfig) -> list[str]:
    """The encodings that offer what the extension needs. Needs an initialised Hydra."""
    needs = getattr(hydra.utils.get_class(extension["_target_"]), "needs", "")
    return [name for name, handles in offers().items() if not needs or needs in handles]


def offers() -> dict[str, frozenset[str]]:
    """What each encoding lets an extension take hold of. Needs an initialised Hydra."""
    cfg = hydra.compose("config")
    cfg.train_positions, cfg.test_positions = TRAIN_POSITIONS, TEST_POSITIONS
    cfg.model.head_width = cfg.model.width // cfg.model.num_heads
    found = {}
    for name in options("encoding"):
        cfg.encoding = node("encoding", name)
        plain: Any = OmegaConf.to_container(cfg, resolve=True)["encoding"]  # type: ignore[call-overload, index]
        layers = [build(layer, "encoding") for layer in plain.get("layers", [plain])]
        found[name] = frozenset().union(*(layer.handles for layer in layers))
    return found


def supplying_tasks(kind: str) -> list[str]:
    """The tasks that supply position ids of a kind. Needs an initialised Hydra."""
    classes: dict[str, Any] = {
        name: hydra.utils.get_class(node("task", name).task["_target_"]) for name in options("task")
    }
    return [name for name, cls in classes.items() if kind in cls.ids]


def node(group: str, name: str) -> DictConfig:
    """The content of an option of a group, read where it stands alone: composing a hundred would take seconds."""
    found = GlobalHydra.instance().config_loader().repository.load_config(f"{group}/{name}")  # type: ignore[attr-defined]
    if all(default.is_self() for default in found.defaults_list):
        return found.config
    return hydra.compose("config", [f"{group}={name}"])[group]
