"""The options of config groups, read from their files. All of this needs an initialised Hydra."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import hydra
from hydra.core.default_element import GroupDefault
from hydra.core.global_hydra import GlobalHydra
from hydra.errors import HydraException
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException
from yaml import YAMLError  # type: ignore[import-untyped]

from posbench.base.errors import ConfigError, PosbenchError
from posbench.base.wording import closest, known_names
from posbench.config import folders

HELP = "python -m posbench --help"
BROKEN = (PosbenchError, HydraException, OmegaConfBaseException, YAMLError)
"""What is raised for an option that cannot be composed, or makes no object: the user can put it
right.
"""


def unknown(word: str, group: str, option: str, known: Collection[str]) -> str:
    """What to do about a word that chooses none of the known options of a group."""
    if (path := folders.left_out(group, option)) is not None:
        return f"{word} is unknown: {path} is found with --config-dir {path.parent.parent}"
    meant = closest(option, known)
    own = "; a file of your own is found with --config-dir FOLDER"
    hint = own * (meant is None and group in folders.GROUPS)
    return f"{word} is unknown: {known_names(known, HELP, meant)}{hint}"


def options(group: str) -> list[str]:
    """The names a config group offers, including those from folders given with --config-dir."""
    loader = GlobalHydra.instance().config_loader()
    return sorted(loader.get_group_options(group))


def file(group: str, name: str) -> Any:
    """What the file of an option holds, its `config` and its `defaults_list`; None where there is
    no such option. Nothing is composed, which would take a tenth of a second.
    """
    repository = GlobalHydra.instance().config_loader().repository  # type: ignore[attr-defined]
    return repository.load_config(f"{group}/{name}")


def node(group: str, name: str) -> DictConfig:
    """The content of one option of a group.

    It is read from its file, and so are options inside it, such as the host of a wrapper:
    composing a hundred would take half a minute.
    """
    found = file(group, name)
    if found is None:
        raise ConfigError(unknown(f"{group}={name}", group, name, options(group)))
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
