"""Standard streams that are closed, full or not ours to write to: the work goes on without them."""

from __future__ import annotations

import io
import logging
import os
import sys
from typing import Any


class Output(io.FileIO):
    """A standard stream on which a write that fails stops nothing; a message says so once.

    A reader that has seen enough, as `head`, is no failure, and still ends the command.
    """

    lost = False

    def write(self, data: Any) -> int:
        try:
            return super().write(data)
        except BrokenPipeError:
            raise
        except OSError as error:
            if not self.lost:
                self.lost = True
                self._say(error)
            return memoryview(data).nbytes

    def _say(self, error: OSError) -> None:
        if self.fileno() == 1:
            print(
                f"posbench: the standard output cannot be written to ({error.strerror}): what "
                "follows is not shown, and the work goes on; make room there, or send it elsewhere",
                file=sys.stderr,
                flush=True,
            )


def prepare() -> None:
    """Let no write to a standard stream raise. Where one is closed, whatever is opened next would
    get its number, and what is printed: that goes nowhere instead.
    """
    for descriptor in range(3):
        try:
            os.fstat(descriptor)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # gets the lowest number that is free: this one
    logging.raiseExceptions = False  # Hydra logs to them, and logging would print frames
    sys.stdout, sys.stderr = _prepared(sys.stdout, 1), _prepared(sys.stderr, 2)


def _prepared(stream: Any, descriptor: int) -> Any:
    if stream is None:
        return open(os.devnull, "w", encoding="utf-8")
    if stream not in (sys.__stdout__, sys.__stderr__):
        return stream  # prepared before, or somebody else's
    try:
        stream.flush()
        raw = Output(descriptor, "wb", closefd=False)
    except OSError:
        return stream
    return io.TextIOWrapper(
        io.BufferedWriter(raw),
        encoding=stream.encoding,
        errors=stream.errors,
        line_buffering=stream.line_buffering,
        write_through=stream.write_through,
    )


def lost() -> bool:
    """Whether something that was to be shown could not be, once all is written."""
    sys.stdout.flush()
    raw = getattr(getattr(sys.stdout, "buffer", None), "raw", None)
    return isinstance(raw, Output) and raw.lost
