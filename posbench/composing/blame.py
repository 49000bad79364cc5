"""An error is blamed on the last line of somebody's own code that led to it."""

from __future__ import annotations

import importlib.resources
import inspect
import sysconfig
import traceback
from collections.abc import Sequence
from pathlib import Path

import posbench

CORE = Path(posbench.__file__).resolve().parent
TASKS = Path(str(importlib.resources.files("posbench.tasks"))).resolve()  # elsewhere, in a checkout
METHODS = (TASKS, *(CORE / part for part in ("encodings", "extensions", "layers")))
"""Packages of posbench that are as much the subject of a check as somebody's own files."""

FULL_ERROR = "HYDRA_FULL_ERROR"
"""The variable that asks Hydra, and posbench, for the frames of an error: 1 shows them."""
HOW = f"{FULL_ERROR}=1 shows how it came there"


def place(error: BaseException, classes: Sequence[type]) -> str:
    """The line that raised the error, or else where the class begins: "mine/decay.py, line 12"."""
    raised = error.__cause__ or error
    for frame in reversed(traceback.extract_tb(raised.__traceback__)):
        path = Path(frame.filename)
        if _is_subject(path):
            return f"{_shown(path)}, line {frame.lineno}"
    for cls in classes:
        try:
            return f"{_shown(Path(inspect.getfile(cls)))}, line {inspect.getsourcelines(cls)[1]}"
        except (OSError, TypeError):
            continue
    return ""


def of_own_code(error: Exception) -> str | None:
    """What somebody's own class has raised, with its line; None if no line of such a class led to
    it, and the mistake is posbench's.
    """
    for frame in reversed(traceback.extract_tb(error.__traceback__)):
        if _is_own(path := Path(frame.filename)):
            text = " ".join(str(error).split())
            return f"{type(error).__name__} in {_shown(path)}, line {frame.lineno}: {text}"
    return None


def _is_subject(path: Path) -> bool:
    return _is_own(path) or any(path.resolve().is_relative_to(part) for part in METHODS)


def _is_own(path: Path) -> bool:
    path = path.resolve()
    places = {sysconfig.get_path(name) for name in ("stdlib", "purelib", "platlib", "scripts")}
    machinery = (CORE, TASKS, *map(Path, places))
    return path.exists() and not any(path.is_relative_to(part) for part in machinery)


def _shown(path: Path) -> str:
    path = path.resolve()
    return str(path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path)
