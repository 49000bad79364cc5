"""Pages of conf/ that a command writes, or holds against what it would write."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from pathlib import Path

from posbench.errors import PosbenchError


def command(
    path: Path, page: Callable[[], str], module: str, says: str, arguments: list[str] | None
) -> int:
    """The command line of a page: the exit status."""
    parser = argparse.ArgumentParser(prog=f"python -m {module}", description=says)
    parser.add_argument(
        "--check", action="store_true", help="write nothing; fail if regenerating changes the page"
    )
    chosen = parser.parse_args(arguments)
    shown = f"conf/{path.name}"
    try:
        text = page()
        if chosen.check and not (path.exists() and path.read_bytes() == text.encode()):
            raise PosbenchError(f"regenerating changes {shown}: run `python -m {module}`")
        if not chosen.check:
            path.write_bytes(text.encode())
    except (PosbenchError, OSError) as error:
        print(f"posbench: {error}", file=sys.stderr)
        return 1
    print(f"{shown}: up to date." if chosen.check else f"Written: {shown}")
    return 0
