"""`python -m posbench.check`: does an encoding of one's own keep its promises?

    python -m posbench.check my_encoding.yaml
    python -m posbench.check --config-dir mine method=mine
    python -m posbench.check encoding=rope encoding.base=500

The same checks that the test suite runs on every encoding of posbench; each failure is a sentence.
Exit status 1 where one fails.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
import traceback
from contextlib import ExitStack
from pathlib import Path

from rich.console import Console

from posbench.composing import folders, mistakes
from posbench.composing.compose import composing
from posbench.errors import ConfigError, PosbenchError


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m posbench.check", description=__doc__.split("\n\n")[0]
    )
    parser.add_argument(
        "--config-dir",
        type=Path,
        action="append",
        default=[],
        help="a folder like conf/ of your own",
    )
    parser.add_argument(
        "words", nargs="+", help="a YAML file, or choices such as method=mine and encoding.base=500"
    )
    options = parser.parse_args(arguments)
    out = Console(soft_wrap=True, highlight=False)
    words, own = options.words, options.config_dir
    with ExitStack() as stack:
        try:
            words, own = _choices(words, own, stack)
            mistakes.check(words, own)
            with composing(*own):
                return _report(words, out)
        except mistakes.EXPECTED as error:
            out.print(f"posbench: {mistakes.sentence(error, words, own)}", markup=False)
            return 1


def _choices(words: list[str], own: list[Path], stack: ExitStack) -> tuple[list[str], list[Path]]:
    """The overrides and the folders to look in; a YAML file becomes the encoding of a folder made
    for it.
    """
    found = []
    for word in words:
        if not word.endswith((".yaml", ".yml")):
            found.append(word)
            continue
        path = Path(word)
        if not path.is_file():
            raise ConfigError(
                f"{word} is not a file: give the YAML of an encoding, with its _target_ and "
                "settings"
            )
        found.append(f"encoding={path.stem}")
        if folders.is_own(path, "encoding"):
            continue
        folders.check_file(path, "encoding")
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        (folder / "encoding").mkdir()
        shutil.copy(path, folder / "encoding" / f"{path.stem}.yaml")
        # Its class may stand beside it, or beside the folder encoding/.
        near = [path.resolve().parent, path.resolve().parent.parent]
        stack.callback(sys.path.__setitem__, slice(None), list(sys.path))
        sys.path[:0] = [str(place) for place in near]
        own = [*own, folder]
    return found, own


def _report(words: list[str], out: Console) -> int:
    from posbench.catalogue import (
        conformance,  # and with it torch, which a mistake in the words does not need
    )

    subject = conformance.Subject(*words)
    failed = 0
    for check in conformance.CHECKS:
        title = check.__name__.replace("_", " ")
        try:
            check(subject)
            out.print(f"  ok      {title}", markup=False)
        except PosbenchError as error:
            failed += 1
            out.print(f"  FAILED  {title}: {error}", markup=False)
        except Exception as error:  # whatever the encoding raises: it is being examined
            failed += 1
            frame = traceback.extract_tb(error.__traceback__)[-1]
            where = f"{Path(frame.filename).name}, line {frame.lineno}"
            reason = " ".join(str(error).split())
            out.print(
                f"  FAILED  {title}: {type(error).__name__} in {where}: {reason}", markup=False
            )
    total = len(conformance.CHECKS)
    out.print(f"{total - failed} of {total} promises kept by {' '.join(words)}.", markup=False)
    return int(failed > 0)
