"""Files that are complete or not there, and one sentence for a disk that takes or gives none.

Links are neither written through nor read through: a folder that somebody else made may have one
to any file of ours.
"""

from __future__ import annotations

import errno
import json
import os
import stat
import uuid
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import filelock

from posbench.base.errors import Unreadable, Unwritable

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
    errno.EISDIR: "move it away",
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


LONGEST_STEM = 200
"""Bytes, behind which a temporary file has 37 of its own; file systems allow 255."""


@contextmanager
def atomically(path: Path) -> Iterator[Path]:
    """A file beside `path` to write to; it takes the place of `path` when all is on the disk.

    Its name is of this call alone: processes on two machines may have the same number. If `path`
    is a link, the link is replaced, and what it leads to stays; but a device and a pipe, of which
    there is one for all, are left alone (Unwritable). An OSError names `path`.
    """
    if path.exists() and not (path.is_file() or path.is_dir()):
        raise Unwritable(f"{path} is a device or a pipe, and a file is written there: name a file")
    stem = path.stem.encode()[:LONGEST_STEM].decode(errors="ignore")
    beside = path.with_name(f"{stem}.{uuid.uuid4().hex}.tmp")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        yield beside
        with open(beside, "rb") as file:
            os.fsync(file.fileno())
        os.replace(beside, path)
    except OSError as error:
        if error.errno is None or error.filename not in (None, str(beside)):
            raise
        raise OSError(error.errno, error.strerror, str(path)) from None
    finally:
        with suppress(OSError):  # the sentence is about the first error
            beside.unlink(missing_ok=True)


def write_bytes(content: bytes, path: Path) -> None:
    """Write atomically, in the place of whatever is called so."""
    with atomically(path) as beside:
        beside.write_bytes(content)


def write_whole(path: Path, content: str | bytes, within: Path | None = None) -> None:
    """Write a page or an export atomically; Unwritable names the file and the folder.

    Args:
        path: of the page
        content: of the page
        within: a folder that may be of somebody else, below which no folder may be a link
    """
    if within is not None:
        refuse_linked(path, within)
    with writing_to(within or path.parent):
        write_bytes(content.encode() if isinstance(content, str) else content, path)


def refuse_linked(path: Path, within: Path) -> None:
    """Unwritable if a folder between `within` and a file is a link: it would lead elsewhere."""
    if not path.is_relative_to(within):
        return
    for folder in path.relative_to(within).parents:
        if folder.parts and (within / folder).is_symlink():
            raise Unwritable(
                f"{within / folder} is a link, and nothing is written through one: delete it, or "
                "put the folder itself there"
            )


def read_bytes(path: Path, most: int | None = None) -> bytes:
    """What a file holds. OSError if it is anything but a file, ValueError if it has more bytes.

    A link is not followed, and a pipe or a device is not waited for.
    """
    _refuse_what_is_no_file(os.lstat(path).st_mode, path)
    # Both flags are about what may have taken its place meanwhile; Windows has neither.
    flags = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
    flags |= getattr(os, "O_BINARY", 0)
    with open(os.open(path, os.O_RDONLY | flags), "rb") as file:
        found = os.fstat(file.fileno())
        _refuse_what_is_no_file(found.st_mode, path)
        if most is not None and found.st_size > most:
            raise ValueError(f"{found.st_size:,} bytes are more than it can have")
        return file.read()


def unlinked(path: str, flags: int) -> int:
    """For `open`, as its `opener`: a file that is no link, to be written to in its place."""
    return os.open(path, flags | getattr(os, "O_NOFOLLOW", 0), 0o666)


def read_text(path: Path, most: int | None = None) -> str:
    """The same as text; UnicodeDecodeError, a ValueError, if it is not UTF-8."""
    return read_bytes(path, most).decode()


KINDS = {
    stat.S_IFLNK: "a link, and links are not followed",
    stat.S_IFDIR: "a folder",
    stat.S_IFIFO: "a pipe",
    stat.S_IFSOCK: "a socket",
}


def _refuse_what_is_no_file(mode: int, path: Path) -> None:
    if not stat.S_ISREG(mode):
        kind = KINDS.get(stat.S_IFMT(mode), "a device")
        raise OSError(errno.EINVAL, f"it is {kind}", str(path))


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
    except OSError as error:  # whatever is in the way
        raise _unwritable(folder, error) from None


def _unwritable(folder: str | Path, error: OSError) -> Unwritable:
    for place in (folder, *Path(folder).parents):
        if os.path.isfile(place):  # noqa: PTH113 (Path.is_file may raise)
            return Unwritable(f"{place} is a file, and a folder is needed: name another")
    file = error.filename if isinstance(error.filename, str) else None
    if file is not None and Path(file).is_dir() and error.errno == errno.EISDIR:
        return Unwritable(f"{file} is a folder, and a file is to be written there: move it away")
    at = f" ({file} was not written)" if file is not None and file != str(folder) else ""
    remedy = REFUSED.get(error.errno or 0, ROOM)
    return Unwritable(
        f"{folder} cannot be written to ({error.strerror}): {remedy}; the same command goes on "
        f"from here{at}"
    )


def write_json(content: Any, path: Path) -> None:
    """Write atomically: the file is either complete or not there."""
    with atomically(path) as beside:
        text = json.dumps(content, indent=1, allow_nan=False)
        beside.write_text(text + "\n", encoding="utf-8")


# -- reading ---------------------------------------------------------------------------------------


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


def damaged(path: Path, reason: str, remedy: str = "") -> Unreadable:
    """The sentence about a file that does not hold what was written there."""
    remedy = remedy or "delete it, and the same command makes it again"
    return Unreadable(f"{path} is damaged ({reason}): {remedy}")


def noted(path: Path) -> Any:
    """The JSON in a file; None where there is none, Unreadable where it is damaged."""
    with reading(path):
        if not path.exists():
            return None
        found = read_bytes(path)
    try:
        return json.loads(found)
    except (ValueError, RecursionError) as error:
        raise damaged(path, type(error).__name__) from None


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
            if error.errno == errno.ELOOP:
                raise Unwritable(
                    f"{path} is a link, and nothing is written through one: delete it"
                ) from None
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


def is_held(lock: Path, patience: float = 0.0) -> bool:
    """Whether a process, this one included, holds the lock for longer than some seconds. No file is
    made, and none is needed.
    """
    if not os.path.exists(lock):  # noqa: PTH110 (`Path.exists` raises where a folder is closed)
        return False
    try:
        with Lock(lock).acquire(timeout=patience):
            return False
    except filelock.Timeout:
        return True
    except OSError:  # of somebody else: to take a lock is to write
        return _is_held_by_others(lock)


def _is_held_by_others(lock: Path) -> bool:
    """The same of a lock that one may only read, as a shared lock on it can tell."""
    import fcntl  # which Windows has not

    with open(lock, "rb") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        except OSError as error:
            if error.errno not in LOCKLESS:
                raise
            raise no_locks(lock, str(error.strerror)) from None
    return False
