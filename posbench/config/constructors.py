"""What the constructor of a class asks for, beside what its YAML names. Imports no torch."""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from posbench.base.wording import closest, listed, shown
from posbench.config import blame
from posbench.config.modules import module_file, source_of

SIZES = {
    "model.num_heads": ("num_heads", "heads", "n_heads", "nhead", "num_attention_heads"),
    "model.head_width": ("head_width", "head_dim", "d_head", "dim_head"),
    "model.width": ("model_width", "width", "dim", "d_model", "embed_dim", "hidden_size"),
}
"""Settings of the model, by the names that constructors have for them."""


def source_of_size(key: str) -> str | None:
    """The setting of the model that a name means, "model.num_heads" for "heads"."""
    return next((size for size, names in SIZES.items() if key in names), None)


def needs(cls: str, names: Sequence[str]) -> str:
    """The sentence about settings that a class needs and its YAML does not name."""
    lines = [f"`{name}: {_written(name)}`" for name in names]
    return (
        f"{cls} needs {listed(list(names))}, which its YAML does not name: settings of the "
        f"class come from there, so write {listed(lines)} beside its _target_"
    )


def _written(name: str) -> str:
    size = source_of_size(name)
    return f"${{{size}}}" if size else "VALUE"


def absent(module: str, name: str) -> str:
    """That a module has no such class, and which it has."""
    path, source = module_file(module), source_of(module)
    if path is None or source is None:
        return f"{module} has no {name}"
    held = [
        name for name, parts in source.definitions.items() if isinstance(parts[0], ast.ClassDef)
    ]
    classes = ", ".join(held) or "no class"
    if not path.read_text(encoding="utf-8").strip():
        classes = "nothing, it is empty"
    near = closest(name, held)
    meant = f"; did you mean {near}?" if near else ""
    return f"{module} has no {name} ({blame.shown(path)} has {classes}{meant})"


def _own_nodes(node: Any, prefix: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    """The parts of a configuration that name a class which is not posbench's, with their place."""
    if isinstance(node, list):
        for index, value in enumerate(node):
            yield from _own_nodes(value, f"{prefix}{index}.")
    if not isinstance(node, dict):
        return
    if "_target_" in node and not str(node["_target_"]).startswith("posbench."):
        yield prefix, node
    for key, value in node.items():
        yield from _own_nodes(value, f"{prefix}{key}.")


@dataclass(frozen=True)
class UnnamedSetting:
    """A setting with a default that a constructor takes and its YAML does not name."""

    cls: str
    place: str  # "host.spread" of a class inside another
    value: Any

    @property
    def name(self) -> str:
        return self.place.rpartition(".")[2]


def unnamed(node: Any, class_of: Callable[[str], type]) -> list[UnnamedSetting]:
    """The settings of classes that are not posbench's which the configuration leaves out.

    Args:
        node: of the configuration
        class_of: the class that a `_target_` names
    """
    found = []
    for prefix, part in _own_nodes(node):
        cls = class_of(part["_target_"])
        found += [
            UnnamedSetting(cls.__name__, f"{prefix}{name}", parameter.default)
            for name, parameter in inspect.signature(cls).parameters.items()
            if name not in part and parameter.default is not parameter.empty
        ]
    return found


def constants(node: Any, model: dict[str, Any], file: Path | None) -> list[str]:
    """A sentence about each size that a YAML fixes although the model has another.

    Args:
        node: of the configuration, interpolations unresolved
        model: the sizes that a check has
        file: the YAML, if there is one
    """
    found = []
    for _, part in _own_nodes(node):
        for key, value in part.items():
            size = source_of_size(key)
            if size is None or isinstance(value, bool) or not isinstance(value, int):
                continue
            there = model[size.partition(".")[2]]
            if value != there:
                found.append(
                    f"{_place(file, key)}{key}: {shown(value)} is a constant, and the check uses a "
                    f"model whose {size} is {there}: write {key}: ${{{size}}}"
                )
    return found


def _place(file: Path | None, key: str) -> str:
    """Where a YAML names a setting, "mine/encoding/decay.yaml, line 3: "."""
    if file is None or not file.is_file():
        return ""
    for number, line in enumerate(file.read_text("utf-8", "replace").splitlines(), 1):
        if re.match(rf"\s*{re.escape(key)}\s*:", line):
            return f"{blame.shown(file)}, line {number}: "
    return f"{blame.shown(file)}: "
