"""An error is blamed on the last line of somebody's own code that led to it."""

from __future__ import annotations

import inspect
import sysconfig
import traceback
from collections.abc import Sequence
from pathlib import Path

import posbench

CORE = Path(posbench.__file__).resolve().parent
METHODS = tuple(CORE / part for part in ("encodings", "extensions", "layers"))
"""Packages of posbench that are as much the subject of a check as somebody's own files."""


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


def _is_subject(path: Path) -> bool:
    path = path.resolve()
    if any(path.is_relative_to(part) for part in METHODS):
        return True
    places = {sysconfig.get_path(name) for name in ("stdlib", "purelib", "platlib")}
    machinery = (CORE, *map(Path, places))
    return path.exists() and not any(path.is_relative_to(part) for part in machinery)


def _shown(path: Path) -> str:
    path = path.resolve()
    return str(path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path)
