"""How a command ends: with its own status, or with one sentence and the status that fits."""

from __future__ import annotations

import errno
import os
import signal
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from posbench.base.disk import TOO_MANY
from posbench.base.errors import NO_MEMORY, PosbenchError, Terminated, of_limits
from posbench.base.wording import complaint, reason
from posbench.config import blame, mistakes, streams
from posbench.config.options import BROKEN

# -- whether import posbench has found the package, or a folder that only has its name -------------


def refuse_shadow() -> None:
    """PosbenchError where a folder named posbench takes the place of the package.

    `python -m` looks into the current folder first, and in the folder above a clone it takes the
    clone for a package without content. Modules are found all the same if the installation is
    editable, but no longer all of the source that the hashes of a record are made of.
    """
    package = sys.modules["posbench"]
    if package.__file__ is None:
        raise PosbenchError(
            f"the folder {package.__path__[0]} hides the package, because `python -m` looks into "
            "the current folder first: go to another folder, such as that one"
        )


# -- exit status -----------------------------------------------------------------------------------


def exit_status(
    act: Callable[[], int],
    words: Sequence[str] = (),
    own: Sequence[Path] = (),
    left: str = "what was complete is kept",
) -> int:
    """Carry a command out and return its exit status: that of `act`, 1 for a mistake of the user,
    an error in a class of theirs, or a file that cannot be read or written, 128 and the number of
    the signal for what was stopped. A reader that has seen enough, as `head`, ends it quietly. A
    standard output that takes nothing more stops nothing: a message says so, and the status is 1.

    Args:
        act: does what the command is for
        words: of the command line, from which what was meant is guessed
        own: folders like conf/ of the user
        left: says what there is after it was stopped
    """
    try:
        streams.prepare()
        refuse_shadow()
        try:
            status = act()
        except SystemExit:  # help was printed, and waits to be written
            sys.stdout.flush()
            raise
        return status or int(streams.lost())
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # where the rest may go
        return 0
    except BROKEN as error:
        print(complaint(mistakes.sentence(error, words, own)), file=sys.stderr)
        return 1
    except (OSError, MemoryError) as error:  # some of Hydra's are both
        print(complaint(of_the_system(error)), file=sys.stderr)
        return 1
    except (Exception, SystemExit) as error:
        if mistakes.is_ring(error):
            print(f"posbench: {mistakes.RING}", file=sys.stderr)
            return 1
        said = blame.of_own_code(error) or of_limits(error)
        if said is None or os.environ.get(blame.FULL_ERROR) == "1":
            raise
        print(complaint(f"{said} ({blame.HOW})"), file=sys.stderr)
        return 1
    except Terminated as stopped:
        received = signal.Signals(stopped.args[0])
    except KeyboardInterrupt:
        received = signal.SIGINT
    print(f"posbench: stopped by {received.name}; {left}.", file=sys.stderr)
    return 128 + received


REMEDIES = {
    errno.ENOENT: "give the path of what is there",
    errno.ENAMETOOLONG: "give a shorter name",
    errno.EACCES: "change who may use it, or give another one",
    errno.ENOSPC: "free some space, or give another place; what was complete is kept",
    errno.ELOOP: "give the path of a file, not of a link",
}
"""What to do about what the system refuses."""


def of_the_system(error: OSError | MemoryError) -> str:
    """What the system has refused, in a sentence."""
    if isinstance(error, MemoryError):
        return NO_MEMORY
    if error.errno in TOO_MANY:
        return f"no further file can be opened ({error.strerror}): raise the limit (ulimit -n)"
    if error.filename is None:
        return reason(error)
    remedy = REMEDIES.get(error.errno or 0, "give another one")
    return f"{error.filename} cannot be used ({reason(error)}): {remedy}"
