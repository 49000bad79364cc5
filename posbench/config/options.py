"""The options of config groups, read from their files. All of this needs an initialised Hydra."""

from __future__ import annotations

import copy
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

from hydra.core.global_hydra import GlobalHydra
from hydra.errors import HydraException
from omegaconf import OmegaConf
from omegaconf.errors import OmegaConfBaseException
from yaml import YAMLError  # type: ignore[import-untyped]

from posbench.base.errors import ConfigError, PosbenchError
from posbench.base.wording import closest, known_names, listed
from posbench.config import folders
from posbench.config.compose import compose, option_file
from posbench.config.composition_rules import at, merged

HELP = "python -m posbench --help"
BROKEN = (PosbenchError, HydraException, OmegaConfBaseException, YAMLError)
"""What is raised for an option that cannot be composed, or makes no object: the user can put it
right.
"""


def unknown(
    word: str, group: str, option: str, known: Collection[str], own: Sequence[Path] = ()
) -> str:
    """What to do about a word that chooses none of the known options of a group. Folders of the
    user are named where Hydra is not initialised with them.
    """
    if (path := folders.left_out(group, option)) is not None:
        return f"{word} is unknown: {path} is found with --config-dir {path.parent.parent}"
    if not own and GlobalHydra.instance().is_initialized():
        own = folders.searched()
    meant = closest(option, known)
    others = [f"{each}={option}" for each in folders.GROUPS if option in folders.names(each, own)]
    if others:
        there = listed([*([meant] if meant else []), *others], "or")
        return f"{word} is unknown: did you mean {there}?"
    anywhere = "; a file of your own is found with --config-dir FOLDER"
    hint = anywhere * (meant is None and group in folders.GROUPS)
    return f"{word} is unknown: {known_names(known, HELP, meant)}{hint}"


def options(group: str) -> list[str]:
    """The names a config group offers, including those from folders given with --config-dir."""
    return folders.names(group, folders.searched())


def content(group: str, name: str) -> dict[str, Any]:
    """The content of one option of a group, which nobody changes; interpolations unresolved.

    It is read from its file, and so are options inside it, such as the host of a wrapper.
    """
    found = option_file(group, name)
    if found is None:
        raise ConfigError(unknown(f"{group}={name}", group, name, options(group)))
    whole: dict[str, Any] = {}
    for entry in found.defaults:
        if entry.is_self and entry is found.defaults[-1]:
            break
        if not (entry.group and entry.name and entry.package) or entry.override:
            whole = compose(f"{group}={name}").content[group]
            return whole
        inside = content(entry.group.lstrip("/"), entry.name)
        whole = merged(whole, at(entry.package, inside))
    whole = merged(whole, found.content)
    return whole


def resolved(group: str, name: str, sizes: Mapping[str, Any]) -> Any:
    """The content of an option, with interpolations of these sizes; whoever asks may change it."""
    written = content(group, name)
    if "${" not in str(written):  # to resolve nothing takes as long
        return copy.deepcopy(written)
    cfg = OmegaConf.create({**sizes, group: written})
    return OmegaConf.to_container(cfg[group], resolve=True)
