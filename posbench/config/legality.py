"""Which extension can extend which encoding, and which task supplies the ids it asks for.

Both are read off declarations, and so is the class of the two together.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from omegaconf import DictConfig, OmegaConf

from posbench.base.errors import IllegalExtension
from posbench.config.building import build, class_of
from posbench.config.compose import compose
from posbench.config.options import BROKEN, content, options

if TYPE_CHECKING:
    from posbench.core.encoding import EncodingStack
    from posbench.core.extension import Extension

TRAIN_POSITIONS, TEST_POSITIONS = 64, 512
"""Lengths for what is built here only to be asked: they do not decide whether a pair is legal."""


def legal_encodings(extension: DictConfig) -> list[str]:
    """The encodings that an extension does not refuse. Needs an initialised Hydra.

    A file of the user that makes no encoding is passed over: who chooses it is told.
    """
    # This imports torch, which is loaded already wherever this function is called.
    root = compose().cfg()
    root.extension = extension
    found = []
    for name in options("encoding"):
        try:
            root.encoding = content("encoding", name)
            if not refusal(*built(root)):
                found.append(name)
        except BROKEN:
            continue
    return found


def built(cfg: DictConfig) -> tuple[Extension, EncodingStack]:
    """The extension and the encodings of a configuration, at lengths that decide nothing."""
    from posbench.core.looped import stacked

    cfg.train_positions, cfg.test_positions = TRAIN_POSITIONS, TEST_POSITIONS
    plain: Any = OmegaConf.to_container(cfg, resolve=True)
    encoding = plain["encoding"]
    layers = [build(layer, "encoding") for layer in encoding.get("layers", [encoding])]
    stack = stacked(layers, len(layers), plain["model"]["loops"])
    return build(plain["extension"], "extension"), stack


def refusal(extension: Extension, stack: EncodingStack) -> str:
    """Why the extension cannot extend these encodings, "" if it can: it refuses by itself."""
    try:
        extension.extend(stack, TRAIN_POSITIONS, TEST_POSITIONS)
    except IllegalExtension as error:
        return str(error)
    return ""


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
            cls = class_of(content("task", name)["task"]["_target_"], "task")
        except (*BROKEN, KeyError, TypeError):
            continue
        if kind in cls.ids:
            found.append(name)
    return found
