"""The pages of conf/."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from posbench.showing import generated


def command(
    path: Path, page: Callable[[], str], module: str, says: str, arguments: list[str] | None
) -> int:
    """The command line of a page of conf/: the exit status."""
    line = f"python -m {module}"
    chosen = generated.parser(line, says).parse_args(arguments)
    return generated.written(path, page, line, chosen.check, shown=f"conf/{path.name}")
