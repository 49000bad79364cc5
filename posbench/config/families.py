"""The families and kinds under which conf/ lists encodings, extensions and tasks."""

from __future__ import annotations

import functools
from importlib.resources import files
from typing import Any

import yaml  # type: ignore[import-untyped]

from posbench.config.folders import own_names
from posbench.config.methods import cells, methods
from posbench.config.provenance import targets

ELSEWHERE = "of other encodings than RoPE, by the handle they need"


def order(group: str, headings: set[str]) -> list[str]:
    """Headings as the files of conf/ have them, others after them by the alphabet."""
    known = list(dict.fromkeys(listed(group).values()))
    return [each for each in known if each in headings] + sorted(headings - set(known))


def heading(group: str, name: str) -> str:
    """The heading under which a name is listed; "" in groups without families."""
    if group == "task":
        return _kinds_of_tasks().get(name, "others")
    if group == "method":
        return _rows()[methods()[name].encoding]
    if group == "encoding":  # one without a row goes beside the one whose class it has
        return _rows().get(name) or _rows().get(whose(group, name), "others")
    return _of_rope().get(name, ELSEWHERE) if group == "extension" else ""


def listed(group: str) -> dict[str, str]:
    """The heading of each name in the files of conf/: a family of an encoding, a kind of others."""
    if group in ("encoding", "method"):
        return _rows()
    if group == "task":
        return _kinds_of_tasks()
    return _of_rope() if group == "extension" else {}


@functools.cache
def family(encoding: str) -> str:
    """The family of an encoding, by conf/methods.yaml."""
    return heading("encoding", encoding) if encoding in own_names("encoding") else "others"


@functools.cache
def _rows() -> dict[str, str]:
    """The encodings of conf/methods.yaml, each with its family."""
    return {cell.encoding: cell.family for cell in cells()}


@functools.cache
def _of_rope() -> dict[str, str]:
    """The extensions of RoPE there, each with its kind.

    A row that turns on settings of the model is left out: its extension has a place of its own.
    """
    of_rope = (cell for cell in cells() if cell.kind and "model" not in cell.chosen)
    return {cell.extension: cell.kind for cell in of_rope}


@functools.cache
def _kinds_of_tasks() -> dict[str, str]:
    """The tasks of conf/tasks.yaml, each with its kind."""
    kinds: dict[str, list[str]] = yaml.safe_load(text("tasks.yaml"))
    return {name: kind for kind, names in kinds.items() for name in names}


# -- files ---------------------------------------------------------------------------------------


@functools.cache
def text(path: str) -> str:
    """A file of conf/."""
    return files("posbench.conf").joinpath(path).read_text(encoding="utf-8")


@functools.cache
def content(group: str, name: str) -> dict[str, Any]:
    """A YAML as it is written, which nobody changes; of a task, what it says of the task itself."""
    content = yaml.safe_load(text(f"{group}/{name}.yaml"))
    return content["task"] if group == "task" else content


def head(group: str, name: str) -> list[str]:
    """The lines of comment that a YAML begins with, without what Hydra reads in them."""
    found = []
    for line in text(f"{group}/{name}.yaml").splitlines():
        if not line.startswith("#"):
            break
        found.append(line.lstrip("#").strip())
    return [line for line in found if not line.startswith("@")]


def whose(group: str, name: str) -> str:
    """The option, or else the module, whose classes a YAML only gives other settings, "" if none.

    A class belongs to the YAML of its own name, or to the only one that it has.
    """
    written = content(group, name)
    target = written.get("_target_") or next(iter(sorted(targets(written))), "")
    stem = target.rpartition(".")[0].rpartition(".")[2]
    if stem == name or not target:
        return ""
    shared = [each for each in own_names(group) if content(group, each).get("_target_") == target]
    return stem if shared != [name] else ""
