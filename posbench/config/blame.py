"""Find the line of user code that caused an error, or else the classes of the user in the run."""

from __future__ import annotations

import importlib.resources
import inspect
import re
import sysconfig
import traceback
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

from posbench.base.wording import closest
from posbench.config.modules import SITES

PACKAGE = Path(__file__).resolve().parents[1]
TASKS = Path(str(importlib.resources.files("posbench.tasks"))).resolve()  # elsewhere, in a checkout
METHODS = (TASKS, *(PACKAGE / part for part in ("encodings", "extensions")))
"""Packages of posbench that are as much the subject of a check as somebody's own files."""

FULL_ERROR = "HYDRA_FULL_ERROR"
"""The variable that asks Hydra, and posbench, for the frames of an error: 1 shows them."""
HOW = f"{FULL_ERROR}=1 shows how it came there"
LONGEST = 300
"""Characters of what an error says: a sentence, and no page of numbers."""
NOT_BEGUN = ("_parameters", "_buffers", "_modules")
"""What a module of torch lacks until its own `__init__` has been called."""

_taking_part: dict[type, None] = {}


def take_part(cls: type) -> None:
    """A class has been built, and is the user's: it may return what posbench can do nothing with,
    or lack an argument that it is called with, and no line of it is then among the frames.
    """
    try:
        own = _is_own(Path(inspect.getfile(cls)))
    except TypeError:  # of no file
        return
    if own:
        _taking_part[cls] = None


def forget() -> None:
    """Nothing of the user has been built yet, as before each run of a sweep."""
    _taking_part.clear()


def place(error: BaseException, classes: Sequence[type]) -> str:
    """The line that raised the error, or else where the class begins: "mine/decay.py, line 12"."""
    found = _last_line(error.__cause__ or error, _is_subject)
    return found or next(filter(None, map(_beginning, classes)), "")


def line(error: BaseException) -> str:
    """The last line of the user's code that led to an error; "" if none did."""
    return _last_line(error, _is_own)


def of_own_code(error: BaseException) -> str | None:
    """What somebody's own class has raised, or made posbench raise, with its line; None if no such
    class takes part, and the mistake is posbench's.
    """
    if where := line(error):
        return told(error, f" in {where}")
    if not isinstance(error, Exception):  # sys.exit, of whoever calls it
        return None
    known = [f"{cls.__name__} ({_beginning(cls)})" for cls in _taking_part]
    return told(error, f" in what calls {' or '.join(known)}") if known else None


def told(error: BaseException, where: str = "") -> str:
    """An error in one sentence: its kind, where it was raised, and what it says."""
    try:
        text = " ".join(str(error).split())
    except Exception:  # of a class of somebody's own as well
        text = ""
    said = text if len(text) <= LONGEST else f"{text[:LONGEST]}…"
    return f"{type(error).__name__}{where}{': ' * bool(said)}{said}{_hint(error, said)}"


def _hint(error: BaseException, said: str) -> str:
    """What to do about two usual mistakes, of which Python and torch say only what they are."""
    name, of = (getattr(error, each, None) for each in ("name", "obj"))
    if "before Module.__init__() call" in said or name in NOT_BEGUN:
        return ": call super().__init__() first"
    if isinstance(error, AttributeError) and name and of is not None:
        with suppress(Exception):  # a class of somebody's own may list its names in any way
            meant = closest(name, (each for each in dir(of) if each[0] != "_"))
            return f": did you mean {meant}?" if meant else ""
    return ""


def _last_line(error: BaseException, wanted: Callable[[Path], bool]) -> str:
    for frame in reversed(traceback.extract_tb(error.__traceback__)):
        if wanted(path := Path(frame.filename)):
            return f"{shown(path)}, line {frame.lineno}"
    return ""


def last_line_in(text: str) -> str:
    """The last line of the user's code among the frames that a text shows; "" if there is none."""
    frames = re.findall(r'File "(.+?)", line (\d+)', text)
    own = [f"{shown(Path(path))}, line {number}" for path, number in frames if _is_own(Path(path))]
    return own[-1] if own else ""


def _beginning(cls: type) -> str:
    try:
        return f"{shown(Path(inspect.getfile(cls)))}, line {inspect.getsourcelines(cls)[1]}"
    except (OSError, TypeError):
        return ""


def _is_subject(path: Path) -> bool:
    return _is_own(path) or any(path.resolve().is_relative_to(part) for part in METHODS)


def _is_own(path: Path) -> bool:
    path = path.resolve()
    places = {sysconfig.get_path(name) for name in ("stdlib", "purelib", "platlib", "scripts")}
    machinery = (PACKAGE, TASKS, *map(Path, places))
    # An environment may also see packages that are installed elsewhere, as those of the system.
    return (
        path.exists()
        and not SITES.intersection(path.parts)
        and not any(path.is_relative_to(part) for part in machinery)
    )


def shown(path: Path) -> str:
    """A path as one would type it in the current folder."""
    path = path.resolve()
    return str(path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path)
