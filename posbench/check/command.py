"""`python -m posbench.check`: do your own encoding, extension or task keep their promises?

    python -m posbench.check mine/encoding/decay.yaml
    python -m posbench.check mine/extension/slow_half.yaml
    python -m posbench.check --config-dir mine task=odd_ones
    python -m posbench.check encoding=rope encoding.base=500

The test suite runs the same checks on everything in posbench. An extension is tried on the
encoding that is named beside it, or on the first that it can extend. Each failure is one sentence,
said once, with the line that it comes from; the exit status is 1 if there is any.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from rich.console import Console

from posbench import commands
from posbench.check.suite import Check, Suite
from posbench.composing import folders, mistakes
from posbench.composing.blame import told
from posbench.composing.compose import composing
from posbench.composing.exit_status import exit_status
from posbench.composing.words import Word, is_file
from posbench.errors import ConfigError, PosbenchError

KINDS = mistakes.OF_A_CLASS
"""The groups whose classes can be checked."""


def main(arguments: list[str] | None = None) -> int:
    parser = commands.parser("python -m posbench.check", str(__doc__), config_dir=True)
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

            return exit_status(checked, words, own)

        return exit_status(asked)


def _choices(words: list[str], own: list[Path], stack: ExitStack) -> tuple[list[str], list[Path]]:
    """The overrides, and the folders to look in.

    A YAML file that stands in a folder like conf/ brings that folder; of any other an encoding is
    made, in a folder for it alone.
    """
    found = []
    for word in words:
        if not is_file(word):
            if "=" not in word and not word.startswith("~"):
                raise ConfigError(
                    f"{word} is neither a YAML file nor key=value: give {_meant(word, own)}"
                )
            found.append(word)
            continue
        path = Path(word)
        if not path.is_file():
            raise ConfigError(
                f"{word} is not a file: give the YAML of an encoding, extension or task, with its "
                "_target_ and settings"
            )
        group = path.resolve().parent.name
        kind = group if group in KINDS else "encoding"
        found.append(f"{kind}={path.stem}")
        if folders.is_own(path, kind):
            continue
        folder = folders.around(folders.around(path))
        if group not in KINDS:
            folders.check_file(path, "encoding")
            mistakes.check_settings(path, "encoding")
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
            (folder / "encoding").mkdir()
            (folder / "encoding" / f"{path.stem}.yaml").write_bytes(path.read_bytes())
        # The class may be in the folder of the YAML, or in the one above, beside encoding/.
        near = path.resolve().parent
        stack.enter_context(folders.importable([near, near.parent]))
        own = [*own, folder]
    return found, own


def _meant(name: str, own: list[Path]) -> str:
    """The choices or files of that name, or how either is given."""
    known = [f"{kind}={name}" for kind in (*KINDS, "method") if name in folders.names(kind, own)]
    files = [str(path) for kind in KINDS if (path := folders.left_out(kind, name)) is not None]
    return " or ".join(known or files) or (
        "the path of its YAML, as mine/encoding/NAME.yaml, or choose with encoding=NAME, "
        "extension=NAME, task=NAME or method=NAME"
    )


def _report(words: list[str], out: Console) -> int:
    for kind in KINDS:
        if len(several := [word for word in words if Word.of(word).group == kind]) > 1:
            raise ConfigError(f"{' and '.join(several)}: check one {kind} at a time")
    groups = {Word.of(word).group for word in words}
    if not groups & {*KINDS, "method"}:
        raise ConfigError(
            f"{' '.join(words)} names nothing to check: give a YAML file, or choose with "
            "encoding=NAME, extension=NAME, task=NAME or method=NAME"
        )
    kinds = ["encoding"] if groups & {"encoding", "method"} else []
    kinds += [kind for kind in ("extension", "task") if kind in groups]
    return max(_asked(kind, words, out) for kind in kinds)


def _asked(kind: str, words: list[str], out: Console) -> int:
    """Ask every check of a kind, and say what came of it; the exit status."""
    suite = _suite(kind)
    subject = suite.subject(
        *(word for word in words if kind != "encoding" or Word.of(word).section != "extension")
    )
    number, kept = len(suite.checks), 0
    for check, failure in _answers(subject, suite):
        if failure is None:
            kept += 1
            out.print(f"  ok      {_title(check)}", markup=False)
            continue
        out.print(f"  FAILED  {_title(check)}: {failure}", markup=False)
        if check in suite.first:
            left = number - suite.checks.index(check) - 1
            out.print(f"  Mend that first: the other {left} checks rest on it.", markup=False)
    host = subject.host if kind == "extension" else ""
    where = f" (on {host})" if host else ""
    out.print(f"{kept} of {number} promises kept by {' '.join(words)}{where}.", markup=False)
    return int(kept < number)


def _suite(kind: str) -> Suite:
    """The checks of a kind."""
    # This imports torch, which is not needed to report a mistake in the words.
    from posbench.check import conformance, conformance_of_extensions, conformance_of_tasks

    suites = {
        "encoding": conformance.SUITE,
        "extension": conformance_of_extensions.SUITE,
        "task": conformance_of_tasks.SUITE,
    }
    return suites[kind]


def _answers(subject: Any, suite: Suite) -> Iterator[tuple[Check, str | None]]:
    """Each check with what has failed, None where the promise is kept.

    What fails for a reason that was said before refers to that. A check that rests on one that
    failed is left out, for it would say the same again, and so are all after one of the first.
    """
    from posbench.composing.blame import place

    said: dict[str, str] = {}  # reasons, and the check that gave them first
    lost: set[Check] = set()  # what failed, and what rests on that
    for check in suite.checks:
        if lost.intersection(suite.rests_on.get(check, ())):
            lost.add(check)
            continue
        error = _raised(check, subject)
        if error is None:
            yield check, None
            continue
        lost.add(check)
        where = place(error, subject.classes)
        sentence = _sentence(error, where)
        by_line = not isinstance(error, PosbenchError) or error.__cause__ is not None
        reason = where if by_line and where else sentence
        yield check, f"as in “{said[reason]}”" if reason in said else sentence
        said.setdefault(reason, _title(check))
        if check in suite.first:
            return


def _raised(check: Check, subject: Any) -> Exception | None:
    try:
        check(subject)
    except Exception as error:  # what is examined may raise anything
        return error
    return None


def _title(check: Check) -> str:
    return check.__name__.replace("_", " ")


def _sentence(error: Exception, where: str) -> str:
    if isinstance(error, PosbenchError):
        text = " ".join(str(error).split())
        return f"{text} ({where})" if where else text
    said = told(error, f" in {where or 'posbench'}")
    if isinstance(error, RuntimeError) and "dtype" in said:
        said += " (queries may be bfloat16 where parameters are float32: cast with .to(a.q.dtype))"
    return said
