"""What command lines have in common: options that mean the same, and pages that can be checked."""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn

from posbench.base.disk import read_bytes, write_whole
from posbench.base.errors import PosbenchError
from posbench.base.wording import closest, complaint, known_names
from posbench.config import folders
from posbench.config.exit_status import exit_status


class Parser(argparse.ArgumentParser):
    """A parser whose mistakes are one sentence and exit status 1, as all other mistakes are."""

    def __init__(self, *given: Any, **named: Any) -> None:
        super().__init__(*given, **named)
        self.register("type", Path, _named)
        self._words: Sequence[str] = ()

    def parse_args(self, args: Any = None, namespace: Any = None) -> Any:
        self._words = sys.argv[1:] if args is None else args
        return super().parse_args(args, namespace)

    def error(self, message: str) -> NoReturn:
        print(complaint(self._sentence(message)), file=sys.stderr)
        sys.exit(1)

    def _sentence(self, message: str) -> str:
        helped = f"{self.prog} --help"
        if unknown := re.fullmatch(r"unrecognized arguments: (\S+).*", message):
            return f"{unknown[1]} is not understood: {self._meant(unknown[1], helped)}"
        if missing := re.fullmatch(r"the following arguments are required: (.+)", message):
            first = missing[1].split(", ")[0]
            what = "nothing is given" if first == "words" else f"{first} is missing"
            return f"{what}: `{helped}` says what is needed"
        if choice := re.fullmatch(r"argument (\S+): invalid choice: '(.*?)' \(.*", message):
            known = next(
                (each.choices for each in self._actions if each.dest == choice[1] and each.choices),
                (),
            )
            near = closest(choice[2], map(str, known))
            return f"{choice[2]} is unknown: {known_names(map(str, known), helped, near)}"
        return f"{message}: `{helped}` shows how it is written"

    def _options(self) -> Iterator[str]:
        """Its options, and those of the command that is asked for: its parser leaves what is
        unknown to this one.
        """
        for each in self._actions:
            yield from each.option_strings
            if isinstance(each.choices, Mapping):
                asked = next((word for word in self._words if word in each.choices), None)
                if asked is not None:
                    yield from each.choices[asked]._options()

    def _meant(self, word: str, helped: str) -> str:
        """What to do about a word too many, or an option that there is not."""
        name, _, value = word.lstrip("-").partition("=")
        options = [each for each in self._options() if each.startswith("--") and each != "--help"]
        if word.startswith("-") and (near := closest(f"--{name}", options)):
            return f"did you mean {near}?"
        if word.startswith("--") and any(each.dest == "words" for each in self._actions):
            near = name if name in folders.GROUPS else closest(name, folders.GROUPS) or name
            return f"write {near}={value or 'VALUE'}, without dashes"
        return f"`{helped}` shows how it is written"


def _named(text: str) -> Path:
    """A path; of an empty text, as a shell makes of an unset variable, Path has the folder here."""
    if not text:
        raise argparse.ArgumentTypeError("the name is empty")
    return Path(text)


def parser(
    command: str, says: str, *, check: bool = False, config_dir: bool = False
) -> argparse.ArgumentParser:
    """A parser for `python -m ...`, with --check and --config-dir where they are wanted."""
    found = Parser(
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
    """A parser of words as NAME=VALUE, among which --help, wherever it is, shows this text.

    They are parsed with `parse_intermixed_args`.
    """
    found = Parser(
        prog=command,
        usage=argparse.SUPPRESS,
        description=text,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        add_help=False,
    )
    found.add_argument("-h", "--help", action="help", help=argparse.SUPPRESS)
    found.add_argument("words", nargs="*", help=argparse.SUPPRESS)
    return found


def of_words(
    command: str, text: str, arguments: Sequence[str] | None, carry_out: Callable[[list[str]], int]
) -> int:
    """A command whose words are NAME=VALUE, and that shows its help where there are none; its
    exit status.
    """
    parser = parser_of_words(command, text)
    words = parser.parse_intermixed_args(arguments).words
    if not words:
        parser.print_help()
        return 1
    return exit_status(lambda: carry_out(words), words)


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
    shown: Callable[[Path], str] = str,
    within: Path | None = None,
) -> None:
    """Write files, or raise `PosbenchError` for those that this would change.

    Args:
        contents: of the files
        check: write nothing
        again: says in the sentence of the error how the files are written again
        shown: how a path is called
        within: the folder that the files are in, which may be of somebody else
    """
    if not check:
        for path, content in contents.items():
            write_whole(path, content, within)
        return
    changed = [path for path, content in contents.items() if not _holds(path, content)]
    if names := ", ".join(map(shown, changed)):
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
