"""The commands as functions: what `import posbench` offers beside encodings and extensions.

    posbench.list_encodings()                                    what there is, as a data frame
    posbench.run("method=rope_yarn", "task=passkey")             one run: its table
    posbench.run(method=["rope", "alibi"], task="copy", seed=range(3), training={"steps": 500})
    posbench.check(MyEncoding)                                   a frame of promises
    posbench.compare("mine/encoding/decay.yaml", quick=True)     its place among published rows

Words are those of the command line. A keyword is the same: `seed=1` for "seed=1", and
`training={"steps": 500}` for "training.steps=500". A list or range means several runs, as a
comma does on the command line, and a tuple for one value that is a list. So names, hashes and
records are those that the command line gives.
"""

from __future__ import annotations

import contextlib
import inspect
import io
import re
import sys
import tempfile
import warnings
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd
from hydra.plugins.launcher import Launcher
from hydra.types import HydraContext, TaskFunction
from omegaconf import DictConfig

from posbench.application import carry_out
from posbench.base.errors import ConfigError, PosbenchError, Terminated
from posbench.config import blame, mistakes
from posbench.config.building import OF_A_RUN
from posbench.config.compose import compose, hydra_of_its_own
from posbench.config.exit_status import of_the_system
from posbench.config.folders import importable
from posbench.config.modules import imported_anew
from posbench.config.options import BROKEN
from posbench.config.own_class import OwnClass, plain
from posbench.config.provenance import known_hash
from posbench.config.words import MOST, Word, quoted, readable
from posbench.records import tables
from posbench.running.run_spec import RunSpec
from posbench.sweeping.requests import Request, request
from posbench.sweeping.working import work

__all__ = ["check", "compare", "list_encodings", "list_extensions", "list_tasks", "run"]

OF_MAKING = ("force", "plan_only", "audit")
DEEPEST = 8
"""Sections within sections: no setting is further in."""
"""Settings that ask for something to be made, and not for another record."""


# -- what there is ---------------------------------------------------------------------------------


def list_encodings() -> pd.DataFrame:
    """Every encoding by its name, with what it is, its formula, its source, how its attention is
    computed, whether keys can be cached, and the method that runs it.
    """
    return _listed("encoding").drop(columns=["needs", "served_by"])


def list_extensions() -> pd.DataFrame:
    """Every extension by its name: as `list_encodings`, with what it needs of an encoding and who
    serves it.
    """
    return _listed("extension")


def list_tasks() -> pd.DataFrame:
    """Every task by its name, with its family, what it asks and where it comes from."""
    return _listed("task")[["family", "what", "source"]]


def _listed(group: str) -> pd.DataFrame:
    from posbench.conf.detailed import lines

    return pd.DataFrame(lines(group)).set_index("name")


# -- runs ------------------------------------------------------------------------------------------


def run(
    *words: str, config_dir: str | Path | None = None, progress: bool = True, **settings: Any
) -> pd.DataFrame:
    """Make one run or many, unless they are complete; the records as a frame.

    Args:
        words: of the command line, as "method=rope_yarn"
        config_dir: a folder of the user like conf/
        progress: whether to print what the command prints
        settings: the same as words, see the head of this module

    Returns:
        a line for each run and test length, as `posbench.load` has it. A run that fails among
        several stops no other, and a warning counts those that did.

    Raises:
        PosbenchError: one sentence, where nothing can be run
    """
    with _sentences([], []):
        own = _folders(config_dir)
        given = [*map(_word, words), *written(settings)]
    with _sentences(given, own), _quiet(progress), _as_written(_classes_in(own)):
        if launched := next((word for word in given if word.startswith("hydra")), None):
            raise ConfigError(
                f"{launched} is for the command line, as Python makes runs one after the other: "
                "leave it out, or use `posbench sweep`"
            )
        mistakes.check(given, own)
        with hydra_of_its_own(*own):
            asked = request(given, own)
            several = len(asked.runs) > 1 or asked.board is not None
            read = map(Word.of, given)
            plan_only = any(w.key == "plan_only" and w.override.value() is True for w in read)
            if several or plan_only:
                return _sweep(asked, plan_only=plan_only)
            composed = compose(*asked.runs[0])
            from posbench.core.settings import checked  # and with it torch

            checked(composed.cfg())
            spec = RunSpec.of(composed)
            carry_out(composed)
            return tables.table([_record(spec)])


def _sweep(asked: Request, *, plan_only: bool) -> pd.DataFrame:
    """The runs of a request; with `plan_only` those that are complete."""
    from posbench.sweeping.plan import plan
    from posbench.sweeping.sweep import Failed, Sweep

    folder = compose(*asked.runs[0]).content["results_dir"]
    failed: Failed | None = None
    try:
        sweep = Sweep(asked, folder, InThisProcess(), leaderboard=False)
        sweep.make(plan_only)
    except Failed as error:
        failed = error
    left = [
        tuple(word for word in words if Word.of(word).key not in OF_MAKING) for words in asked.runs
    ]
    planned = plan(Request(left))
    complete = planned.complete
    for reason, rows in planned.refused.items() if asked.board is None else ():
        for row, on in rows.items():
            warnings.warn(f"{row} is not tested on {', '.join(on)}: {reason}", stacklevel=4)
    if failed is not None:
        if not complete:
            raise failed
        warnings.warn(f"{failed}; the table has all that was recorded", stacklevel=4)
    return tables.table([_record(each.spec) for each in complete])


def _record(spec: RunSpec) -> Any:
    record = RunSpec.of(spec.composed.but(force=False)).record()
    if record is None:
        raise PosbenchError(f"{spec.title} has left no record at {spec.path}: see what it said")
    return record


class InThisProcess(Launcher):
    """Makes the jobs of a sweep one after the other, where it is called."""

    def setup(
        self, *, hydra_context: HydraContext, task_function: TaskFunction, config: DictConfig
    ) -> None:
        """Nothing: it is no part of an application."""

    def launch(self, job_overrides: Sequence[Sequence[str]], initial_job_idx: int) -> Sequence[Any]:
        for words in job_overrides:
            job = compose(*words).content["job"]
            work(job["runs"], job["sweep"])
        return []


# -- a class of the user ---------------------------------------------------------------------------


def check(subject: type | str | Path, *words: str, **settings: Any) -> pd.DataFrame:
    """Whether an encoding, an extension or a task keeps its promises.

    Args:
        subject: a class of a file of yours, the path of its YAML, or a word as "encoding=rope"
        words: further ones of the command line
        settings: of the class

    Returns:
        a line a promise: "ok", "FAILED" or "--" for one that was not asked, and why. Its `attrs`
        have the "notes": how scores change with the distance, and which rows look the same
    """
    from posbench.checks import command

    with contextlib.ExitStack() as stack:
        stack.enter_context(_sentences([], []))
        _refuse_object(subject, "check")
        own: list[Path] = []
        if isinstance(subject, type):
            found = OwnClass(subject)
            stack.enter_context(importable([found.folder]))
            stack.enter_context(_as_written([subject.__module__]))
            found = found.loaded_again()
            folder = found.folder_with_yaml()
            if folder is None or settings:
                folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
                found.write(folder, settings)
            own, given = [folder], [found.word_in(folder), *words]
        else:
            given, own = [str(subject), *map(_word, words)], []
            given += [f"{_group_of(given[0])}.{word}" for word in written(settings)]
            stack.enter_context(_as_written(_classes_in(_folders_around(subject))))
        stack.enter_context(_sentences(given, own))
        stack.enter_context(_quiet(progress=True))
        given, own = command.choices(given, own, stack)
        mistakes.check(given, own)
        stack.enter_context(hydra_of_its_own(*own))
        answers, notes = command.promises(given)
        table = pd.DataFrame(answers, columns=["promise", "verdict", "why"])
    table.attrs = {"notes": notes}
    return table.set_index("promise")


def compare(
    subject: type | str | Path,
    *words: str,
    quick: bool = False,
    whole: bool = False,
    board: str | None = None,
    than: str | None = None,
    against: str | Path | None = None,
    train: bool = True,
    **settings: Any,
) -> pd.DataFrame:
    """The place of a method among published rows, as `posbench compare` says it.

    Args:
        subject: a class of a file of yours, the path of its YAML, or a word as "method=rope"
        words: further ones of the command line
        quick: three tasks and one seed
        whole: every task of the board
        board: whose tasks and seeds; by default that of the command
        than: the one row that yours was made to improve on; see `attrs["sentences"]`
        against: a folder of records, for the published ones
        train: make the runs that are missing
        settings: the same as words; one that the class takes is of the class

    Returns:
        a line a row, best first, with the columns of
        `posbench.boards.compare.of_row.RowStanding.frame`; of a task, those of
        `posbench.boards.compare.of_task.TaskStanding`. Its `attrs` have the "sentences" and the
        "notes".

    Raises:
        PosbenchError: where there is nothing to compare
    """
    from posbench.boards.compare.command import compared

    with _sentences([], []):
        _refuse_object(subject, "compare")
        for name, flag in ("quick", quick), ("whole", whole), ("train", train):
            _refuse_other(name, flag, bool, "True or False")
        _refuse_other("board", board, str | None, 'the name of a board, as "encodings"')
        _refuse_other("than", than, str | None, 'the name of a row, as "rope"')
        _refuse_other("against", against, str | Path | None, "a folder of records")
        more = [*map(_word, words), *written(settings)]
        if isinstance(subject, type):
            found = OwnClass(subject)
            with importable([found.folder]), _as_written([subject.__module__]):
                found = found.loaded_again()
                mine = inspect.signature(found.cls).parameters
                if found.folder_with_yaml() is None:
                    print(f"Written: {found.write(found.folder, {})}")
            more = [
                f"{found.group}.{word}"
                if word.partition("=")[0].partition(".")[0] in mine
                else word
                for word in more
            ]
            subject = found.folder / found.group / f"{found.name_in(found.folder)}.yaml"
    given = [str(subject), *more]
    options = [*["--quick"] * quick, *["--whole"] * whole, *["--no-training"] * (not train)]
    options += ["--board", board] if board is not None else []
    options += ["--than", than] if than is not None else []
    options += ["--against", str(against)] if against is not None else []
    classes = _classes_in(_folders_around(subject))
    with _sentences(given, []), _quiet(progress=True), _as_written(classes):
        return compared([*given, *options])


def _group_of(word: str) -> str:
    group = word.partition("=")[0] if "=" in word else Path(word).resolve().parent.name
    return group if group in OF_A_RUN else "encoding"


# -- from Python to words, and from errors to sentences --------------------------------------------


def written(settings: Mapping[str, Any], prefix: str = "") -> Iterator[str]:
    """Keywords as words of the command line."""
    if prefix.count(".") > DEEPEST:
        raise ConfigError(
            f"{prefix.partition('.')[0]} is nested more than {DEEPEST} deep, or holds itself: give "
            "settings as section=dict(name=value)"
        )
    for key, value in settings.items():
        value = plain(value)
        if isinstance(value, Mapping):
            if not value:
                raise ConfigError(
                    f"{prefix}{key} is an empty mapping: give it a setting, or leave it out"
                )
            yield from written(value, f"{prefix}{key}.")
        elif isinstance(value, list | range | set):
            if not len(value):
                raise ConfigError(
                    f"{prefix}{key} is an empty list: give it a value, or leave it out"
                )
            if len(value) > MOST:
                raise ConfigError(
                    f"{prefix}{key} has {len(value):,} values, and a word may have {MOST:,}: name "
                    "fewer"
                )
            yield f"{prefix}{key}={','.join(map(_value, value))}"
        else:
            yield f"{prefix}{key}={_value(value)}"


def _value(value: Any) -> str:
    value = plain(value)
    if isinstance(value, tuple):
        return f"[{','.join(map(_value, value))}]"
    if value is None or isinstance(value, bool):
        return "null" if value is None else f"{value}".lower()
    if not isinstance(value, str | int | float | Path):
        what = getattr(value, "__name__", type(value).__name__)
        raise ConfigError(
            f"{what} is an object, and settings are names and numbers: give its name as a text, as "
            'method="rope"; a class of yours goes to posbench.check and posbench.compare'
        )
    _refuse_nul(str(value))
    return quoted(str(value)) if isinstance(value, Path) else readable(str(value))


def _refuse_nul(text: str) -> None:
    if "\0" in text:
        raise ConfigError(f"{text!r} has the character NUL, which no name has: take it out")


def _word(word: Any) -> str:
    if isinstance(word, str):
        _refuse_nul(word)
    else:
        raise ConfigError(
            f"words are texts, got {word!r}: give each as one, as in "
            'posbench.run("method=rope", "task=copy")'
        )
    return word


def _refuse_object(subject: Any, name: str) -> None:
    """ConfigError for what is neither a class, a path nor a word."""
    if isinstance(subject, pd.DataFrame):
        raise ConfigError(
            f"posbench.{name} takes a class of yours, the path of a YAML or a word, got a table: "
            "posbench.difference(table, a, b) compares two of its rows"
        )
    if not isinstance(subject, type | str | Path):
        what = getattr(subject, "__name__", type(subject).__name__)
        raise ConfigError(
            f"posbench.{name} takes a class of yours, the path of a YAML or a word such as "
            f'"encoding=rope", got {what}: give the class itself, or the name as a word'
        )
    if not isinstance(subject, type):
        _refuse_nul(str(subject))


def _refuse_other(name: str, value: Any, kind: Any, what: str) -> None:
    """ConfigError for an argument of another kind, or an empty text."""
    if not isinstance(value, kind) or value == "":
        raise ConfigError(f"{name} is {what}, got {value!r}: give that, or leave it out")


@contextlib.contextmanager
def _as_written(modules: Sequence[str]) -> Iterator[None]:
    """Within, modules of the user are what their files say, and so are hashes of their source."""
    with imported_anew(modules):
        if modules:
            known_hash.cache_clear()
        yield


def _classes_in(folders: Sequence[Path]) -> list[str]:
    """The modules of the classes that YAMLs in folders like conf/ name."""
    texts = (
        path.read_text("utf-8", errors="replace")
        for folder in folders
        for path in folder.glob("*/*.yaml")
    )
    return re.findall(r"_target_:\s*[\"']?([\w.]+)\.\w", "\n".join(texts))


def _folders_around(subject: Any) -> list[Path]:
    """Where a class that a YAML names may be: beside it, and beside the folder of its group."""
    path = Path(str(subject)).resolve()
    return [path.parent, path.parents[1]] if path.is_file() else []


def _folders(config_dir: str | Path | None) -> list[Path]:
    _refuse_other("config_dir", config_dir, str | Path | None, "a folder like conf/")
    return [] if config_dir is None else [Path(config_dir)]


@contextlib.contextmanager
def _sentences(words: Sequence[str], own: Sequence[Path]) -> Iterator[None]:
    """Whatever the user can put right is raised as one sentence, which a notebook shows alone."""
    blame.forget()  # an earlier call
    try:
        yield
    except BROKEN as error:
        raise _told(mistakes.sentence(error, words, own), error) from None
    except (OSError, MemoryError) as error:
        raise _told(of_the_system(error), error) from None
    except (Exception, SystemExit) as error:
        if (said := blame.of_own_code(error)) is None:
            raise
        raise _told(said, error) from error
    except Terminated:
        raise KeyboardInterrupt from None


IN_PYTHON = {
    "--no-training": "train=False",
    "--quick": "quick=True",
    "--whole": "whole=True",
    "--config-dir FOLDER": "config_dir=FOLDER",
    "--config-dir": "config_dir=",
    "--against": "against=",
    "--than ": "than=",
    "--board ": "board=",
}
"""Options of commands, as arguments of the functions."""


def _told(sentence: str, error: BaseException) -> PosbenchError:
    for option, argument in IN_PYTHON.items():
        sentence = sentence.replace(option, argument)
    if isinstance(error, PosbenchError) and str(error) == sentence:
        return error
    return PosbenchError(sentence)


@contextlib.contextmanager
def _quiet(progress: bool) -> Iterator[None]:
    """Without what a run changes for its process: filters of warnings and the number of threads."""
    before = sys.modules["torch"].get_num_threads() if "torch" in sys.modules else None
    shown = contextlib.nullcontext() if progress else contextlib.redirect_stdout(io.StringIO())
    try:
        with warnings.catch_warnings(), shown:
            yield
    finally:
        if before is not None:
            sys.modules["torch"].set_num_threads(before)
