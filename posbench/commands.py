"""What command lines have in common: options that mean the same, and pages that can be checked."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from posbench.composing.exit_status import exit_status
from posbench.disk import clear_left_over, read_bytes, write_whole
from posbench.errors import PosbenchError


def parser(
    command: str, says: str, *, check: bool = False, config_dir: bool = False
) -> argparse.ArgumentParser:
    """A parser for `python -m ...`, with --check and --config-dir where they are wanted."""
    found = argparse.ArgumentParser(
        prog=command, description=says, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    if check:
        found.add_argument(
            "--check", action="store_true", help="write nothing; fail if it would change a file"
        )
    if config_dir:
        add_config_dir(found)
    return found


def parser_of_words(command: str, text: str) -> argparse.ArgumentParser:
    """A parser of words as NAME=VALUE, among which --help, wherever it stands, shows this text.

    They are parsed with `parse_intermixed_args`.
    """
    found = argparse.ArgumentParser(
        prog=command,
        usage=argparse.SUPPRESS,
        description=text,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        add_help=False,
    )
    found.add_argument("-h", "--help", action="help", help=argparse.SUPPRESS)
    found.add_argument("words", nargs="*", help=argparse.SUPPRESS)
    return found


def add_config_dir(
    parser: argparse.ArgumentParser, help: str = "a folder like conf/ of your own"
) -> None:
    """Add --config-dir, which may be given several times."""
    parser.add_argument(
        "--config-dir", type=Path, action="append", default=[], metavar="FOLDER", help=help
    )


def write_or_check(
    contents: Mapping[Path, bytes],
    check: bool,
    again: str,
    left_over: Sequence[Path] = (),
    shown: Callable[[Path], str] = str,
    within: Path | None = None,
) -> None:
    """Write files, or raise `PosbenchError` for those that this would change.

    Args:
        contents: of the files
        check: write nothing
        again: says in the sentence of the error how the files are written again
        left_over: files of an earlier call, which go
        shown: how a path is called
        within: the folder that the files are in, which may be of somebody else
    """
    if not check:
        for path, content in contents.items():
            write_whole(path, content, within)
        for path in left_over:
            path.unlink()
        for folder in {path.parent for path in contents}:
            clear_left_over(folder)
        return
    changed = [path for path, content in contents.items() if not _holds(path, content)]
    if names := ", ".join(map(shown, [*changed, *left_over])):
        raise PosbenchError(f"regenerating changes {names}: {again}")


def _holds(path: Path, content: bytes) -> bool:
    try:
        return read_bytes(path) == content
    except OSError:  # it is not there, or something else is
        return False


def write_page(
    path: Path,
    page: Callable[[], str],
    command: str,
    check: bool,
    emit: Callable[[str], None] = print,
    shown: str = "",
) -> int:
    """Write one page, or only look whether it is as it should be; returns the exit status.

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
        content = page().encode()
        if not path.parent.is_dir():
            raise PosbenchError(f"{path.parent} is not a folder: name one that is there")
        write_or_check({path: content}, check, f"run `{command}`", shown=lambda _: shown)
        emit(f"{shown}: up to date." if check else f"Written: {shown}")
        return 0

    return exit_status(made)
