"""Files that are complete or not there, and one sentence for a disk that takes or gives none."""

from __future__ import annotations

import errno
import itertools
import json
import os
import stat
import uuid
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import filelock

from posbench.errors import Unreadable, Unwritable

ROOM = "make room there, or name another folder"
RIGHTS = "make it writable, or name another folder"
WORN = "the disk or its server has a fault, so name another folder"
REFUSED = {
    errno.ENOSPC: ROOM,
    errno.EDQUOT: ROOM,
    errno.EFBIG: "raise the limit on the size of files (ulimit -f)",
    errno.EROFS: RIGHTS,
    errno.EACCES: RIGHTS,
    errno.EPERM: RIGHTS,
    errno.EIO: WORN,
    errno.ESTALE: WORN,
    errno.ENOTDIR: ROOM,
    errno.EEXIST: ROOM,
}
"""What a disk says that is full, worn or not ours, or has a file where a folder is to be; and what
to do about each.
"""
TOO_MANY = (errno.EMFILE, errno.ENFILE)
"""No further file can be opened, wherever it lies."""
LOCKLESS = (
    errno.ENOLCK,
    errno.ENOTSUP,
    errno.EOPNOTSUPP,
    errno.ENOSYS,
    errno.EINVAL,
    errno.EIO,
    errno.ESTALE,
)
"""What a file system says that has no locks, or whose server for them does not answer."""


@contextmanager
def atomically(path: Path) -> Iterator[Path]:
    """A file beside `path` to write to; it takes the place of `path` when all is on the disk.

    Its name is of this call alone: processes on two machines may have the same number, and nobody
    can have laid a link there. A link in the place of `path` is replaced; what it leads to stays.
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
        if error.errno in TOO_MANY:
            raise Unwritable(
                f"no further file can be opened ({error.strerror}): raise the limit (ulimit -n); "
                "the same command goes on from here"
            ) from None
        if error.errno not in REFUSED:
            raise
        raise _unwritable(folder, error) from None
    except RuntimeError as error:  # torch writes by itself, and says no more than that it failed
        if not any(name in str(error) for name in ("PytorchStreamWriter", "inline_container")):
            raise
        whole = OSError(errno.ENOSPC, "a checkpoint could not be written whole")
        raise _unwritable(folder, whole) from None


def make_writable(folder: str | Path) -> None:
    """Make the folder, if it is not there; Unwritable if that cannot be."""
    try:
        Path(folder).mkdir(parents=True, exist_ok=True)
    except OSError as error:  # whatever stands in the way
        raise _unwritable(folder, error) from None


def _unwritable(folder: str | Path, error: OSError) -> Unwritable:
    for place in (folder, *Path(folder).parents):
        if os.path.isfile(place):  # noqa: PTH113 (Path.is_file may raise)
            return Unwritable(f"{place} is a file, and a folder is needed: name another")
    remedy = REFUSED.get(error.errno or 0, ROOM)
    return Unwritable(
        f"{folder} cannot be written to ({error.strerror}): {remedy}; the same command goes on "
        "from here"
    )


def write_json(content: Any, path: Path) -> None:
    """Write atomically: the file is either complete or not there."""
    with atomically(path) as beside:
        text = json.dumps(content, indent=1, allow_nan=False)
        beside.write_text(text + "\n", encoding="utf-8")


# -- reading ---------------------------------------------------------------------------------------


class Damaged(Exception):
    """A file does not hold what was written there; the text says how that is known."""


@contextmanager
def reading(path: Path) -> Iterator[None]:
    """Meanwhile what the machine refuses is one sentence: Unreadable. It says nothing of the file,
    which may be whole.
    """
    try:
        yield
    except OSError as error:
        reason = error.strerror or type(error).__name__
    except MemoryError:
        reason = "memory does not hold it"
    except RuntimeError as error:  # torch, which has no other words for it
        if "allocate memory" not in str(error):
            raise
        reason = "memory does not hold it"
    else:
        return
    raise Unreadable(
        f"{path} cannot be read now ({reason}) and is kept: once it can be, the same command goes "
        "on from here"
    )


def bytes_of(path: Path) -> bytes:
    """The bytes of a file. OSError where it cannot be read or is none, as a folder or a pipe is."""
    with open(path, "rb", opener=_without_waiting) as file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise OSError(errno.EINVAL, "it is no file", str(path))
        return file.read()


def _without_waiting(path: str, flags: int) -> int:
    """A pipe would be opened once somebody writes into it."""
    return os.open(path, flags | getattr(os, "O_NONBLOCK", 0))


def noted(path: Path) -> Any:
    """The JSON in a file; None where there is none, or what is there is damaged and put aside."""
    with reading(path):
        if not path.exists():
            return None
        found = bytes_of(path)
    try:
        return json.loads(found)
    except (ValueError, RecursionError):
        put_aside(path)
        return None


def put_aside(path: Path) -> Path:
    """Rename a damaged file, so that another can take its place: last.damaged-1.ckpt."""
    for number in itertools.count(1):
        kept = path.with_suffix(f".damaged-{number}{path.suffix}")
        if not os.path.lexists(kept):
            break
    os.replace(path, kept)
    return kept


# -- locks -----------------------------------------------------------------------------------------


class Lock(filelock.FileLock):
    """A lock that the system lets go when its process ends. Unwritable where the file system has
    none.
    """

    def acquire(self, *args: Any, **kwargs: Any) -> Any:
        path = Path(self.lock_file)
        try:
            with warnings.catch_warnings():
                # It would go on with a file whose presence is the lock, and a killed process leaves
                # that for ever.
                warnings.filterwarnings("ignore", message="flock not supported")
                held = super().acquire(*args, **kwargs)
        except filelock.Timeout:
            raise
        except NotImplementedError:
            raise no_locks(path, os.strerror(errno.ENOSYS)) from None
        except OSError as error:
            if error.errno not in LOCKLESS:
                raise
            raise no_locks(path, str(error.strerror)) from None
        lock: filelock.BaseFileLock = self
        if isinstance(lock, filelock.SoftFileLock):
            lock.release()
            raise no_locks(path, os.strerror(errno.ENOSYS))
        return held


def no_locks(path: Path, reason: str) -> Unwritable:
    """The sentence about a file system without locks."""
    return Unwritable(
        f"{path.parent} cannot be locked ({reason}), and processes would disturb each other there: "
        "name a folder on a local disk, for runs with results_dir=FOLDER"
    )
