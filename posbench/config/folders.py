"""Folders of the user, given with `--config-dir`: what is wrong with them is reported before Hydra
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
from pathlib import Path
from typing import Any

from hydra.core.global_hydra import GlobalHydra

from posbench.base.errors import ConfigError
from posbench.config.methods import methods
from posbench.config.modules import SITES
from posbench.config.record_command import Command
from posbench.config.yaml_text import text_of

GROUPS = {
    "method": "an encoding, and what extends it: a row of the leaderboard",
    "encoding": "how position enters the transformer while it is trained",
    "extension": "what is done to the trained model",
    "task": "what the model must do, with a length",
    "protocol": "model size, training and test settings that all rows of a table share",
    "experiment": "a protocol, a task and its settings at once, as in a paper",
    "board": "tasks, rows and seeds that a sweep (-m) runs through",
    "logger": "where the curves of a training go",
}
OF_A_ROW = ("method", "encoding", "extension")
"""Groups whose choices, and the settings below them, make a row; all others make its test."""

PROVIDER = "command-line"
"""Hydra's name for the source of a folder that is given with `--config-dir`."""
SCHEME = "own"
"""What the address of such a source begins with: such files are read by `sources.OwnFiles`."""
WORDS_OF_YAML = ("null", "true", "false", "yes", "no", "on", "off", "nan", "inf")


def check(folder: Path) -> None:
    """Check that a --config-dir folder can be used; ConfigError if not."""
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
    """The folders of the user among the sources, or the search path, of Hydra."""
    own = (each.path for each in sources if each.provider == PROVIDER and each.path)
    return [Path(path.removeprefix(f"{SCHEME}://")) for path in own]


def searched() -> list[Path]:
    """The folders of the user in which Hydra, which must be initialised, finds choices."""
    return given(GlobalHydra.instance().config_loader().get_search_path().get_path())


_importable: list[Path] = []
"""The folders that the user named, in the order in which modules are looked for in them."""


def make_importable(own: Iterable[Path]) -> None:
    """Make classes in folders of the user importable, beside the YAML that names them.

    They come last: a file there with the name of an installed package takes the place of none.
    """
    own = list(own)
    sys.path += [str(folder) for folder in own if str(folder) not in sys.path]
    _importable[:0] = [folder for folder in own if folder not in _importable]


@contextmanager
def importable(own: Iterable[Path]) -> Iterator[None]:
    """Within the block, classes in folders of the user can be imported."""
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

    It is where its name says, so that a folder which holds an environment names no module of
    that.
    """
    inside = Path(*module.split("."))
    places = (inside / "__init__.py", inside.with_name(f"{inside.name}.py"))
    files = (folder / place for folder in _importable for place in places)
    return next((file for file in files if file.is_file()), None)


def _check_modules(path: Path, folder: Path) -> None:
    """Refuse a module of the user that would hide another, or be hidden by it."""
    for name in re.findall(r"_target_:\s*[\"']?(\w+)\.", text_of(path)):
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
    if (
        not re.fullmatch(r"[A-Za-z_][\w.-]*", path.stem, re.ASCII)
        or path.stem.lower() in WORDS_OF_YAML
    ):
        raise ConfigError(
            f"{path} cannot be chosen, because {group}={path.stem} is not read as a name: rename "
            f"it, e.g. my_{path.name}; letters, digits and _ will do"
        )


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
