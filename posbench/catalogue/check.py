"""`python -m posbench.check`: does your own encoding keep its promises?

    python -m posbench.check my_encoding.yaml
    python -m posbench.check --config-dir mine method=mine
    python -m posbench.check encoding=rope encoding.base=500

The test suite runs the same checks on every encoding of posbench. Each failure is reported in a
sentence, and the exit status is 1 if there is any.
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
    """The overrides, and the folders to look in.

    A YAML file becomes the encoding of a folder made for it.
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
        # The class may be in the folder of the YAML, or in the one above, beside encoding/.
        near = [path.resolve().parent, path.resolve().parent.parent]
        stack.callback(sys.path.__setitem__, slice(None), list(sys.path))
        sys.path[:0] = [str(place) for place in near]
        own = [*own, folder]
    return found, own


def _report(words: list[str], out: Console) -> int:
    # This imports torch, which is not needed to report a mistake in the words.
    from posbench.catalogue import conformance

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
        except Exception as error:  # the encoding under examination may raise anything
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
