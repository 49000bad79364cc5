"""The YAML files that runs are composed of: those of conf/, and those of folders of the user.

Each is read once, into plain dictionaries whose interpolations are not resolved.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any, Self

from omegaconf import OmegaConf

from posbench.config.folders import PROVIDER, SCHEME
from posbench.config.hydra_search import OwnFiles, read
from posbench.config.methods import as_option, methods


class NotOurs(Exception):
    """What posbench does not compose itself. Hydra does, or says what is wrong with it."""


@dataclass(frozen=True)
class Default:
    """An entry of a defaults list, such as `/encoding@host: rope` or `override /task: copy`."""

    name: str | None  # "rope"; None where nothing is chosen; "_self_" is the file itself
    group: str | None = None  # "/encoding"; None where a file of the same folder is named
    package: str | None = None  # "host"
    override: bool = False

    @classmethod
    def read(cls, entry: Any) -> Self:
        """The entry of a YAML; NotOurs if it does more than choose one option."""
        if isinstance(entry, str):
            name, _, package = entry.partition("@")
            return cls(_simple(name), None, _package(package))
        if not isinstance(entry, dict) or len(entry) != 1:
            raise NotOurs
        ((key, name),) = entry.items()
        *keywords, place = str(key).split(" ")
        group, _, package = place.partition("@")
        if keywords not in ([], ["override"]) or not isinstance(name, str | None):
            raise NotOurs
        return cls(_simple(name), _simple(group), _package(package), bool(keywords))

    @property
    def is_self(self) -> bool:
        """Whether it is the place of the file itself among its defaults."""
        return self.name == "_self_"


@dataclass(frozen=True)
class OptionFile:
    """What a file says. It is shared: nobody changes it."""

    content: dict[str, Any]
    defaults: tuple[Default, ...] = ()
    package: str | None = None  # of its first line, "_global_" of `# @package _global_`

    @classmethod
    def of(cls, loaded: Any, package: str | None) -> Self:
        """NotOurs if the content is no mapping, or uses what posbench does not."""
        content: Any = OmegaConf.to_container(loaded, resolve=False)
        if not isinstance(content, dict) or "???" in _values(content):
            raise NotOurs
        defaults = content.get("defaults", [])
        if not isinstance(defaults, list):
            raise NotOurs
        settings = {key: value for key, value in content.items() if key != "defaults"}
        return cls(settings, tuple(map(Default.read, defaults)), _package(package or ""))


class OptionFiles:
    """The files of conf/, then those of the user's folders, then the rows of methods.yaml.

    Args:
        own: folders of the user
    """

    def __init__(self, own: Sequence[Path] = ()) -> None:
        self.own = tuple(own)
        self.read = functools.cache(self._read)
        self.is_group = functools.cache(self._is_group)

    def _read(self, path: str) -> OptionFile | None:
        """The file "encoding/rope"; None where there is none.

        ConfigError if a user's file sets what is the user's own, YAMLError if it cannot be read.
        """
        if ".." in path.split("/"):
            raise NotOurs
        if (found := _of_posbench(path)) is not None:
            return found
        for folder in self.own:
            if os.path.isfile(folder / f"{path}.yaml"):  # noqa: PTH113
                own = OwnFiles(PROVIDER, f"{SCHEME}://{folder}").load_config(path)
                return OptionFile.of(own.config, (own.header or {}).get("package"))
        group, _, name = path.partition("/")
        row = methods().get(name) if group == "method" else None
        return None if row is None else OptionFile.of(OmegaConf.create(as_option(row)), "_global_")

    def _is_group(self, name: str) -> bool:
        """Whether a key of the command line chooses a file, and is no setting."""
        return name == "method" or any((root / name).is_dir() for root in (_conf(), *self.own))


@functools.cache
def _conf() -> Path:
    return Path(str(files("posbench.conf")))


@functools.cache
def _of_posbench(path: str) -> OptionFile | None:
    file = _conf() / f"{path}.yaml"
    return OptionFile.of(*read(file)) if os.path.isfile(file) else None  # noqa: PTH113


def _simple(name: str | None) -> str | None:
    """A name that is a name; NotOurs if Hydra would look into it."""
    if name is not None and (not name or name.endswith(".yaml") or {*name} & set("$?@: ")):
        raise NotOurs
    return name


def _package(written: str) -> str | None:
    if "_group_" in written or "_name_" in written:
        raise NotOurs
    return {"": None, "_here_": ""}.get(written, written)


def _values(content: Any) -> Iterator[Any]:
    """All values in a content that are no mapping and no list."""
    if isinstance(content, dict | list):
        for each in content.values() if isinstance(content, dict) else content:
            yield from _values(each)
    else:
        yield content
