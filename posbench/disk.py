"""Files that are complete or not there, and one sentence for a disk that takes none."""

from __future__ import annotations

import errno
import json
import os
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from posbench.errors import Unwritable

REFUSED = (
    errno.ENOSPC,
    errno.EDQUOT,
    errno.EROFS,
    errno.EACCES,
    errno.EPERM,
    errno.EIO,
    errno.ENOTDIR,
    errno.EEXIST,
)
"""What a disk says that is full, worn or not ours, or has a file where a folder is to be."""


@contextmanager
def atomically(path: Path) -> Iterator[Path]:
    """A file beside `path` to write to; it takes the place of `path` when all is on the disk.

    Its name is of this call alone: processes on two machines may have the same number.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = path.with_suffix(f".{uuid.uuid4().hex}.tmp")
    try:
        yield beside
        with open(beside, "rb") as file:
            os.fsync(file.fileno())
        os.replace(beside, path)
    finally:
        beside.unlink(missing_ok=True)


@contextmanager
def writing_to(folder: str | Path) -> Iterator[None]:
    """Meanwhile what a disk refuses is one sentence: Unwritable."""
    try:
        yield
    except OSError as error:
        if error.errno not in REFUSED:
            raise
        raise _unwritable(folder, str(error.strerror)) from None
    except RuntimeError as error:  # torch writes by itself, and says no more than that it failed
        if not any(name in str(error) for name in ("PytorchStreamWriter", "inline_container")):
            raise
        raise _unwritable(folder, "a checkpoint could not be written whole") from None


def make_writable(folder: str | Path) -> None:
    """Make the folder, if it is not there; Unwritable if that cannot be."""
    try:
        Path(folder).mkdir(parents=True, exist_ok=True)
    except OSError as error:  # whatever stands in the way
        raise _unwritable(folder, str(error.strerror)) from None


def _unwritable(folder: str | Path, reason: str) -> Unwritable:
    for place in (folder, *Path(folder).parents):
        if os.path.isfile(place):  # noqa: PTH113 (Path.is_file may raise)
            return Unwritable(f"{place} is a file, and a folder is needed: name another")
    return Unwritable(
        f"{folder} cannot be written to ({reason}): make room there, or name another folder; the "
        "same command goes on from here"
    )


def write_json(content: Any, path: Path) -> None:
    """Write atomically: the file is either complete or not there."""
    with atomically(path) as beside:
        text = json.dumps(content, indent=1, allow_nan=False)
        beside.write_text(text + "\n", encoding="utf-8")
