"""Composing configurations outside a run, with the same folders that `--config-dir` gives a run."""

from __future__ import annotations

import copy
import functools
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Self
from weakref import WeakKeyDictionary

import hydra
from hydra._internal.sources_registry import SourcesRegistry
from hydra.core.config_search_path import ConfigSearchPath
from hydra.core.config_store import ConfigStore
from hydra.core.global_hydra import GlobalHydra
from hydra.core.plugins import Plugins
from hydra.plugins.search_path_plugin import SearchPathPlugin
from hydra_plugins.posbench_sweeper import PosbenchSweeper
from omegaconf import DictConfig, OmegaConf

from posbench.config import folders, methods, options, resolvers
from posbench.config.folders import OF_A_ROW
from posbench.config.numbers import refuse_unbounded
from posbench.config.words import Word

if TYPE_CHECKING:
    from hydra._internal.hydra import Hydra

SWEEPER = f"{PosbenchSweeper.__module__}.{PosbenchSweeper.__name__}"


def register() -> None:
    """What Hydra must know before it composes, beside the files of conf/."""
    _register_configurations()
    # By hand: Hydra's search does not see packages of an editable installation. Every time: what
    # runs in this process may have put Hydra's plugins back to what they were before.
    Plugins.instance().register(PosbenchSweeper)
    SourcesRegistry.instance().types["file"] = folders.OwnFiles
    resolvers.guard()


@functools.cache
def _register_configurations() -> None:
    resolvers.register()
    # Hydra copies its sources with every question that it answers; of what is registered, which
    # never changes, it also copies each part that it hands out. The first is spared: 300 methods
    # take 30 ms, and --help asks a hundred times.
    ConfigStore.__deepcopy__ = lambda self, memo: self  # type: ignore[attr-defined]
    methods.register()
    ConfigStore.instance().store(
        "posbench", {"_target_": SWEEPER, "leaderboard": True}, group="hydra/sweeper"
    )


class _Folders(SearchPathPlugin):
    chosen: ClassVar[tuple[Path, ...]] = ()

    def manipulate_search_path(self, search_path: ConfigSearchPath) -> None:
        for folder in self.chosen:
            search_path.append(folders.PROVIDER, f"file://{folder}")


@contextmanager
def composing(*own: Path) -> Iterator[None]:
    """Hydra on posbench's configuration and on own folders, whose classes can be imported."""
    for folder in own:
        folders.check(folder)
    register()
    _Folders.chosen = tuple(folder.resolve() for folder in own)
    Plugins.instance().register(_Folders)
    GlobalHydra.instance().clear()
    try:
        with (
            folders.importable(own),
            hydra.initialize_config_module("posbench.conf", version_base="1.3"),
        ):
            resolvers.guard()  # again: Hydra registers its own when it is initialised
            yield
    finally:
        _Folders.chosen = ()


# -- compositions of many runs ---------------------------------------------------------------------


@dataclass(frozen=True)
class Composition:
    """What words of the command line compose, interpolations unresolved. It is shared: copy it."""

    content: dict[str, Any]
    choices: Mapping[str, Any]  # the option of every group

    @classmethod
    def of(cls, cfg: DictConfig, choices: Mapping[str, Any]) -> Self:
        """What Hydra has composed; ConfigError for a number that is infinite or none."""
        plain: Any = OmegaConf.to_container(cfg, resolve=False)
        refuse_unbounded({key: value for key, value in plain.items() if key != "hydra"})
        return cls(plain, choices)

    def but(self, **settings: Any) -> Self:
        """The same with other settings that no name depends on."""
        return replace(self, content=self.content | settings)

    def cfg(self) -> DictConfig:
        """A configuration of one's own."""
        return OmegaConf.create(copy.deepcopy(self.content))


_composed: WeakKeyDictionary[Hydra, dict[tuple[str, ...], Composition]] = WeakKeyDictionary()
"""What each Hydra has composed: its folders do not change."""


def compose(*words: str) -> Composition:
    """What Hydra makes of the words; each method, and each task with its protocol, only once.

    Composing takes a tenth of a second, and a sweep has thousands of runs of a few hundred methods
    and tasks. So the words of the method and all others are composed apart, and the result takes
    each section from where it was changed. Where both change one, Hydra composes the whole. Needs
    an initialised Hydra, whose folders may not change.
    """
    rest, seed = without_seed(words)
    found = _of_parts(rest)
    return found if seed is None else found.but(seed=seed)


def without_seed(words: tuple[str, ...]) -> tuple[tuple[str, ...], int | None]:
    """The words that choose no seed, and the seed that the others choose."""
    seeds = [word for word in words if word.startswith("seed=") and word[5:].isdigit()]
    rest = tuple(word for word in words if word not in seeds)
    return rest, int(seeds[-1][5:]) if seeds else None


def _of_parts(words: tuple[str, ...]) -> Composition:
    if any(Word.of(word).key == "experiment" for word in words):  # it may choose the method
        return _whole(words)
    of_method = tuple(word for word in words if _is_of_method(word))
    others = tuple(word for word in words if not _is_of_method(word))
    method, test, usual = _method(of_method), _whole(others), _whole(())
    merged = {}
    for section in method.content.keys() | test.content.keys():
        here, there = method.content.get(section), test.content.get(section)
        neither = usual.content.get(section)
        changed, unasked = (here, others) if here != neither else (there, of_method)
        # Where both sides have a say, the order counts, even if one says what is usual.
        both = here != neither and there != neither
        if both or (changed != neither and _say(unasked, section)):
            return _whole(words)
        merged[section] = changed
    choices = {}
    for group in method.choices.keys() | test.choices.keys():
        of_that, of_this = method.choices.get(group), test.choices.get(group)
        neither = usual.choices.get(group)
        if of_that != neither and of_this != neither:
            return _whole(words)
        choices[group] = of_that if of_that != neither else of_this
    return Composition(merged, choices)


def _say(words: tuple[str, ...], section: str) -> bool:
    """Whether one of the words may set something in a section."""
    said = {Word.of(word).section for word in words}
    return section in said or (section in OF_A_ROW and bool(said.intersection(OF_A_ROW)))


def _method(words: tuple[str, ...]) -> Composition:
    """The words of a method, composed; names alone are looked up, which takes a tenth of the time.

    Looked up are options that stand alone, without a defaults list of their own.
    """
    named = dict(word.partition("=")[::2] for word in words)
    usual = _whole(())
    row = methods.methods().get(named.get("method", usual.choices["method"]))
    if words in _cache() or row is None or not named.keys() <= set(OF_A_ROW):
        return _whole(words)
    if row.model:
        return _whole(words)
    chosen = {"encoding": row.encoding, "extension": row.extension} | named
    found = {group: _alone(group, chosen[group]) for group in ("encoding", "extension")}
    if None in found.values():
        return _whole(words)
    _cache()[words] = Composition(usual.content | found, {**usual.choices, **chosen})
    return _cache()[words]


def _alone(group: str, option: str) -> dict[str, Any] | None:
    """The content of an option that has no defaults list; None of any other."""
    found = options.file(group, option)
    if found is None or not all(default.is_self() for default in found.defaults_list):
        return None
    plain: Any = OmegaConf.to_container(found.config, resolve=False)
    refuse_unbounded({group: plain})
    return plain


def _is_of_method(word: str) -> bool:
    return Word.of(word).section in OF_A_ROW


def _whole(words: tuple[str, ...]) -> Composition:
    if words not in _cache():
        cfg = hydra.compose("config", list(words), return_hydra_config=True)
        choices = {str(key): value for key, value in cfg.hydra.runtime.choices.items()}
        found = Composition.of(cfg, choices)
        del found.content["hydra"]
        _cache()[words] = found
    return _cache()[words]


def _cache() -> dict[tuple[str, ...], Composition]:
    now = GlobalHydra.instance().hydra
    assert now is not None
    return _composed.setdefault(now, {})
