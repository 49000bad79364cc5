"""`python -m posbench.check`: do your own encoding, extension or task keep their promises?

    python -m posbench.check mine/encoding/decay.yaml
    python -m posbench.check mine/extension/slower.yaml
    python -m posbench.check --config-dir mine task=odd_ones
    python -m posbench.check encoding=rope encoding.base=500

The test suite runs the same checks on everything in posbench. An extension is tried on the
encoding that is named beside it, or on the first that it can extend. Each failure is one sentence,
said once, with the line that it comes from; the exit status is 1 if there is any.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from rich.console import Console

from posbench.composing import folders, mistakes
from posbench.composing.answering import answered
from posbench.composing.compose import composing
from posbench.errors import ConfigError, PosbenchError

KINDS = ("encoding", "extension", "task")
"""The groups whose classes can be checked."""


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m posbench.check",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "--config-dir",
        type=Path,
        action="append",
        default=[],
        metavar="FOLDER",
        help="a folder like conf/ of your own",
    )
    parser.add_argument(
        "words", nargs="+", help="a YAML file, or choices such as encoding=mine and encoding.base=5"
    )
    options = parser.parse_args(arguments)
    out = Console(soft_wrap=True, highlight=False)
    with ExitStack() as stack:

        def asked() -> int:
            words, own = _choices(options.words, options.config_dir, stack)

            def checked() -> int:
                mistakes.check(words, own)
                with composing(*own):
                    return _report(words, out)

            return answered(checked, words, own)

        return answered(asked)


def _choices(words: list[str], own: list[Path], stack: ExitStack) -> tuple[list[str], list[Path]]:
    """The overrides, and the folders to look in.

    A YAML file that stands in a folder like conf/ brings that folder; of any other an encoding is
    made, in a folder for it alone.
    """
    found = []
    for word in words:
        if not word.endswith((".yaml", ".yml")):
            found.append(word)
            continue
        path = Path(word)
        if not path.is_file():
            raise ConfigError(
                f"{word} is not a file: give the YAML of an encoding, extension or task, with its "
                "_target_ and settings"
            )
        near = path.resolve().parent
        group = near.name
        found.append(f"{group if group in KINDS else 'encoding'}={path.stem}")
        if folders.is_own(path, found[-1].partition("=")[0]):
            continue
        folder = near.parent
        if group not in KINDS:
            folders.check_file(path, "encoding")
            mistakes.refuse_list(path)
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
            (folder / "encoding").mkdir()
            (folder / "encoding" / f"{path.stem}.yaml").write_bytes(path.read_bytes())
        # The class may be in the folder of the YAML, or in the one above, beside encoding/.
        stack.callback(sys.path.__setitem__, slice(None), list(sys.path))
        sys.path[:0] = [str(near), str(near.parent)]
        own = [*own, folder]
    return found, own


def _report(words: list[str], out: Console) -> int:
    groups = {word.lstrip("+").partition("=")[0].partition("@")[0] for word in words}
    if not groups & {*KINDS, "method"}:
        raise ConfigError(
            f"{' '.join(words)} names nothing to check: give a YAML file, or choose with "
            "encoding=NAME, extension=NAME, task=NAME or method=NAME"
        )
    if "task" in groups and not groups & {"encoding", "extension", "method"}:
        return _asked("task", words, out)
    kinds = ["encoding"] if groups & {"encoding", "method"} else []
    if "extension" in groups:
        kinds.append("extension")
    return max(_asked(kind, words, out) for kind in kinds)


def _asked(kind: str, words: list[str], out: Console) -> int:
    """Ask every check of a kind; the exit status."""
    # This imports torch, which is not needed to report a mistake in the words.
    from posbench.catalogue import conformance, conformance_of_extensions, conformance_of_tasks
    from posbench.catalogue.blame import place
    from posbench.catalogue.subject import Subject

    makers: dict[str, tuple[Callable[..., Any], Any]] = {
        "encoding": (Subject, conformance),
        "extension": (conformance_of_extensions.Extended, conformance_of_extensions),
        "task": (conformance_of_tasks.ChosenTask.of, conformance_of_tasks),
    }
    make, module = makers[kind]
    subject = make(*[word for word in words if kind != "encoding" or not _is_extension(word)])
    checks: Sequence[Callable[..., None]] = module.CHECKS
    said: dict[str, str] = {}  # sentences with their places, and the check that said them first
    lost: set[Callable[..., None]] = set()  # what failed, and what rests on that
    failed = asked = 0
    for check in checks:
        title = check.__name__.replace("_", " ")
        asked += 1
        if lost.intersection(module.RESTS_ON.get(check, ())):
            lost.add(check)
            failed += 1
            continue  # it would say the same again
        try:
            check(subject)
            out.print(f"  ok      {title}", markup=False)
            continue
        except Exception as error:  # what is examined may raise anything
            where = place(error, subject.classes)
            key = where if not isinstance(error, PosbenchError) or error.__cause__ else ""
            sentence = _sentence(error, where)
        failed += 1
        lost.add(check)
        key = key or sentence
        if key in said:
            out.print(f"  FAILED  {title}: as in “{said[key]}”", markup=False)
        else:
            said[key] = title
            out.print(f"  FAILED  {title}: {sentence}", markup=False)
        if check in module.FIRST:
            left = len(checks) - asked
            out.print(f"  Mend that first: the other {left} checks rest on it.", markup=False)
            break
    names = " ".join(words)
    where = (
        f" (on {subject.host})"
        if kind == "extension" and "encoding=" not in names and "method=" not in names
        else ""
    )
    out.print(f"{asked - failed} of {len(checks)} promises kept by {names}{where}.", markup=False)
    return int(failed > 0)


def _is_extension(word: str) -> bool:
    return word.startswith(("extension=", "extension.", "extension@"))


def _sentence(error: Exception, where: str) -> str:
    text = " ".join(str(error).split())
    if isinstance(error, PosbenchError):
        return f"{text} ({where})" if where else text
    if isinstance(error, RuntimeError) and "dtype" in text:
        text += " (queries may be bfloat16 where parameters are float32: cast with .to(a.q.dtype))"
    return f"{type(error).__name__} in {where or 'posbench'}: {text}"
