"""Build an object from a node of the configuration, or say what is wrong. Imports no torch."""

from __future__ import annotations

import inspect
import typing
from typing import Any

import hydra
from hydra.errors import InstantiationException

from posbench.errors import ConfigError, PosbenchError


def build(node: dict[str, Any], group: str) -> Any:
    """Instantiate `node`; ConfigError, naming `group`, if that fails."""
    if "_target_" not in node:
        raise ConfigError(
            f"{group} has no _target_: name the class, as the YAML files in conf/{group} do"
        )
    try:
        _check_types(node, group)
        return hydra.utils.instantiate(node)
    except InstantiationException as error:
        cause = error.__cause__
        if isinstance(cause, PosbenchError):
            raise cause from None
        raise ConfigError(f"{group}: {_reason(node, cause or error)}") from None


KINDS = {
    int: "an integer",
    float: "a number",
    str: "a text",
    bool: "true or false",
    type(None): "null",
}


def _check_types(node: dict[str, Any], group: str) -> None:
    """Check the values against the constructor's annotations, if those are simple types."""
    try:
        cls = hydra.utils.get_class(node["_target_"])
        hints = typing.get_type_hints(vars(cls).get("__init__", object.__init__))
    except Exception:
        return  # instantiation will say what is wrong
    for key, value in node.items():
        kinds = set(typing.get_args(hints.get(key)) or {hints.get(key)})
        if not kinds <= KINDS.keys():
            continue
        if type(value) not in kinds | ({int} if float in kinds else set()):
            expected = " or ".join(text for kind, text in KINDS.items() if kind in kinds)
            raise ConfigError(f"{group}.{key} must be {expected}, got {value!r}")


def _reason(node: dict[str, Any], cause: BaseException) -> str:
    target = node["_target_"]
    name = target.rpartition(".")[2]
    text = str(cause).splitlines()[0] if str(cause) else type(cause).__name__
    if isinstance(cause, TypeError) and "unexpected keyword argument" in text:
        wrong = text.rsplit("'", 2)[-2]
        return f"{name} has no setting {wrong!r}; it takes {', '.join(_settings(target)) or 'none'}"
    return f"{target} could not be built: {text}"


def _settings(target: str) -> list[str]:
    return list(inspect.signature(hydra.utils.get_class(target)).parameters)
