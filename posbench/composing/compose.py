"""Composing configurations outside a run, with the same folders that `--config-dir` gives a run."""

from __future__ import annotations

import functools
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import ClassVar

import hydra
from hydra.core.config_search_path import ConfigSearchPath
from hydra.core.global_hydra import GlobalHydra
from hydra.core.plugins import Plugins
from hydra.plugins.search_path_plugin import SearchPathPlugin

from posbench.composing import folders, methods, resolvers


@functools.cache
def register() -> None:
    """What Hydra must know before it composes, beside the files of conf/."""
    resolvers.register()
    methods.register()


class _Folders(SearchPathPlugin):
    chosen: ClassVar[tuple[Path, ...]] = ()

    def manipulate_search_path(self, search_path: ConfigSearchPath) -> None:
        for folder in self.chosen:
            search_path.append("command-line", f"file://{folder}")


@contextmanager
def composing(*own: Path) -> Iterator[None]:
    """Hydra on posbench's configuration and on own folders, whose classes can be imported."""
    for folder in own:
        folders.check(folder)
    register()
    _Folders.chosen = tuple(folder.resolve() for folder in own)
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
