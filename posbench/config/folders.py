"""Folders of one's own, given with `--config-dir`: what is wrong with them is said before Hydra
composes, which would pass over a file in silence or answer in terms of its own.
"""

from __future__ import annotations

import glob
import re
import sys
import sysconfig
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from importlib.machinery import PathFinder
from importlib.resources import as_file, files
from pathlib import Path, PurePosixPath
from typing import Any

import yaml  # type: ignore[import-untyped]
from hydra._internal.core_plugins.file_config_source import FileConfigSource
from hydra.core.global_hydra import GlobalHydra
from hydra.plugins.config_source import ConfigResult
from omegaconf import OmegaConf
from omegaconf.errors import KeyValidationError

from posbench.base.disk import read_text
from posbench.base.errors import ConfigError
from posbench.config.command import Command
from posbench.config.methods import methods
from posbench.config.source import SITES

GROUPS = {
    "method": "an encoding, and what extends it: a row of the leaderboard",
    "encoding": "how position enters the transformer while it is trained",
    "extension": "what is done to the trained model",
    "task": "what is asked, with a length",
    "protocol": "all that must be equal for two rows to be comparable",
    "experiment": "a protocol, a task and its settings at once, as in a paper",
    "board": "tasks, rows and seeds that a sweep (-m) runs through",
    "logger": "where the curves of a training go",
}
OF_A_ROW = ("method", "encoding", "extension")
"""Groups whose choices, and the settings below them, make a row; all others make its test."""

PROVIDER = "command-line"
"""Hydra's name for the source of a folder that is given with `--config-dir`."""
WORDS_OF_YAML = ("null", "true", "false", "yes", "no", "on", "off", "nan", "inf")


def check(folder: Path) -> None:
    """Refuse a folder in which nothing would be found, or not what its files say."""
    if not folder.is_dir():
        raise ConfigError(
            f"{folder} is not a folder: give one that holds encoding/ and method/, as conf/ does"
        )
    held = [group for group in GROUPS if (folder / group).is_dir()]
    if folder.resolve().name in GROUPS and not held:
        raise ConfigError(
            f"{folder} holds no folder {folder.resolve().name}/, it is one: give the folder around "
            f"it, --config-dir {around(folder)}"
        )
    for group in held:
        for path in sorted((folder / group).glob("*.yaml")):
            check_file(path, group)
            _check_modules(path, folder)


def around(path: Path) -> Path:
    """The folder that holds a path: as it was given, unless it is not named there, as by `.`."""
    real = path.resolve().parent
    return path.parent if path.parent.resolve() == real else real


def given(sources: Iterable[Any]) -> list[Path]:
    """The folders of one's own among the sources, or the search path, of Hydra."""
    own = (each.path for each in sources if each.provider == PROVIDER and each.path)
    return [Path(path.removeprefix("file://")) for path in own]


def searched() -> list[Path]:
    """The folders of one's own in which Hydra, which must be initialised, finds choices."""
    return given(GlobalHydra.instance().config_loader().get_search_path().get_path())


_importable: list[Path] = []
"""The folders that the user named, in the order in which modules are looked for in them."""


def make_importable(own: Iterable[Path]) -> None:
    """Make classes in folders of one's own importable, beside the YAML that names them.

    They come last: a file there with the name of an installed package takes the place of none.
    """
    own = list(own)
    sys.path += [str(folder) for folder in own if str(folder) not in sys.path]
    _importable[:0] = [folder for folder in own if folder not in _importable]


@contextmanager
def importable(own: Iterable[Path]) -> Iterator[None]:
    """Within the block, classes in folders of one's own can be imported."""
    own = [folder.resolve() for folder in own]
    before, before_here = list(sys.path), list(_importable)
    sys.path += [str(folder) for folder in own]
    _importable[:0] = own
    try:
        yield
    finally:
        sys.path[:], _importable[:] = before, before_here


def file_of(module: str) -> Path | None:
    """The file of a module in a folder that the user named, None where there is none.

    It stands where its name says, so that a folder which holds an environment names no module of
    that.
    """
    inside = Path(*module.split("."))
    places = (inside / "__init__.py", inside.with_name(f"{inside.name}.py"))
    files = (folder / place for folder in _importable for place in places)
    return next((file for file in files if file.is_file()), None)


def _check_modules(path: Path, folder: Path) -> None:
    """Refuse a module of one's own that would hide another, or be hidden by it."""
    for name in re.findall(r"_target_:\s*[\"']?(\w+)\.", _text(path)):
        if (folder / f"{name}.py").exists() and (owner := _owner(name)):
            raise ConfigError(
                f"{folder / name}.py has the name of {owner}, and only one of the two "
                f"can be imported: rename it, e.g. my_{name}.py, and _target_ in {path}"
            )


def _owner(name: str) -> str:
    """Whose module has this name already, or "" if it is free."""
    if name in sys.stdlib_module_names:
        return "a module of Python's own library"
    if name == __name__.partition(".")[0]:
        return "posbench itself"
    installed = [sysconfig.get_path(kind) for kind in ("purelib", "platlib")]
    # An environment also reads the packages of the one that it is built upon.
    installed += [path for path in sys.path if Path(path).name in SITES]
    return "an installed package" if PathFinder.find_spec(name, installed) else ""


def check_file(path: Path, group: str) -> None:
    """Refuse a name that posbench has taken, as only one of the two could be meant by it."""
    if path.stem in own_names(group) and not is_own(path, group):
        raise ConfigError(
            f"{path} has the name of posbench's own {group} {path.stem}: rename the file, e.g. "
            f"my_{path.name}"
        )
    if not re.fullmatch(r"[A-Za-z_][\w.-]*", path.stem) or path.stem.lower() in WORDS_OF_YAML:
        raise ConfigError(
            f"{path} cannot be chosen, because {group}={path.stem} is not read as a name: rename "
            f"it, e.g. my_{path.name}; letters, digits and _ will do"
        )


OF_THE_USER = {
    "hydra": "Hydra calls what it names",
    "logger": "it says where curves are sent",
    "results_dir": "it says where files are written",
    "job": "a sweep fills it in",
    "definition": "a board fills it in",
    "force": "it says whether complete runs are made again",
    "plan_only": "it says whether anything is run",
}
"""Sections that no file of a folder sets, because the folder may be somebody else's: why."""


class OwnFiles(FileConfigSource):
    """Files as Hydra reads them, but for those of folders that are given with `--config-dir`: they
    choose and set what is computed, and nothing of the user's.

    Asked here, no file is passed over, however it is found.
    """

    def load_config(self, config_path: str) -> ConfigResult:
        """The content of a file; ConfigError names the file and what it may not set."""
        if self.provider != PROVIDER:
            return super().load_config(config_path)
        where = PurePosixPath(config_path)
        path = Path(self.path) / f"{str(where).removesuffix('.yaml')}.yaml"
        if ".." in where.parts or where.is_absolute():
            raise ConfigError(f"{path} leads out of {self.path}: name a file in that folder")
        if where.parts[0] == "hydra":
            raise ConfigError(
                f"{path} is not read, because Hydra calls what it names: take it out, and set "
                "hydra.launcher.NAME=VALUE and the like on the command line"
            )
        # Of what is not there Hydra says what is.
        if path.exists() and (why := endless(_text(path))):
            raise ConfigError(f"{path} cannot be read: {why}")
        try:
            found = super().load_config(config_path)
        except (ValueError, TypeError, KeyValidationError) as error:
            reason = next(iter(str(error).splitlines()), "") or "a key is no text"
            raise ConfigError(f"{path} cannot be read: {reason}") from None
        for wrong in _no_texts(OmegaConf.to_container(found.config, resolve=False)):
            raise ConfigError(f"{path} cannot be read: {wrong}: write it as text, in quotes")
        for said in _set_of_the_user(found, where):
            why = next(why for name, why in OF_THE_USER.items() if name in said)
            raise ConfigError(
                f"{path} sets {said}, which is the user's own, as {why}: take it out, and set it "
                "on the command line"
            )
        return found


LARGEST = 1_000_000
"""Bytes of a file."""
MOST, DEEPEST = 20_000, 50
"""Values in a file, each counted wherever an alias repeats it, and how deep one is in another."""


def _text(path: Path) -> str:
    """What a file says; ConfigError if it is a pipe, a device, a folder, too large, or no text."""
    try:
        return read_text(path.resolve(), LARGEST)
    except (OSError, RuntimeError, ValueError) as error:  # RuntimeError: links in a ring
        reason = getattr(error, "strerror", None) or error
        raise ConfigError(f"{path} cannot be read ({reason}): put a file of YAML there") from None


def endless(text: str) -> str:
    """Why the aliases of a YAML text, written out, are more than a configuration can be, or ""."""
    sizes: dict[str, int] = {}
    inside: list[tuple[str | None, int]] = [(None, 0)]
    try:
        for event in yaml.parse(text, yaml.SafeLoader):
            size, anchor = 1, getattr(event, "anchor", None)
            if isinstance(event, yaml.AliasEvent):
                if anchor not in sizes:
                    return f"*{anchor} is a part of itself, or is nowhere defined"
                size, anchor = sizes[anchor], None
            elif isinstance(event, yaml.CollectionStartEvent):
                inside.append((anchor, 1))
                size, anchor = 0, None
            elif isinstance(event, yaml.CollectionEndEvent):
                anchor, size = inside.pop()
            elif not isinstance(event, yaml.ScalarEvent):
                continue
            if anchor is not None:
                sizes[anchor] = size
            inside[-1] = (inside[-1][0], inside[-1][1] + size)
            if inside[-1][1] > MOST or len(inside) > DEEPEST:
                return f"it has more than {MOST:,} values, or more than {DEEPEST} inside each other"
    except yaml.YAMLError:
        pass  # which whoever loads it finds as well, and names the line
    return ""


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


def is_own(path: Path, group: str) -> bool:
    """Whether a file is posbench's, found by its path."""
    with as_file(files("posbench.conf") / group / path.name) as own:
        return own.exists() and own.samefile(path)


def left_out(group: str, name: str) -> Path | None:
    """The file of that name in a folder like conf/ below the current one, if there is one."""
    return next(iter(sorted(Path().glob(f"*/{group}/{glob.escape(name)}.yaml"))), None)


def with_own(command: Command, own: Iterable[Path], shown: Callable[[Path], str] = str) -> Command:
    """The command of a record with --config-dir before its words, for each folder that holds a
    file which one of them chooses. No record names a folder.

    Args:
        command: repeats a run
        own: folders
        shown: how a folder is called
    """
    needed = [
        folder
        for folder in dict.fromkeys(own)
        if any(_chooses(word, folder) for word in command.words)
    ]
    return command.with_options(
        *(text for each in needed for text in ("--config-dir", shown(each)))
    )


def _chooses(word: str, folder: Path) -> bool:
    """Whether a word such as `encoding=decay` names a file of the folder. An encoding, and what
    extends one, is a method as well.
    """
    key, _, name = word.partition("=")
    group = key.lstrip("+").partition("@")[0]
    among = OF_A_ROW if group == "method" else (group,)
    return group in GROUPS and any((folder / each / f"{name}.yaml").exists() for each in among)


def own_names(group: str) -> list[str]:
    if group == "method":
        return sorted(methods())
    found = (files("posbench.conf") / group).iterdir()
    return sorted(Path(each.name).stem for each in found if each.name.endswith(".yaml"))


def names(group: str, folders: Iterable[Path]) -> list[str]:
    """What can be chosen of a group: posbench's own, and those of the folders."""
    mine = {path.stem for folder in folders for path in (folder / group).glob("*.yaml")}
    return sorted(mine | set(own_names(group)))
