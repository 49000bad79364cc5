"""Composing configurations outside a run, with the same folders that `--config-dir` gives a run."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import ClassVar

import hydra
from hydra.core.config_search_path import ConfigSearchPath
from hydra.core.global_hydra import GlobalHydra
from hydra.core.plugins import Plugins
from hydra.errors import MissingConfigException, OverrideParseException
from hydra.plugins.search_path_plugin import SearchPathPlugin
from omegaconf import DictConfig

from posbench.composing import methods, resolvers
from posbench.errors import ConfigError


class _Folders(SearchPathPlugin):
    chosen: ClassVar[tuple[Path, ...]] = ()

    def manipulate_search_path(self, search_path: ConfigSearchPath) -> None:
        for folder in self.chosen:
            search_path.append("command-line", f"file://{folder}")


@contextmanager
def composing(*folders: Path) -> Iterator[None]:
    """Hydra initialised on posbench's configuration and on folders of one's own, whose classes can
    be imported.
    """
    for folder in folders:
        if not folder.is_dir():
            raise ConfigError(
                f"{folder} is not a folder: give one that holds encoding/ and method/, as conf/ "
                "does"
            )
    resolvers.register()
    methods.register()
    _Folders.chosen = tuple(folder.resolve() for folder in folders)
    Plugins.instance().register(_Folders)
    GlobalHydra.instance().clear()
    before = list(sys.path)
    sys.path[:0] = [str(folder) for folder in _Folders.chosen]
    try:
        with hydra.initialize_config_module("posbench.conf", version_base="1.3"):
            yield
    finally:
        sys.path[:] = before
        _Folders.chosen = ()


def sentence(error: Exception) -> str:
    """Hydra's messages, one sentence each, with what can be done."""
    text = str(error)
    if isinstance(error, MissingConfigException) and error.missing_cfg_file and error.options:
        group, _, option = error.missing_cfg_file.rpartition("/")
        return f"{group}={option} is unknown: choose one of {', '.join(sorted(error.options))}"
    if unknown := re.search(r"Could not override '([^']+)'", text):
        section, known = (
            unknown[1].rpartition(".")[0],
            getattr(error.__cause__, "parent_node", None),
        )
        if section and isinstance(known, DictConfig):
            settings = ", ".join(str(key) for key in known if key != "_target_")
            return f"{unknown[1]} is not a setting: {section} has {settings}"
        return f"{unknown[1]} is not a setting: `python -m posbench --cfg job` prints all of them"
    if "Ambiguous value for argument" in text:
        argument = re.search(r"argument '([^']+)'", text)
        name = argument[1] if argument else "a setting"
        return f"{name} lists several values: add -m to run one after the other"
    if isinstance(error, OverrideParseException):
        return (
            f"cannot read {error.override!r}: write key=value, and quote what the shell or Hydra "
            "would interpret"
        )
    return " ".join(
        line.strip()
        for line in text.splitlines()
        if line.strip() and "HYDRA_FULL_ERROR" not in line
    )
