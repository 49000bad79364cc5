"""What words of the command line compose, with the folders that `--config-dir` gives."""

from __future__ import annotations

import functools
import pickle
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Self
from weakref import WeakKeyDictionary

import hydra
from hydra.core.config_store import ConfigStore
from hydra.core.global_hydra import GlobalHydra
from hydra.core.plugins import Plugins
from hydra.core.singleton import Singleton
from hydra_plugins.posbench_sweeper import PosbenchSweeper
from omegaconf import DictConfig, OmegaConf

from posbench.config import folders, resolvers
from posbench.config.composition_rules import composed
from posbench.config.hydra_search import MethodRows, OwnFiles, SearchPath
from posbench.config.numbers import refuse_unbounded
from posbench.config.option_files import NotOurs, OptionFile, OptionFiles

SWEEPER = f"{PosbenchSweeper.__module__}.{PosbenchSweeper.__name__}"


def register() -> None:
    """What Hydra must know before it composes, beside the files of conf/."""
    _register_once()
    # By hand: Hydra's search does not see packages of an editable installation. Every time: what
    # runs in this process may have put Hydra's plugins back to what they were before.
    for plugin in (PosbenchSweeper, OwnFiles, MethodRows, SearchPath):
        Plugins.instance().register(plugin)
    resolvers.guard()


@functools.cache
def _register_once() -> None:
    resolvers.register()
    ConfigStore.instance().store(
        "posbench", {"_target_": SWEEPER, "leaderboard": True}, group="hydra/sweeper"
    )


@contextmanager
def composing(*own: Path) -> Iterator[None]:
    """Hydra on posbench's configuration and on own folders, whose classes can be imported."""
    for folder in own:
        folders.check(folder)
    register()
    before, SearchPath.chosen = SearchPath.chosen, own
    GlobalHydra.instance().clear()
    try:
        with (
            folders.importable(own),
            hydra.initialize_config_module("posbench.conf", version_base="1.3"),
        ):
            resolvers.guard()  # again: Hydra registers its own when it is initialised
            yield
    finally:
        SearchPath.chosen = before


@contextmanager
def hydra_of_its_own(*own: Path) -> Iterator[None]:
    """`composing` for a moment; an application that this runs in keeps its own Hydra."""
    before = Singleton.get_state() if GlobalHydra.instance().is_initialized() else None
    try:
        with composing(*own):
            yield
    finally:
        if before is not None:
            Singleton.set_state(before)


# -- compositions of many runs ---------------------------------------------------------------------


@dataclass(frozen=True)
class Composition:
    """What words of the command line compose, interpolations unresolved. It is shared: copy it."""

    content: dict[str, Any]
    choices: Mapping[str, Any]  # the option of every group

    @classmethod
    def of(cls, cfg: DictConfig, choices: Mapping[Any, Any]) -> Self:
        """What Hydra has composed; ConfigError for a number that is infinite or none."""
        plain: Any = OmegaConf.to_container(cfg, resolve=False)
        content = {key: value for key, value in plain.items() if key != "hydra"}
        refuse_unbounded(content)
        return cls(content, {f"{key}": choice for key, choice in choices.items()})

    def but(self, **settings: Any) -> Self:
        """The same with other settings that no name depends on."""
        return replace(self, content=self.content | settings)

    def cfg(self) -> DictConfig:
        """A configuration that may be changed."""
        found: DictConfig = pickle.loads(self._pickled)
        return found

    @cached_property
    def _pickled(self) -> bytes:
        """The configuration, of which a copy takes a twelfth of the time of making it."""
        return pickle.dumps(OmegaConf.create(self.content))


class _Composer:
    """What is composed with the folders of one Hydra, which do not change: each only once."""

    def __init__(self) -> None:
        self._files = OptionFiles(folders.searched())
        self._found: dict[tuple[str, ...], Composition] = {}

    def read(self, path: str) -> OptionFile | None:
        """The file of an option, "encoding/rope"; None where there is none."""
        return self._files.read(path)

    def compose(self, words: tuple[str, ...]) -> Composition:
        """What the words compose."""
        if words not in self._found:
            try:
                found = Composition(*composed(words, self._files))
                refuse_unbounded(found.content)
            except NotOurs:
                found = by_hydra(*words)
            self._found[words] = found
        return self._found[words]


_composers: WeakKeyDictionary[Any, _Composer] = WeakKeyDictionary()


def _composer() -> _Composer:
    now = GlobalHydra.instance().hydra
    assert now is not None
    if now not in _composers:
        _composers[now] = _Composer()
    return _composers[now]


def compose(*words: str) -> Composition:
    """What words of the command line compose, as Hydra would, which takes a hundred times as long.

    Needs an initialised Hydra, whose folders may not change. HydraException for a mistake.
    """
    rest, seed = without_seed(words)
    found = _composer().compose(rest)
    return found if seed is None else found.but(seed=seed)


def by_hydra(*words: str) -> Composition:
    """The same by Hydra itself, which has sentences for what is wrong."""
    cfg = hydra.compose("config", list(words), return_hydra_config=True)
    return Composition.of(cfg, cfg.hydra.runtime.choices)


def option_file(group: str, name: str) -> OptionFile | None:
    """The file of an option; None where there is no such option. Nothing is composed."""
    return _composer().read(f"{group}/{name}")


def without_seed(words: tuple[str, ...]) -> tuple[tuple[str, ...], int | None]:
    """The words that choose no seed, and the seed that the others choose."""
    seeds = [word for word in words if word.startswith("seed=") and word[5:].isdigit()]
    rest = tuple(word for word in words if word not in seeds)
    return rest, int(seeds[-1][5:]) if seeds else None
