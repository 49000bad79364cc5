"""How a command ends: with its own status, or with one sentence and the status that fits."""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from posbench.composing import mistakes
from posbench.errors import Terminated


def answered(act: Callable[[], int], words: Sequence[str] = (), own: Sequence[Path] = ()) -> int:
    """The status of a command that `act` carries out: what it returns, 1 for a mistake of the user,
    128 and the number of the signal for what was stopped.

    Args:
        act: does what the command is for
        words: of the command line, from which what was meant is guessed
        own: folders like conf/ of one's own
    """
    try:
        return act()
    except mistakes.EXPECTED as error:
        print(f"posbench: {mistakes.sentence(error, words, own)}", file=sys.stderr)
        return 1
    except Terminated as stopped:
        received = signal.Signals(stopped.args[0])
    except KeyboardInterrupt:
        received = signal.SIGINT
    print(f"posbench: stopped by {received.name}; what was complete is kept.", file=sys.stderr)
    return 128 + received
