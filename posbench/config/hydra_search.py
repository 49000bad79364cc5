"""Where Hydra finds choices beside conf/: the rows of methods.yaml and folders of the user."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import Any, ClassVar

from hydra.core.config_search_path import ConfigSearchPath
from hydra.core.object_type import ObjectType
from hydra.plugins.config_source import ConfigLoadError, ConfigResult, ConfigSource
from hydra.plugins.search_path_plugin import SearchPathPlugin
from omegaconf import OmegaConf
from omegaconf.errors import KeyValidationError

from posbench.base.errors import ConfigError, of_limits
from posbench.config.folders import PROVIDER, SCHEME
from posbench.config.methods import as_option, methods
from posbench.config.yaml_text import endless, text_of

SUFFIX = ".yaml"


class SearchPath(SearchPathPlugin):
    """What Hydra looks through after conf/."""

    chosen: ClassVar[tuple[Path, ...]] = ()
    """Folders of the user, as of `--config-dir`."""

    def manipulate_search_path(self, search_path: ConfigSearchPath) -> None:
        for folder in self.chosen:
            search_path.append(PROVIDER, f"{SCHEME}://{folder.resolve()}")
        search_path.append("conf/methods.yaml", f"{MethodRows.scheme()}://")


class MethodRows(ConfigSource):
    """Each row of methods.yaml as an option of the group `method`."""

    @staticmethod
    def scheme() -> str:
        return "rows"

    def load_config(self, config_path: str) -> ConfigResult:
        row = self._row(config_path)
        if row is None:
            raise ConfigLoadError(f"{config_path} is no row")
        return ConfigResult(
            self.provider, self.path, OmegaConf.create(as_option(row)), {"package": "_global_"}
        )

    def available(self) -> bool:
        return True

    def is_group(self, config_path: str) -> bool:
        return config_path in ("", "method")

    def is_config(self, config_path: str) -> bool:
        return self._row(config_path) is not None

    def list(self, config_path: str, results_filter: ObjectType | None) -> list[str]:
        if config_path == "":
            return ["method"] if results_filter != ObjectType.CONFIG else []
        return (
            sorted(methods())
            if self.is_group(config_path) and results_filter != ObjectType.GROUP
            else []
        )

    def _row(self, path: str) -> Any:
        group, _, name = path.removesuffix(SUFFIX).rpartition("/")
        return methods().get(name) if group == "method" else None


# -- folders of the user ---------------------------------------------------------------------------

OF_THE_USER = {
    "hydra": "Hydra calls what it names",
    "logger": "it says where curves are sent",
    "results_dir": "it says where files are written",
    "zoo": "it says where weights are taken from",
    "job": "a sweep fills it in",
    "definition": "a board fills it in",
    "force": "it says whether complete runs are made again",
    "plan_only": "it says whether anything is run",
}
"""Sections that no file of a folder sets, because the folder may be somebody else's: why."""


class OwnFiles(ConfigSource):
    """The files of a folder that is given with `--config-dir`: they choose and set what is
    computed, and nothing of the user's.

    Asked here, no file is passed over, however it is found.
    """

    @staticmethod
    def scheme() -> str:
        return SCHEME

    def load_config(self, config_path: str) -> ConfigResult:
        """The content of a file; ConfigError names the file and what it may not set."""
        where = PurePosixPath(config_path)
        path = self._file(config_path)
        if ".." in where.parts or where.is_absolute():
            raise ConfigError(f"{path} leads out of {self.path}: name a file in that folder")
        if where.parts[0] == "hydra":
            raise ConfigError(
                f"{path} is not read, because Hydra calls what it names: take it out, and set "
                "hydra.launcher.NAME=VALUE and the like on the command line"
            )
        if not path.exists():
            raise ConfigLoadError(f"{path} is not there")
        if why := endless(text_of(path)):
            raise ConfigError(f"{path} cannot be read: {why}")
        try:
            found = read(path)
        except (ValueError, TypeError, KeyValidationError) as error:
            if isinstance(error, ConfigError):
                raise
            said = next(iter(str(error).splitlines()), "") or "a key is no text"
            reason = of_limits(error) or said
            raise ConfigError(f"{path} cannot be read: {reason}") from None
        for wrong in _no_texts(OmegaConf.to_container(found[0], resolve=False)):
            raise ConfigError(f"{path} cannot be read: {wrong}: write it as text, in quotes")
        result = ConfigResult(self.provider, self.path, found[0], {"package": found[1]})
        for said in _set_of_the_user(result, where):
            why = next(why for name, why in OF_THE_USER.items() if name in said)
            raise ConfigError(
                f"{path} sets {said}, which is the user's own, as {why}: take it out, and set it "
                "on the command line"
            )
        return result

    def available(self) -> bool:
        return Path(self.path).is_dir()

    def is_group(self, config_path: str) -> bool:
        return Path(self.path, config_path).is_dir()

    def is_config(self, config_path: str) -> bool:
        return self._file(config_path).is_file()

    def list(self, config_path: str, results_filter: ObjectType | None) -> list[str]:
        groups, configs = set(), set()
        for each in Path(self.path, config_path).iterdir():
            if each.is_dir() and each.name != "__pycache__":
                groups.add(each.name)
            elif each.suffix == SUFFIX:
                configs.add(each.stem)
        kept = {ObjectType.GROUP: groups, ObjectType.CONFIG: configs}
        return sorted(groups | configs if results_filter is None else kept[results_filter])

    def _file(self, config_path: str) -> Path:
        return Path(self.path, f"{config_path.removesuffix(SUFFIX)}{SUFFIX}")


def read(path: Path) -> tuple[Any, str | None]:
    """What a YAML holds, and the package of its first lines; YAMLError if it cannot be read."""
    with path.open(encoding="utf-8") as file:
        held = OmegaConf.load(file)
        file.seek(0)
        package = None
        for line in filter(None, map(str.strip, file.read(512).splitlines())):
            if (written := re.match(r"#\s*@", line)) is None:
                break
            name, *values = line[written.end() :].split()
            if len(values) != 1:
                raise ConfigError(
                    f"{path} begins with {line!r}: write one name, as # @package _global_"
                )
            package = values[0] if name == "package" else package
    return held, package


def _no_texts(content: Any, where: str = "") -> Iterator[str]:
    """Keys that are no text, and values that no record can hold."""
    if isinstance(content, bytes):
        yield f"{where} is binary"
    if not isinstance(content, dict | list):
        return
    for key, value in content.items() if isinstance(content, dict) else enumerate(content):
        if isinstance(content, dict) and not isinstance(key, str):
            yield f"the key {key!r} is no text"
        yield from _no_texts(value, f"{where}.{key}".lstrip("."))


def _set_of_the_user(file: ConfigResult, where: PurePosixPath) -> Iterator[str]:
    """What a file sets of the user's own, by its keys, its package or its defaults list."""
    content: Any = OmegaConf.to_container(file.config, resolve=False)
    content = content if isinstance(content, dict) else {}  # a list sets nothing
    groups, header = where.parent.parts, (file.header or {}).get("package")
    package = [*groups] if header is None else _parts(header)
    package = [
        part
        for each in package
        for part in {"_global_": [], "_group_": groups, "_name_": [where.stem]}.get(each, [each])
    ]
    if package[:1] != ["logger"] or header is not None or groups != ("logger",):
        for key in content:
            if (place := [*package, *_parts(str(key))])[0] in OF_THE_USER:
                yield ".".join(place)
    defaults = content.get("defaults")
    for entry in defaults if isinstance(defaults, list) else []:
        for key in entry if isinstance(entry, dict) else [entry]:
            parts = _parts(str(key))
            if not OF_THE_USER.keys().isdisjoint(parts):
                yield f"{key!r} in its defaults"
            elif "_global_" in parts:
                yield f"{key!r}, for example hydra, in its defaults"


def _parts(key: str) -> list[str]:
    """The names in a key of Hydra's, "hydra" and "launcher" of `override /hydra/launcher@x`."""
    return [part for part in re.split(r"[\s./@:]+", key) if part]
