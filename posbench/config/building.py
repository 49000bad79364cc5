"""Build an object from a node of the configuration, or say what is wrong. Imports no torch.

A node may be from the records or the files of somebody else. So all objects are made by this
module, and by nothing of Hydra: a class is imported only from posbench or from a folder that the
user named, its kind is known before it is called, and no text is resolved a second time.
"""

from __future__ import annotations

import ast
import functools
import importlib
import importlib.util
import inspect
import re
import types
import typing
from collections.abc import Mapping, Sequence
from typing import Any

from posbench.base.errors import ConfigError, PosbenchError
from posbench.base.wording import closest, shown
from posbench.config import blame, constructors, folders
from posbench.config.modules import module_file, python_of
from posbench.config.provenance import targets

KINDS = {
    int: "an integer",
    float: "a number",
    str: "a text",
    bool: "true or false",
    type(None): "null",
}
"""Simple types, as a sentence about a wrong value names them."""

BASES = {
    "encoding": "posbench.core.encoding.PositionEncoding",
    "extension": "posbench.core.extension.Extension",
    "task": "posbench.core.task.Task",
    "logger": "lightning.pytorch.loggers.logger.Logger",
}
"""What the class of a group is derived from, by its name: importing it here would import torch."""
OF_A_RUN = ("encoding", "extension", "task")
"""Groups whose files each name a class. Its objects may have others of these inside them, as a
wrapper has its host."""
LOGGERS = "lightning.pytorch.loggers"
"""The one module of others that is imported without being asked for: its loggers are chosen too."""

TARGET, PARTIAL = "_target_", "_partial_"
DOTTED = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)+", re.ASCII)


def build(node: dict[str, Any], group: str) -> Any:
    """The object of a resolved node; ConfigError, naming `group`, if it cannot be built."""
    if group in node and TARGET not in node:
        raise ConfigError(
            f"the {group} YAML has a section {group!r}: add '# @package _global_' as its first line"
        )
    if TARGET not in node:
        near = closest(TARGET, node)
        meant = f"; did you mean that by {near}?" if near else ""
        raise ConfigError(
            f"{group} has no _target_: name the class, as the YAML files in conf/{group} do{meant}"
        )
    _refuse_unresolved(node, group)
    if node.get(PARTIAL):
        raise ConfigError(f"{group}: {PARTIAL} makes no {group}: leave it out")
    return _made(node, group, OF_A_RUN if group in OF_A_RUN else (group,))


def class_of(target: object, *groups: str) -> Any:
    """The class that a `_target_` names, of the kind of one of these groups; ConfigError if it is
    none.
    """
    return _class_of(target, groups[0], groups)


def class_of_run(target: str) -> Any:
    """The class of an encoding, an extension or a task."""
    return class_of(target, *OF_A_RUN)


def check_source(*nodes: dict[str, Any]) -> None:
    """ConfigError names the line where a module of the user is no Python."""
    for target in sorted(set().union(*map(targets, nodes))):
        path = None if target.startswith("posbench.") else module_file(target.rpartition(".")[0])
        if path is None:
            continue
        try:
            ast.parse(python_of(path.read_bytes(), path), str(path))
        except SyntaxError as error:
            raise ConfigError(f"{path} is not Python: {error.msg} in line {error.lineno}") from None


# -- objects ---------------------------------------------------------------------------------------


def _refuse_unresolved(value: Any, place: str) -> None:
    """ConfigError if a text would still be an interpolation: composing resolves each once."""
    if isinstance(value, Mapping):
        for key, each in value.items():
            _refuse_unresolved(key, place)
            _refuse_unresolved(each, f"{place}.{key}")
    elif isinstance(value, list | tuple):
        for index, each in enumerate(value):
            _refuse_unresolved(each, f"{place}.{index}")
    elif isinstance(value, str) and "${" in value:
        raise ConfigError(
            f"{place} holds {shown(value)}, and what is left of an interpolation is not resolved "
            "again: write the value itself"
        )


def _made(node: Mapping[str, Any], place: str, inside: Sequence[str]) -> Any:
    """The object of a node; those that its settings name are made by this function as well.

    Args:
        node: with a `_target_`
        place: of the node, "encoding.host"
        inside: groups of which objects inside it may be
    """
    target = node[TARGET]
    cls = _class_of(target, place, inside if "." in place else (place,))
    given = {key: value for key, value in node.items() if key not in (TARGET, PARTIAL)}
    partial = node.get(PARTIAL, False)
    if not isinstance(partial, bool):
        raise ConfigError(f"{place}.{PARTIAL} must be true or false, got {shown(partial)}")
    _check_names(cls, given, place, partial)
    _check_types(cls, given, place)
    settings = {key: _with_objects(given[key], f"{place}.{key}", inside) for key in given}
    try:
        made = functools.partial(cls, **settings) if partial else cls(**settings)
    except PosbenchError:
        raise
    except Exception as error:
        if wrong := [
            key for key in settings if f"unexpected keyword argument {key!r}" in f"{error}"
        ]:
            raise _no_setting(cls, wrong[0], place) from None
        where = blame.line(error)
        said = blame.told(error, f" in {where}" if where else "")
        raise ConfigError(f"{place}: {target} could not be built: {said}") from None
    if not target.startswith("posbench."):
        blame.take_part(cls)
    return made


def _with_objects(value: Any, place: str, inside: Sequence[str]) -> Any:
    """A setting with each node in it made an object."""
    if isinstance(value, list):
        return [_with_objects(each, f"{place}.{i}", inside) for i, each in enumerate(value)]
    if not isinstance(value, dict):
        return value
    if TARGET in value:
        return _made(value, place, inside)
    return {key: _with_objects(each, f"{place}.{key}", inside) for key, each in value.items()}


# -- settings --------------------------------------------------------------------------------------

VARIOUS = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)


@functools.cache  # of a class: a sweep builds the same ones thousands of times
def _parameters(cls: type) -> Mapping[str, inspect.Parameter] | None:
    """What a class takes; None where it does not say so, or takes whatever it is given."""
    try:
        found = inspect.signature(cls).parameters
    except (TypeError, ValueError):
        return None
    if any(each.kind is inspect.Parameter.VAR_KEYWORD for each in found.values()):
        return None
    return {name: each for name, each in found.items() if each.kind not in VARIOUS}


def _check_names(cls: type, given: Mapping[Any, Any], place: str, partial: bool) -> None:
    """ConfigError names a setting that the class does not take, or one that it lacks."""
    for key in given:
        if not isinstance(key, str) or (key.startswith("_") and key.endswith("_")):
            raise ConfigError(
                f"{place}: {shown(key)} is no setting: keys of a class are names, and of those "
                f"with _ around them only {TARGET} and {PARTIAL} mean something"
            )
    taken = _parameters(cls)
    if taken is None:
        return
    for key in given:
        if key not in taken:
            raise _no_setting(cls, key, place)
    needed = [name for name, each in taken.items() if each.default is inspect.Parameter.empty]
    if not partial and (missing := [name for name in needed if name not in given]):
        raise ConfigError(f"{place}: {constructors.needs(cls.__name__, missing)}")


def _no_setting(cls: type, key: str, place: str) -> ConfigError:
    taken = _parameters(cls)
    said = ", ".join(taken) if taken else "none"
    return ConfigError(f"{place}: {cls.__name__} has no setting {key!r}; it takes {said}")


@functools.cache
def _hints(cls: type) -> Mapping[str, Any]:
    try:
        return typing.get_type_hints(cls.__init__)  # type: ignore[misc]
    except Exception:  # names that are imported for types alone
        return {}


def _check_types(cls: type, given: Mapping[str, Any], place: str) -> None:
    """Check the values against the constructor's annotations, if those are types or classes."""
    hints = _hints(cls)
    for key, value in given.items():
        if isinstance(value, dict) and TARGET in value:
            continue
        expected: Any = hints.get(key)
        either = typing.get_origin(expected) in (typing.Union, types.UnionType)
        kinds = set(typing.get_args(expected)) if either else {expected}
        if kinds <= KINDS.keys():
            if type(value) not in kinds | ({int} if float in kinds else set()):
                words = " or ".join(text for kind, text in KINDS.items() if kind in kinds)
                raise ConfigError(f"{place}.{key} must be {words}, got {shown(value)}")
        elif getattr(expected, "__module__", "").startswith("posbench."):
            choice = f"{place.partition('.')[0]}@{place}.{key}="
            if isinstance(value, str):
                raise ConfigError(
                    f"{place}.{key} must be a whole {expected.__name__}, not its name {value!r}: "
                    f"choose it with {choice}{value}"
                )
            if isinstance(value, dict):
                has = ", ".join(value) or "no setting"
                raise ConfigError(
                    f"{place}.{key} must be one {expected.__name__}, with a {TARGET}, and has "
                    f"{has}: choose another with {choice}NAME"
                )


# -- classes ---------------------------------------------------------------------------------------


def _class_of(target: object, place: str, groups: Sequence[str]) -> Any:
    """The class of a target, which is of one of the groups; nothing of it is called."""
    if not isinstance(target, str) or "." not in target:
        raise ConfigError(
            f"{place}: _target_ {target} names no class: write MODULE.CLASS, as "
            "decay.SquareRootDecay for the class of that name in decay.py"
        )
    if not DOTTED.fullmatch(target) or ".__" in f".{target}":
        raise ConfigError(
            f"{place}: _target_ {shown(target)} names no class: write MODULE.CLASS in letters, "
            "digits and _"
        )
    if target.startswith("posbench."):
        found = _of_posbench(target, place)
    elif groups == ("logger",) and target.rpartition(".")[0] == LOGGERS:
        found = _imported(target, place)
    else:
        found = _of_own(target, place)
    known = {f"{cls.__module__}.{cls.__qualname__}" for cls in getattr(found, "__mro__", ())}
    if not isinstance(found, type) or not known.intersection(BASES[group] for group in groups):
        bases = [BASES[group].rpartition(".") for group in groups]
        # Code of others imports from posbench.encoding, and not from posbench.core.
        names = [f"{part[0].replace('posbench.core.', 'posbench.')}.{part[2]}" for part in bases]
        raise ConfigError(f"{place}: {target} must subclass {' or '.join(names)}")
    return found


@functools.cache
def _of_posbench(target: str, place: str) -> Any:
    """What posbench has of that name. Its modules do nothing but define when they are imported."""
    module = target.rpartition(".")[0]
    if module_file(module) is None:
        raise ConfigError(f"{place}: {target} cannot be imported, {_absent(module)}")
    return _imported(target, place)


def _of_own(target: str, place: str) -> Any:
    """What a module in a folder of the user has of that name."""
    module = target.rpartition(".")[0]
    file = folders.file_of(module)
    if file is None and _is_known(module.partition(".")[0]):
        raise ConfigError(
            f"{place}: {target} is not imported, because {module} is no module of posbench, nor of "
            "a folder given with --config-dir: put the class there, and correct _target_"
        )
    if file is None:
        raise ConfigError(f"{place}: {target} cannot be imported, {_absent(module)}")
    found = module_file(module)
    if found is None or not found.samefile(file):
        raise ConfigError(
            f"{place}: {target} is not imported, because Python takes another module than {file} "
            f"for {module}: rename the file, and correct _target_"
        )
    return _imported(target, place)


def _is_known(top: str) -> bool:
    """Whether Python finds a module; it is not imported."""
    try:
        return importlib.util.find_spec(top) is not None
    except (ImportError, ValueError):
        return True


def _absent(module: str) -> str:
    return (
        f"No module named {module!r}: correct _target_, or the file of {module}, which may be "
        "in the folder given with --config-dir"
    )


def _imported(target: str, place: str) -> Any:
    """What the module of a target has of its name, once it has been found to be ours to import."""
    module, _, name = target.rpartition(".")
    try:
        loaded = importlib.import_module(module)
    except SyntaxError as error:
        raise ConfigError(
            f"{place}: {error.filename} is not Python: {error.msg} in line {error.lineno}"
        ) from None
    except Exception as error:
        where = blame.line(error)
        said = blame.told(error, f" in {where}" if where else "")
        raise ConfigError(f"{place}: {target} cannot be imported: {said}") from None
    try:
        return getattr(loaded, name)
    except AttributeError:
        raise ConfigError(
            f"{place}: {target} cannot be imported, {constructors.absent(module, name)}: correct "
            "_target_, or the file"
        ) from None
