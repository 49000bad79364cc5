"""Which extension can extend which encoding, and which task supplies the ids it asks for.

Both are read off declarations, and so is the class of the two together.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import hydra
from hydra.core.default_element import GroupDefault
from hydra.core.global_hydra import GlobalHydra
from hydra.errors import HydraException
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException
from yaml import YAMLError  # type: ignore[import-untyped]

from posbench.composing.building import build
from posbench.errors import ConfigError, IllegalExtension, PosbenchError, closest, known_names

if TYPE_CHECKING:
    from posbench.encoding import EncodingStack
    from posbench.extension import Extension

BROKEN = (PosbenchError, HydraException, OmegaConfBaseException, YAMLError)
"""What a file of one's own raises that cannot be composed or makes no object."""
TRAIN_POSITIONS, TEST_POSITIONS = 64, 512
"""Lengths for what is built here only to be asked: they do not decide whether a pair is legal."""


def options(group: str) -> list[str]:
    """The names a config group offers, including those from folders given with --config-dir."""
    loader = GlobalHydra.instance().config_loader()
    return sorted(loader.get_group_options(group))


def legal_encodings(extension: DictConfig) -> list[str]:
    """The encodings that an extension does not refuse. Needs an initialised Hydra.

    A file of one's own that makes no encoding is passed over: who chooses it is told.
    """
    # This imports torch, which is loaded already wherever this function is called.
    root = hydra.compose("config")
    root.extension = extension
    found = []
    for name in options("encoding"):
        try:
            root.encoding = node("encoding", name)
            if legal(*built(root)):
                found.append(name)
        except BROKEN:
            continue
    return found


def built(cfg: DictConfig) -> tuple[Extension, EncodingStack]:
    """The extension and the encodings of a configuration, at lengths that decide nothing."""
    from posbench.encoding import EncodingStack

    cfg.train_positions, cfg.test_positions = TRAIN_POSITIONS, TEST_POSITIONS
    plain: Any = OmegaConf.to_container(cfg, resolve=True)
    encoding = plain["encoding"]
    layers = [build(layer, "encoding") for layer in encoding.get("layers", [encoding])]
    return build(plain["extension"], "extension"), EncodingStack(layers, len(layers))


def legal(extension: Extension, stack: EncodingStack) -> bool:
    """Whether the extension can extend these encodings: if it cannot, it refuses by itself."""
    try:
        extension.extend(stack, TRAIN_POSITIONS, TEST_POSITIONS)
    except IllegalExtension:
        return False
    return True


def method_class(extension: Extension, stack: EncodingStack) -> str:
    """The class of the encoding, unless it is zero-shot: then the class of the extension.

    A ceiling is nothing else.
    """
    if extension.retrained or stack.method_class == "zero-shot":
        return extension.method_class
    return stack.method_class


def supplying_tasks(kind: str) -> list[str]:
    """The tasks that supply position ids of this kind. Needs an initialised Hydra."""
    found = []
    for name in options("task"):
        try:
            cls: Any = hydra.utils.get_class(node("task", name).task["_target_"])
        except (*BROKEN, ImportError, AttributeError, KeyError):
            continue
        if kind in cls.ids:
            found.append(name)
    return found


def node(group: str, name: str) -> DictConfig:
    """The content of one option of a group.

    It is read from its file, and so are options inside it, such as the host of a wrapper:
    composing a hundred would take half a minute.
    """
    found = GlobalHydra.instance().config_loader().repository.load_config(f"{group}/{name}")  # type: ignore[attr-defined]
    if found is None:
        known = options(group)
        listed = known_names(known, "python -m posbench --help", closest(name, known))
        raise ConfigError(f"{group}={name} is unknown: {listed}")
    merged = OmegaConf.create({})
    for default in found.defaults_list:
        if default.is_self() and default is found.defaults_list[-1]:
            break
        if _is_plain(default):
            inside = node(default.group.lstrip("/"), default.value)
            OmegaConf.update(merged, default.package, inside)
        else:
            return hydra.compose("config", [f"{group}={name}"])[group]
    return OmegaConf.merge(merged, found.config)  # type: ignore[return-value]


def _is_plain(default: Any) -> bool:
    """Whether a default is one option of a group, at a place of its own."""
    return (
        isinstance(default, GroupDefault)
        and isinstance(default.value, str)
        and not (default.package or "_").startswith("_")
        and not default.override
    )
