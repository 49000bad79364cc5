"""What words of the command line compose, with the folders that `--config-dir` gives."""

from __future__ import annotations

import copy
import functools
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Self
from weakref import WeakKeyDictionary

import hydra
from hydra.core.config_store import ConfigStore
from hydra.core.global_hydra import GlobalHydra
from hydra.core.override_parser.types import Override
from hydra.core.plugins import Plugins
from hydra.core.singleton import Singleton
from hydra.plugins.config_source import ConfigResult
from hydra_plugins.posbench_sweeper import PosbenchSweeper
from omegaconf import DictConfig, OmegaConf

from posbench.base.errors import ConfigError
from posbench.config import folders, resolvers
from posbench.config.hydra_inside import ROOT, OptionFiles, Placed, placed, set_in
from posbench.config.numbers import refuse_unbounded
from posbench.config.sources import MethodRows, OwnFiles, SearchPath
from posbench.config.words import Word

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
        return OmegaConf.create(copy.deepcopy(self.content))


class NoSetting(ConfigError):
    """A word sets, chooses or deletes a setting that does not exist; `mistakes` knows which do."""

    def __init__(self, key: str, words: Sequence[str]) -> None:
        super().__init__(f"{key} is not a setting")
        self.key, self.words = key, tuple(words)


def refuse_several(words: Sequence[str]) -> None:
    """ConfigError names a word of which only a sweep makes runs."""
    for word in words:
        if Word.of(word).several:
            raise ConfigError(f"{word} lists several values: add -m to run one after the other")


class _Composer:
    """What is composed with the folders of one Hydra, which do not change: each only once."""

    def __init__(self) -> None:
        self._files = OptionFiles()
        self._chosen: dict[tuple[str, ...], tuple[dict[str, Any], Placed]] = {}
        self._found: dict[tuple[str, ...], Composition] = {}

    def read(self, path: str) -> ConfigResult | None:
        """The file of an option, "encoding/rope"; None where there is none."""
        return self._files.option(path)

    def compose(self, words: tuple[str, ...]) -> Composition:
        """What the words compose."""
        if words not in self._found:
            self._found[words] = self._composed(words)
        return self._found[words]

    def _composed(self, words: tuple[str, ...]) -> Composition:
        refuse_several(words)
        read = [Word.of(word).override for word in words]
        read = [override for override in read if not override.is_hydra_override()]
        choosing = [override for override in read if self._chooses(override)]
        content, chosen = self.chosen(ROOT, choosing)
        if chosen.unused:
            raise NoSetting(chosen.unused[0], words)
        for override in read:
            if override not in choosing:
                try:
                    content = _set(content, override)
                except KeyError:
                    raise NoSetting(override.key_or_group, words) from None
        refuse_unbounded(content)
        return Composition(content, chosen.choices)

    def _chooses(self, override: Override) -> bool:
        """Whether a word chooses a file, and is no setting."""
        is_group = self._files.group_exists(override.key_or_group)
        return is_group and not isinstance(override.value(), dict)

    def chosen(self, path: str, choosing: Sequence[Override] = ()) -> tuple[dict[str, Any], Placed]:
        """The content of a file with all that its defaults lists choose; it is shared."""
        key = (path, *(str(override.input_line) for override in choosing))
        if key not in self._chosen:
            found, content = placed(path, self._files, choosing), dict[str, Any]()
            for each, package in found.files:
                content = _merged(content, _at(package, self._content(each)))
            content.pop("hydra", None)
            self._chosen[key] = content, found
        return self._chosen[key]

    def _content(self, path: str) -> dict[str, Any]:
        file = self._files.option(path)
        assert file is not None
        content: Any = OmegaConf.to_container(file.config, resolve=False)
        if not isinstance(content, dict):
            raise ConfigError(f"{path}.yaml holds a list: write settings, key: value")
        return content


def _merged(old: Any, new: Any) -> Any:
    """Mappings joined, and else the new one. Neither is changed; what comes of it shares them."""
    if not isinstance(old, dict) or not isinstance(new, dict):
        if isinstance(old, dict) != isinstance(new, dict) and "${" in f"{old}{new}":
            raise ConfigError(
                f"{old if isinstance(new, dict) else new} takes the place of a section: write its "
                "settings one by one"
            )
        return new
    found = dict(old)
    for key, value in new.items():
        found[key] = _merged(old[key], value) if key in old else value
    return found


def _at(package: str, content: Any) -> dict[str, Any]:
    """The content at a place, "encoding.host"."""
    for part in reversed(package.split(".")) if package else ():
        content = {part: content}
    found: dict[str, Any] = content
    return found


def _set(content: dict[str, Any], override: Override) -> dict[str, Any]:
    """The content once a word has set a value; KeyError if it is not there. A number or text that
    takes the place of another needs no OmegaConf, which takes a hundred times as long.
    """
    key, value = override.key_or_group, override.value()
    old: Any = content
    for part in key.split("."):
        old = old.get(part, {}) if isinstance(old, dict) else {}
    signed = override.is_add() or override.is_force_add() or override.is_delete()
    if not signed and override.package is None and _is_simple(old) and _is_simple(value):
        return _merged(content, _at(key, value))
    return set_in(content, override)


def _is_simple(value: Any) -> bool:
    return not isinstance(value, dict | list) and "${" not in str(value) and value != "???"


_composers: WeakKeyDictionary[Any, _Composer] = WeakKeyDictionary()


def _composer() -> _Composer:
    now = GlobalHydra.instance().hydra
    assert now is not None
    if now not in _composers:
        _composers[now] = _Composer()
    return _composers[now]


def compose(*words: str) -> Composition:
    """What words of the command line compose.

    Needs an initialised Hydra, whose folders may not change. HydraException for a mistake, or
    NoSetting if there is not what a word names.
    """
    rest, seed = without_seed(words)
    found = _composer().compose(rest)
    return found if seed is None else found.but(seed=seed)


def option_file(group: str, name: str) -> ConfigResult | None:
    """The file of an option; None where there is no such option. Nothing is composed."""
    return _composer().read(f"{group}/{name}")


def option_content(group: str, name: str) -> dict[str, Any]:
    """What an option of a group says, and what its defaults list chooses inside it."""
    content, _ = _composer().chosen(f"{group}/{name}")
    return content


def without_seed(words: tuple[str, ...]) -> tuple[tuple[str, ...], int | None]:
    """The words that choose no seed, and the seed that the others choose."""
    seeds = [word for word in words if word.startswith("seed=") and word[5:].isdigit()]
    rest = tuple(word for word in words if word not in seeds)
    return rest, int(seeds[-1][5:]) if seeds else None
