"""The options of config groups, read from their files. All of this needs an initialised Hydra."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from hydra.errors import HydraException
from omegaconf.errors import OmegaConfBaseException
from yaml import YAMLError  # type: ignore[import-untyped]

from posbench.base.errors import ConfigError, PosbenchError
from posbench.base.wording import closest, known_names
from posbench.config import folders
from posbench.config.compose import compose, option_file
from posbench.config.composition_rules import at, merged

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
