"""How a run is composed: from config.yaml and its defaults list, the options that are chosen in it,
each at its package, and the words that set values.

These are the rules of Hydra, with which the tests compare what comes of them, for what posbench
and its users write. `NotOurs` leaves all else to Hydra.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from hydra.core.override_parser.types import Override
from omegaconf import OmegaConf
from omegaconf.errors import OmegaConfBaseException

from posbench.base.errors import ConfigError
from posbench.config.option_files import Default, NotOurs, OptionFiles
from posbench.config.words import Word

ROOT = "config"
DEEPEST = 20
"""Defaults in defaults, before a file is taken to name itself."""


class NoSetting(ConfigError):
    """A word sets, chooses or deletes a setting that does not exist; `mistakes` knows which do."""

    def __init__(self, key: str, words: Sequence[str]) -> None:
        super().__init__(f"{key} is not a setting")
        self.key, self.words = key, tuple(words)


def refuse_several(words: Sequence[str]) -> None:
    """ConfigError names a word of which only a sweep makes runs."""
    for word in words:
        if (found := Word.of(word)).several:
            if not found.each():
                raise ConfigError(f"{word} lists no value: name one")
            raise ConfigError(f"{word} lists several values: posbench sweep makes a run of each")


def composed(words: Sequence[str], files: OptionFiles) -> tuple[dict[str, Any], dict[str, Any]]:
    """The content and the option of each group; NotOurs if Hydra has to be asked.

    ConfigError for a word that cannot be: NoSetting if there is not what it names.
    """
    refuse_several(words)
    choosing, settings = _Choosing(files), list[Override]()
    for override in (Word.of(word).override for word in words):
        if override.is_hydra_override():
            raise NotOurs
        if isinstance(override.value(), dict) or not files.is_group(override.key_or_group):
            settings.append(override)
        else:
            choosing.add(override)
    content: dict[str, Any] = {}
    placed = choosing.placed()
    if unused := choosing.unused():
        raise NoSetting(unused[0], words)
    for path, package in placed:
        option = files.read(path)
        assert option is not None
        content = merged(content, at(package, option.content))
    content.pop("hydra", None)
    for override in settings:
        try:
            content = _set(content, override)
        except KeyError:
            raise NoSetting(override.key_or_group, words) from None
    return content, choosing.choices


# -- which options, and where their content goes ---------------------------------------------------


@dataclass(frozen=True)
class _Place:
    """Where a file has its defaults: they are named relative to its group and its package."""

    group: str
    package: str


@dataclass(frozen=True)
class _Node:
    """An entry of a defaults list at its place."""

    entry: Default
    parent: _Place

    @property
    def _relative(self) -> str:
        """The group as it is written: "encoding" of `/encoding@host: rope`."""
        if self.entry.group is not None:
            return self.entry.group.removeprefix("/")
        return (self.entry.name or "").removeprefix("/").rpartition("/")[0]

    @property
    def group(self) -> str:
        """The group, "encoding"."""
        written = self.entry.group if self.entry.group is not None else self.entry.name or ""
        above = [] if written.startswith("/") or not self.parent.group else [self.parent.group]
        return "/".join([*above, *([self._relative] if self._relative else [])])

    @property
    def path(self) -> str:
        """The file, "encoding/rope"."""
        name = (self.entry.name or "").rpartition("/")[2] if self.entry.group is None else None
        return "/".join(filter(None, (self.group, name or self.entry.name)))

    def package(self, header: str | None = None) -> str:
        """Where its content goes, "encoding.host"; "" is the root. A package is written with the
        entry, or in the first line of the file, and is the group otherwise.
        """
        own = self.entry.package
        if own is None and header is not None:
            own = header if header.startswith("_global_") else f"_global_.{header}"
        if own is None:
            own = self._relative.replace("/", ".")
        whole = ".".join(filter(None, (self.parent.package, own)))
        return whole.rpartition("_global_")[2].removeprefix(".")

    @property
    def key(self) -> str:
        """What chooses it on the command line, "encoding@encoding.host"."""
        package = self.package()
        same = package == self.group.replace("/", ".")
        return self.group if same else f"{self.group}@{package or '_global_'}"


@dataclass
class _Choosing:
    """The option of each group, as words and `override` entries choose it.

    A defaults list is looked at from its end: so `method`, which comes after `encoding`, may
    choose the encoding, and `experiment` both.
    """

    files: OptionFiles
    choices: dict[str, Any] = field(default_factory=dict)
    _chosen: dict[str, str | None] = field(default_factory=dict)  # the first to choose decides
    _used: set[str] = field(default_factory=set)
    _deleted: dict[str, str | None] = field(default_factory=dict)
    _added: list[Default] = field(default_factory=list)

    def add(self, override: Override) -> None:
        """A word that chooses an option."""
        key, value = override.get_key_element(), override.value()
        if override.is_delete():
            if not isinstance(value, str | None):
                raise NotOurs
            self._deleted[key.removeprefix("~")] = value
            return
        if not isinstance(value, str) or override.is_force_add():
            raise NotOurs
        if override.is_add():
            group = override.key_or_group
            self._added.append(Default.read({f"{group}@{override.package or ''}": value}))
        else:
            self._chosen[key] = Default.read({"group": value}).name

    def placed(self) -> list[tuple[str, str]]:
        """The file and the package of each option, in the order in which they are merged."""
        return self._below(ROOT, _Place("", ""), self._added)

    def unused(self) -> list[str]:
        """What is chosen or taken away, once all are placed, but is no entry of a defaults list."""
        return [key for key in (*self._chosen, *self._deleted) if key not in self._used]

    def _below(
        self, path: str, place: _Place, added: Sequence[Default] = (), depth: int = 0
    ) -> list[tuple[str, str]]:
        """A file with its defaults, each of which may have defaults itself."""
        option = self.files.read(path)
        if option is None or depth > DEEPEST:
            raise NotOurs
        entries = [*option.defaults]
        chosen = [entry for entry in entries if entry.override]
        here = [entry for entry in entries if not entry.override]
        late = itertools.dropwhile(lambda entry: not entry.override, entries)
        if any(not (entry.override or entry.is_self) for entry in late):
            raise NotOurs  # Hydra wants an `override` at the end
        if not any(entry.is_self for entry in here):
            here.append(Default("_self_"))
        elif sum(entry.is_self for entry in here) > 1:
            raise NotOurs
        for entry in chosen:
            if not (entry.group or "").startswith(("hydra/", "/hydra/")):
                self._chosen.setdefault(_Node(entry, place).key, entry.name)
        found: list[tuple[str, str]] = []
        for entry in reversed([*here, *added]):
            if entry.is_self:
                found[:0] = [(path, place.package)]
            else:
                found[:0] = self._of(_Node(entry, place), depth)
        return found

    def _of(self, node: _Node, depth: int) -> list[tuple[str, str]]:
        """An entry with what is below it, none where nothing is chosen."""
        if node.entry.group is not None:
            key, name = node.key, node.entry.name
            if key in self._chosen:
                name = self._chosen[key]
                self._used.add(key)
                node = _Node(Default(name, node.entry.group, node.entry.package), node.parent)
            if key in self._deleted and self._deleted[key] in (None, name):
                self._used.add(key)
                return []
            if key in self.choices:
                raise NotOurs  # chosen twice
            self.choices[key] = name
            if name is None:
                return []
        option = self.files.read(node.path)
        if option is None:
            raise NotOurs
        place = _Place(node.group, node.package(option.package))
        return self._below(node.path, place, depth=depth + 1)


# -- contents --------------------------------------------------------------------------------------


def merged(old: Any, new: Any) -> Any:
    """Mappings joined, and else the new one. Neither is changed; what comes of it shares them."""
    if not isinstance(old, dict) or not isinstance(new, dict):
        if isinstance(old, dict) != isinstance(new, dict) and "${" in f"{old}{new}":
            raise NotOurs  # an interpolation of a whole section
        return new
    found = dict(old)
    for key, value in new.items():
        found[key] = merged(old[key], value) if key in old else value
    return found


def at(package: str, content: dict[str, Any]) -> dict[str, Any]:
    """The content at a place, "encoding.host"."""
    for part in reversed(package.split(".")) if package else ():
        content = {part: content}
    return content


def _set(content: dict[str, Any], override: Override) -> dict[str, Any]:
    """The content once a word has set a value, added or taken away one.

    KeyError if it is not there.
    """
    key, value = override.key_or_group, override.value()
    if override.package is not None:  # of a group that there is not
        raise NotOurs
    parts = key.split(".")
    _refuse_strange(value)
    adds = override.is_add() or override.is_force_add()
    try:
        there, old = _found(content, parts)
    except NotOurs:
        if adds:
            raise
        raise KeyError(key) from None
    if override.is_delete():
        if not there or old is None:
            raise KeyError(key)
        if "${" in str(old):
            raise NotOurs
        if value not in (None, old):
            raise ConfigError(f"~{key}={value} is not what is there, {old}: write ~{key}")
        return _without(content, parts)
    if adds:
        if there and "${" in str(old):
            raise NotOurs
        if override.is_add() and old is not None and not isinstance(value, dict | list):
            raise ConfigError(f"+{key} adds a setting that is there: write {key}=VALUE, without +")
    elif not there or not _has(old, value):
        raise KeyError(key)
    return _with(content, parts, merged(old, value))


def _refuse_strange(value: Any) -> None:
    if isinstance(value, dict):
        if not all(isinstance(key, str) for key in value):
            raise NotOurs
        value = list(value.values())
    if isinstance(value, list):
        for each in value:
            _refuse_strange(each)
    elif value == "???":
        raise NotOurs
    elif isinstance(value, str) and "${" in value:
        try:
            OmegaConf.create([value])
        except OmegaConfBaseException:
            raise NotOurs from None


def _found(content: Any, parts: Sequence[str]) -> tuple[bool, Any]:
    """Whether a setting is there, and its value."""
    for part in parts:
        if isinstance(content, list) and part.isdigit() and int(part) < len(content):
            content = content[int(part)]
        elif isinstance(content, dict) and part in content:
            content = content[part]
        elif content is None or isinstance(content, dict):
            return False, None
        else:
            raise NotOurs
    return True, content


def _has(old: Any, new: Any) -> bool:
    """Whether the keys of a mapping are all settings that are there."""
    if not isinstance(old, dict) or not isinstance(new, dict):
        return True
    return all(key in old and _has(old[key], value) for key, value in new.items())


def _with(content: Any, parts: Sequence[str], value: Any) -> Any:
    if not parts:
        return value
    first, *rest = parts
    if isinstance(content, list):
        place = int(first)
        return [*content[:place], _with(content[place], rest, value), *content[place + 1 :]]
    inside: Mapping[str, Any] = content or {}
    return {**inside, first: _with(inside.get(first), rest, value)}


def _without(content: Any, parts: Sequence[str]) -> Any:
    first, *rest = parts
    if not isinstance(content, dict):
        raise NotOurs
    if rest:
        return {**content, first: _without(content[first], rest)}
    return {key: value for key, value in content.items() if key != first}
