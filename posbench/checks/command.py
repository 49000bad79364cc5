"""`posbench check`: do your own encoding, extension or task keep their promises?

    posbench check mine/encoding/decay.yaml
    posbench check mine/extension/slow_half.yaml
    posbench check --config-dir mine task=odd_ones
    posbench check encoding=rope encoding.base=500

The test suite runs the same checks on everything in posbench. An extension is tried on the
encoding that is named beside it, or on the first that it can extend. Each failure is one sentence,
said once, with the line that it comes from; the exit status is 1 if there is any.
"""

from __future__ import annotations

import re
import tempfile
import warnings
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Any

from rich.console import Console

from posbench.base.errors import ConfigError, PosbenchError
from posbench.base.wording import agreeing
from posbench.base.wording import shown as in_sentence
from posbench.checks.suite import Check, NotAsked, Suite
from posbench.config import command_lines, constructors, folders, mistakes
from posbench.config.blame import last_line_in, place, shown, told
from posbench.config.building import OF_A_RUN, class_of_run
from posbench.config.compose import compose, composing
from posbench.config.exit_status import exit_status
from posbench.config.identity import identify
from posbench.config.words import Word, is_file


def main(arguments: list[str] | None = None) -> int:
    parser = command_lines.parser("posbench check", str(__doc__), config_dir=True)
    parser.add_argument(
        "words", nargs="+", help="a YAML file, or choices such as encoding=mine and encoding.base=5"
    )
    options = parser.parse_args(arguments)
    out = Console(soft_wrap=True, highlight=False)
    with ExitStack() as stack:

        def asked() -> int:
            words, own = choices(options.words, options.config_dir, stack)

            def checked() -> int:
                mistakes.check(words, own)
                with composing(*own):
                    return _report(words, out)

            return exit_status(checked, words, own)

        return exit_status(asked)


def choices(words: list[str], own: list[Path], stack: ExitStack) -> tuple[list[str], list[Path]]:
    """The overrides, and the folders to look in.

    A YAML file that is in a folder like conf/ brings that folder; of any other an encoding is
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
            mistakes.check_settings(path, "encoding")
            raise ConfigError(
                f"{word} is not a file: give the YAML of an encoding, extension or task, with its "
                "_target_ and settings"
            )
        group = path.resolve().parent.name
        kind = group if group in OF_A_RUN else "encoding"
        found.append(f"{kind}={path.stem}")
        if folders.is_own(path, kind):
            continue
        folders.check_file(path, kind)
        folder = folders.around(folders.around(path))
        if group not in OF_A_RUN:
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
    known = [f"{kind}={name}" for kind in (*OF_A_RUN, "method") if name in folders.names(kind, own)]
    files = [str(path) for kind in OF_A_RUN if (path := folders.left_out(kind, name)) is not None]
    return " or ".join(known or files) or (
        "the path of its YAML, as mine/encoding/NAME.yaml, or choose with encoding=NAME, "
        "extension=NAME, task=NAME or method=NAME"
    )


def _report(words: list[str], out: Console) -> int:
    return max(_asked(kind, words, out) for kind in _kinds(words))


def promises(words: list[str]) -> tuple[list[tuple[str, str, str]], list[str]]:
    """Each promise of what the words choose, what came of it, and why; and the notes: the lines of
    the report.
    """
    found, notes = [], []
    for kind in _kinds(words):
        suite, mine = _suite(kind), _words_of(kind, words)
        subject, written = suite.subject(*mine), YamlOfClass.of(kind, mine)
        answers = [*_answers(subject, suite, written)]
        found += [(_title(check), verdict.value, said) for check, verdict, said in answers]
        failed = any(verdict is CheckResult.FAILED for _, verdict, _ in answers)
        notes += _notes(kind, mine, subject, written, failed)
    return found, notes


def _kinds(words: list[str]) -> list[str]:
    """The groups of which the words choose something to check."""
    for kind in OF_A_RUN:
        if len(several := [word for word in words if Word.of(word).group == kind]) > 1:
            raise ConfigError(f"{' and '.join(several)}: check one {kind} at a time")
    groups = {Word.of(word).group for word in words}
    if not groups & {*OF_A_RUN, "method"}:
        raise ConfigError(
            f"{' '.join(words)} names nothing to check: give a YAML file, or choose with "
            "encoding=NAME, extension=NAME, task=NAME or method=NAME"
        )
    kinds = ["encoding"] if groups & {"encoding", "method"} else []
    return kinds + [kind for kind in ("extension", "task") if kind in groups]


def _words_of(kind: str, words: list[str]) -> list[str]:
    """The words that concern a kind."""
    return [word for word in words if kind != "encoding" or Word.of(word).section != "extension"]


def _asked(kind: str, words: list[str], out: Console) -> int:
    """Ask every check of a kind, and say what came of it; the exit status."""
    suite = _suite(kind)
    mine = _words_of(kind, words)
    subject = suite.subject(*mine)
    written = YamlOfClass.of(kind, mine)
    number, kept, failed, stopped = len(suite.checks), 0, 0, False
    reasons: dict[str, None] = {}
    for check, verdict, said in _answers(subject, suite, written):
        if verdict is CheckResult.KEPT:
            kept += 1
            out.print(f"  ok      {_title(check)}", markup=False)
        elif verdict is CheckResult.UNASKED:
            reasons[said] = None
            if not stopped:
                out.print(f"  --      {_title(check)}: not asked, because {said}", markup=False)
        else:
            failed += 1
            out.print(f"  FAILED  {_title(check)}: {said}", markup=False)
            if stopped := check in suite.first:
                left = number - suite.checks.index(check) - 1
                out.print(f"  Mend that first: the other {left} checks rest on it.", markup=False)
    host = subject.host if kind == "extension" else ""
    for note in _notes(kind, mine, subject, written, failed > 0):
        out.print(f"  note    {note}", markup=False)
    where = f" (on {host})" if host else ""
    others = [f"{failed} failed"] if failed else []
    if left := number - kept - failed:
        verb = agreeing(left, "was", "were")
        others.append(f"{left} {verb} not asked, because {' and because '.join(reasons)}")
    tail = "".join(f"; {each}" for each in others)
    out.print(f"{kept} of {number} promises kept by {' '.join(words)}{where}{tail}.", markup=False)
    return int(failed > 0)


def _notes(
    kind: str, words: Sequence[str], subject: Any, written: YamlOfClass, failed: bool
) -> list[str]:
    """What is no promise: settings that the YAML leaves out, and what a picture shows. That may
    tell why a check failed, as a wrong sign does.
    """
    return [*written.notes(), *_picture(kind, words, subject, failed)]


def _picture(kind: str, words: Sequence[str], subject: Any, failed: bool) -> Iterator[str]:
    """What is seen of an encoding or extension at the sizes of a run. What raises there as well has
    been said if it has `failed` a check.
    """
    if kind == "task":
        return
    from posbench.explain import sketches

    host = [f"encoding={subject.host}"] if kind == "extension" and subject.host else []
    try:
        name = identify(compose(*words, *host)).method.label
        yield from sketches.told(sketches.sketch(name, [*words, *host]))
    except SystemExit as error:
        if not failed:
            yield f"it exits with {sketches.HEADS} heads of {sketches.WIDTH} channels: {error}"
    except Exception as error:  # what is examined may raise anything
        if failed:
            return
        said = _sentence(error, place(error, subject.classes))
        yield f"it fails with {sketches.HEADS} heads of {sketches.WIDTH} channels: {said}"


def _suite(kind: str) -> Suite:
    """The checks of a kind."""
    # This imports torch, which is not needed to report a mistake in the words.
    from posbench.checks import conformance, conformance_of_extensions, conformance_of_tasks

    suites = {
        "encoding": conformance.SUITE,
        "extension": conformance_of_extensions.SUITE,
        "task": conformance_of_tasks.SUITE,
    }
    return suites[kind]


def _answers(
    subject: Any, suite: Suite, written: YamlOfClass
) -> Iterator[tuple[Check, CheckResult, str]]:
    """Each check with its verdict: what has failed, or why it was not asked.

    What fails for a reason that was said before refers to that. A check that rests on one that
    failed is not asked, for it would say the same again, and neither are all after one of the
    first.
    """
    said: dict[str, str] = {}  # reasons, and the check that gave them first
    lost: dict[Check, str] = {}  # what failed, and what rests on that, with why that is not asked
    cause = ""  # the first check that failed, if all others rest on it
    hints = written.constants()
    for check in suite.checks:
        before = next((lost[each] for each in suite.rests_on.get(check, ()) if each in lost), cause)
        if before:
            lost[check] = before
            yield check, CheckResult.UNASKED, before
            continue
        try:
            error = _raised(check, subject)
        except NotAsked as unasked:
            yield check, CheckResult.UNASKED, str(unasked)
            continue
        if error is None:
            yield check, CheckResult.KEPT, ""
            continue
        lost[check] = f"“{_title(check)}” failed"
        where = place(error, subject.classes)
        if TWICE in str(error):
            where = _line_of_kept(check, subject) or where
        sentence = _sentence(error, where)
        by_line = not isinstance(error, PosbenchError) or error.__cause__ is not None
        kind_of = f"{where} {re.sub(r'[0-9]+', '#', str(error))}"  # sizes differ from call to call
        reason = kind_of if by_line and where else sentence
        if reason in said:
            sentence = f"as in “{said[reason]}”"
        elif hints and OF_SIZES.search(str(error)):
            sentence = f"{sentence}. A likely cause: {'; '.join(hints)}"
            hints = []
        yield check, CheckResult.FAILED, sentence
        said.setdefault(reason, _title(check))
        if check in suite.first:
            cause = lost[check]


TWICE = "backward through the graph a second time"
OF_SIZES = re.compile(r"shape|size|multiplied|match|dimension|returns \[|inhomogeneous|expanded")


def _raised(check: Check, subject: Any) -> Exception | None:
    try:
        check(subject)
    except NotAsked:
        raise
    except Exception as error:  # what is examined may raise anything
        return error
    return None


def _line_of_kept(check: Check, subject: Any) -> str:
    """The line that has made what went backward a second time; "" if torch does not know it."""
    import torch

    with warnings.catch_warnings(record=True) as said, torch.autograd.detect_anomaly(False):
        warnings.simplefilter("always")
        _raised(check, subject)
    return last_line_in("\n".join(str(each.message) for each in said))


class CheckResult(Enum):
    """What came of a check."""

    KEPT = "ok"
    FAILED = "FAILED"
    UNASKED = "--"


@dataclass(frozen=True)
class YamlOfClass:
    """What a YAML says of the class that is checked."""

    node: Any  # interpolations unresolved
    file: Path | None  # of the user

    @classmethod
    def of(cls, kind: str, words: list[str]) -> YamlOfClass:
        composed = compose(*words)
        name = composed.choices.get(kind)
        paths = (folder / kind / f"{name}.yaml" for folder in folders.searched())
        return cls(composed.content[kind], next(filter(Path.is_file, paths), None))

    def constants(self) -> list[str]:
        """Sizes that the YAML fixes, and the model of the checks has otherwise."""
        from posbench.running.subject import HEADS, MODEL, WIDTH

        model = {"width": MODEL, "num_heads": HEADS, "head_width": WIDTH}
        return constructors.constants(self.node, model, self.file)

    def notes(self) -> list[str]:
        """Settings of the class that the YAML does not name."""
        where = "its YAML" if self.file is None else shown(self.file)
        return [
            f"{each.name} is a setting of {each.cls} that {where} does not name: write "
            f"{each.name}: {in_sentence(each.value)} there, so that commands can set it and pages "
            "show it"
            for each in constructors.unnamed(self.node, class_of_run)
        ]


def _title(check: Check) -> str:
    return check.__name__.replace("_", " ")


def _sentence(error: Exception, where: str) -> str:
    if isinstance(error, PosbenchError):
        text = " ".join(str(error).split())
        return f"{text} ({where})" if where else text
    if TWICE in str(error):
        return (
            f"what {where} makes is kept from an earlier call, as in a cache, and goes backward a "
            "second time: compute what depends on parameters in every call, and keep constants "
            "alone"
        )
    said = told(error, f" in {where or 'posbench'}")
    if isinstance(error, RuntimeError) and "dtype" in said:
        said += " (queries may be bfloat16 where parameters are float32: cast with .to(a.q.dtype))"
    return said
