"""Pages that a command writes, or holds against what it would write."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path

from posbench.composing.answering import answered
from posbench.errors import PosbenchError


def parser(command: str, says: str) -> argparse.ArgumentParser:
    """A parser for a command whose page can be checked."""
    found = argparse.ArgumentParser(prog=command, description=says)
    found.add_argument(
        "--check", action="store_true", help="write nothing; fail if regenerating changes the page"
    )
    return found


def written(
    path: Path,
    page: Callable[[], str],
    command: str,
    check: bool,
    emit: Callable[[str], None] = print,
    shown: str | None = None,
) -> int:
    """Write the page, or only look whether it is what `page` makes; the exit status.

    Args:
        path: of the page
        page: makes its text; `PosbenchError` says what is wrong
        command: writes the page again
        check: write nothing
        emit: takes what there is to say
        shown: the path as it is called, if not by itself
    """
    shown = shown or str(path)

    def made() -> int:
        text = page()
        if check and not (path.exists() and path.read_bytes() == text.encode()):
            raise PosbenchError(f"regenerating changes {shown}: run `{command}`")
        if not check:
            path.write_bytes(text.encode())
        emit(f"{shown}: up to date." if check else f"Written: {shown}")
        return 0

    return answered(made)
