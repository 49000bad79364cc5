"""Build an object from a node of the configuration, or say what is wrong. Imports no torch."""

from __future__ import annotations

import ast
import inspect
import logging
import types
import typing
from typing import Any

import hydra
from hydra.errors import InstantiationException

from posbench.composing import blame, constructors
from posbench.errors import ConfigError, PosbenchError
from posbench.provenance import targets
from posbench.source import module_file
from posbench.wording import closest, shown

logging.getLogger("hydra.utils").addFilter(lambda _: False)  # it says what our sentences say

KINDS = {
    int: "an integer",
    float: "a number",
    str: "a text",
    bool: "true or false",
    type(None): "null",
}
"""Simple types, as a sentence about a wrong value names them."""


def build(node: dict[str, Any], group: str) -> Any:
    """Instantiate `node`; ConfigError, naming `group`, if that fails."""
    if group in node and "_target_" not in node:
        raise ConfigError(
            f"the {group} is one level too deep: '# @package _global_' has to be the first line of "
            f"a YAML with a section {group!r}"
        )
    if "_target_" not in node:
        near = closest("_target_", node)
        meant = f"; did you mean that by {near}?" if near else ""
        raise ConfigError(
            f"{group} has no _target_: name the class, as the YAML files in conf/{group} do{meant}"
        )
    if "." not in str(node["_target_"]):
        raise ConfigError(
            f"{group}: _target_ {node['_target_']} names no class: write MODULE.CLASS, as "
            "decay.SquareRootDecay for the class of that name in decay.py"
        )
    try:
        _check_targets(node, group)
        _check_types(node, group)
        made = hydra.utils.instantiate(node)
    except InstantiationException as error:
        cause = error.__cause__
        if isinstance(cause, PosbenchError):
            raise cause from None
        raise ConfigError(f"{group}: {_reason(node, cause or error)}") from None
    for target in targets(node):
        if not target.startswith("posbench."):
            blame.take_part(hydra.utils.get_object(target))
    return made


def check_source(*nodes: dict[str, Any]) -> None:
    """ConfigError names the line where a module of one's own is no Python."""
    for target in sorted(set().union(*map(targets, nodes))):
        path = None if target.startswith("posbench.") else module_file(target.rpartition(".")[0])
        if path is None:
            continue
        try:
            ast.parse(path.read_text(encoding="utf-8"), str(path))
        except SyntaxError as error:
            raise ConfigError(f"{path} is not Python: {error.msg} in line {error.lineno}") from None


BASES = {
    "encoding": "posbench.encoding.PositionEncoding",
    "extension": "posbench.extension.Extension",
    "task": "posbench.task.Task",
}
"""What the class of a group is derived from, by its name: importing it here would import torch."""


def _check_targets(node: dict[str, Any], group: str) -> None:
    """ConfigError unless all that would be called is a class of posbench or derived from one.

    Asked before anything is called: the node may be from the records or files of somebody else.
    """
    if group not in BASES:
        return
    for target in sorted(targets(node)):
        try:
            found: Any = hydra.utils.get_object(target)
        except Exception:
            continue  # instantiation will say what is wrong
        chosen = target == node["_target_"]
        wanted = {BASES[group]} if chosen else set(BASES.values())
        bases = found.__mro__ if isinstance(found, type) else ()
        known = {f"{cls.__module__}.{cls.__qualname__}" for cls in bases}
        inside = not chosen and any(name.startswith("posbench.") for name in known)
        if not inside and not wanted & known:
            module, _, name = BASES[group].rpartition(".")
            raise ConfigError(
                f"{group}: {target} is no {name}: derive it from that class of {module}"
            )


def _check_types(node: dict[str, Any], group: str) -> None:
    """Check the values against the constructor's annotations, if those are types or classes."""
    try:
        cls: Any = hydra.utils.get_class(node["_target_"])
        hints = typing.get_type_hints(cls.__init__)
    except Exception:
        return  # instantiation will say what is wrong
    for key, value in node.items():
        if isinstance(value, dict) and "_target_" in value:
            _check_types(value, f"{group}.{key}")
            continue
        expected: Any = hints.get(key)
        either = typing.get_origin(expected) in (typing.Union, types.UnionType)
        kinds = set(typing.get_args(expected)) if either else {expected}
        if kinds <= KINDS.keys():
            if type(value) not in kinds | ({int} if float in kinds else set()):
                words = " or ".join(text for kind, text in KINDS.items() if kind in kinds)
                raise ConfigError(f"{group}.{key} must be {words}, got {shown(value)}")
        elif isinstance(value, str) and getattr(expected, "__module__", "").startswith("posbench."):
            choice = f"{group.partition('.')[0]}@{group}.{key}={value}"
            raise ConfigError(
                f"{group}.{key} must be a whole {expected.__name__}, not its name {value!r}: "
                f"choose it with {choice}"
            )


def _reason(node: dict[str, Any], cause: BaseException) -> str:
    target = node["_target_"]
    name = target.rpartition(".")[2]
    if isinstance(cause, TypeError) and "unexpected keyword argument" in str(cause):
        wrong = str(cause).rsplit("'", 2)[-2]
        return f"{name} has no setting {wrong!r}; it takes {', '.join(_settings(target)) or 'none'}"
    if isinstance(cause, TypeError) and (said := constructors.lacking(cause)):
        return said
    if isinstance(cause, ImportError) and (reason := cause.__cause__):
        module = target.rpartition(".")[0]
        if isinstance(reason, SyntaxError):
            return f"{reason.filename} is not Python: {reason.msg} in line {reason.lineno}"
        if where := blame.line(reason):
            return f"{target} cannot be imported: {blame.told(reason, f' in {where}')}"
        absent = isinstance(reason, ModuleNotFoundError) and reason.name == target
        said = constructors.absent(module, name) if absent else str(reason)
        return (
            f"{target} cannot be imported, {said}: "
            f"correct _target_, or the file of {module}, which may stand in the folder given with "
            "--config-dir"
        )
    where = blame.line(cause)
    return f"{target} could not be built: {blame.told(cause, f' in {where}' if where else '')}"


def _settings(target: str) -> list[str]:
    taken = inspect.signature(hydra.utils.get_class(target)).parameters.values()
    various = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    return [each.name for each in taken if each.kind not in various]
