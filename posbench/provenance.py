"""Where a number comes from: hashes of content and of source, the commit, the versions."""

from __future__ import annotations

import ast
import functools
import hashlib
import importlib.metadata
import importlib.util
import io
import json
import platform
import subprocess
import tokenize
from pathlib import Path
from typing import Any

NOT_COMPUTING = ("posbench.config", "posbench.errors")
"""Left out of the hash of source: settings are hashed by their values, and sentences change no
weight.
"""

PACKAGES = ("posbench", "torch", "lightning", "hydra-core", "numpy", "pandas")


def content_hash(content: Any) -> str:
    """16 hexadecimal digits that change when the content does; the order of keys does not
    matter.
    """
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:16]


def source_hash(*modules: str) -> str:
    """Hash of the source of these modules and of all of posbench that they import, comments and
    docstrings left out: what may change the weights that a training ends with.
    """
    found: dict[str, str] = {}
    waiting = list(modules)
    while waiting:
        name = waiting.pop()
        path = None if name in found or name in NOT_COMPUTING else module_file(name)
        if path is None:
            continue
        source = path.read_text(encoding="utf-8")
        found[name] = normalised(source)
        waiting += _imports(source)
    return content_hash(found)


def target_modules(node: Any) -> set[str]:
    """The modules of every class that a node of the configuration names, hosts inside wrappers
    included.
    """
    if isinstance(node, list):
        return set().union(*map(target_modules, node))
    if not isinstance(node, dict):
        return set()
    own = {node["_target_"].rpartition(".")[0]} if "_target_" in node else set()
    return own.union(*map(target_modules, node.values()))


def training_hash(task: dict[str, Any], encoding: dict[str, Any]) -> str:
    """Of the source that trained weights depend on."""
    return source_hash("posbench.training", *target_modules(task), *target_modules(encoding))


def evaluation_hash(extension: dict[str, Any]) -> str:
    """Of the source that turns trained weights into accuracies."""
    return source_hash("posbench.evaluation", *target_modules(extension))


@functools.cache  # of the text, not of the file: a sweep asks for the same modules with every run
def normalised(source: str) -> str:
    """Source without comments, docstrings and blank lines. Works on the text, because the output of
    `ast` differs between versions of Python.
    """
    lines = source.splitlines()
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            row, column = token.start
            lines[row - 1] = lines[row - 1][:column]
    for node in ast.walk(ast.parse(source)):
        for child in (
            getattr(node, "body", None) or []
            if not isinstance(node, ast.Lambda | ast.IfExp)
            else []
        ):
            if (
                isinstance(child, ast.Expr)
                and isinstance(child.value, ast.Constant)
                and isinstance(child.value.value, str)
            ):
                for row in range(child.lineno, (child.end_lineno or child.lineno) + 1):
                    lines[row - 1] = ""
    return "\n".join(line.rstrip() for line in lines if line.strip())


@functools.cache
def _imports(source: str) -> list[str]:
    names: list[str] = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            names += [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
    return [name for name in names if name.split(".")[0] == "posbench"]


def module_file(module: str) -> Path | None:
    package = module.rpartition(".")[0]
    if package and not _is_package(package):
        return None  # a name in a module; to ask for it would import the module, and torch with it
    try:
        spec = importlib.util.find_spec(module)
    except (
        ImportError,
        ValueError,
    ):  # a name that was imported from a module is not itself a module
        return None
    return Path(spec.origin) if spec and spec.origin and spec.origin.endswith(".py") else None


def _is_package(module: str) -> bool:
    try:
        spec = importlib.util.find_spec(module)
    except (ImportError, ValueError):
        return False
    return spec is not None and spec.submodule_search_locations is not None


def commit() -> str | None:
    """The commit of the source tree, with `+` where files differ from it; None outside a git
    checkout.
    """
    root = Path(__file__).parent.parent
    if not (root / ".git").exists():
        return None
    try:
        head = _git(root, "rev-parse", "HEAD")
        changed = _git(
            root, "status", "--porcelain", "--untracked-files=no", "--", "posbench", "conf", "tasks"
        )
    except (OSError, subprocess.CalledProcessError):
        return None
    return head + ("+" if changed else "")


def _git(root: Path, *arguments: str) -> str:
    return subprocess.run(
        ("git", *arguments), cwd=root, capture_output=True, text=True, check=True
    ).stdout.strip()


def versions() -> dict[str, str]:
    found = {"python": platform.python_version()}
    for package in PACKAGES:
        try:
            found[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            found[package] = "not installed"
    return found
