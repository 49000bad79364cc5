"""`posbench KEY=VALUE ...`: one run or a sweep, as an application of Hydra.

An importable module, so that launchers can pickle its function by name. torch and lightning are
imported when a run begins: help and mistakes in the configuration answer without them.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
import traceback
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NoReturn

import hydra
from hydra.core.hydra_config import HydraConfig
from hydra.types import RunMode
from omegaconf import DictConfig, OmegaConf

from posbench.base.errors import ConfigError, PosbenchError
from posbench.base.wording import closest, complaint
from posbench.config import blame, folders, mistakes, streams
from posbench.config.compose import Composition, register
from posbench.config.composition_rules import refuse_several
from posbench.config.exit_status import exit_status
from posbench.config.hydra_inside import get_args_parser
from posbench.config.hydra_search import SearchPath
from posbench.config.options import BROKEN, HELP
from posbench.config.provenance import versions

SHOWN = ("posbench", "torch", "hydra-core", "python")
"""What `--version` names."""
KEYS = ("seed", "results_dir", "zoo", "force", "plan_only", "part", "audit")
"""Settings that are in no section, as somebody may write them for options."""


FOLDER = ("--config-dir", "-cd")
"""Options of Hydra's that name a folder of the user."""


GOES_ON = "the same command goes on from here"


class Ended(BaseException):
    """What has ended a run is its cause; no `Exception`, of which Hydra would speak first."""


@hydra.main(version_base="1.3", config_path="pkg://posbench.conf", config_name="config")
def application(cfg: DictConfig) -> None:
    """One run; in a sweep, one of its runs."""
    register()  # again: a launcher's worker process has not been through `main`
    streams.prepare()
    settings = HydraConfig.get()
    folders.make_importable(folders.given(settings.runtime.config_sources))
    try:
        composed = Composition.of(cfg, settings.runtime.choices)
        if composed.content.get("board") is not None:
            name = settings.runtime.choices["board"]
            raise PosbenchError(f"board={name} is a sweep: write posbench sweep board={name}")
        carry_out(composed)
    except BROKEN as error:  # here, because Hydra would say that a job has failed
        # As they are written: to read one may be what has failed.
        words: Any = OmegaConf.to_container(settings.overrides.task, resolve=False)
        _say(mistakes.sentence(error, words))
        sys.exit(1)
    except Exception as error:
        if settings.mode == RunMode.MULTIRUN:  # the launcher tells the sweep
            raise
        raise Ended from error


def carry_out(composed: Composition) -> None:
    """One run, or the job of a sweep."""
    from posbench.config.building import OF_A_RUN, build, check_source
    from posbench.core.settings import checked
    from posbench.running.make import make
    from posbench.running.run_spec import RunSpec
    from posbench.sweeping.requests import OF_A_BOARD
    from posbench.sweeping.working import work

    match composed.content["job"]:
        case {"sweep": str(sweep), "runs": [*runs]}:
            if runs:
                work(runs, sweep)
                return
        case job:
            raise ConfigError(f"job is filled in by a sweep, got {job!r}: leave it out")
    # In the order of their cost: wrong settings are refused before torch is imported.
    cfg = composed.cfg()
    if checked(cfg).plan_only:
        raise PosbenchError("plan_only=true is for sweeps: begin with posbench sweep")
    if part := checked(cfg).part:
        raise PosbenchError(OF_A_BOARD.format(part=part))
    check_source(*(composed.content[group] for group in OF_A_RUN))
    spec = RunSpec.of(composed)
    task: Any = OmegaConf.to_container(spec.composed.cfg().task, resolve=True)
    build(task, "task")
    make(spec)


def main() -> int:
    """The entry point: mistakes become one sentence and exit status 1."""

    def asked() -> int:
        register()
        given = _arguments(sys.argv[1:])
        if given.config_dir == "":
            raise ConfigError(
                "--config-dir is empty: name the folder of your own files, or omit it"
            )
        own = [Path(given.config_dir)] if given.config_dir else []
        return exit_status(lambda: _begun(given, own), given.overrides, own, GOES_ON)

    return exit_status(asked, left=GOES_ON)


def _begun(given: argparse.Namespace, own: Sequence[Path]) -> int:
    """Let Hydra begin the application; the exit status."""
    for folder in own:
        folders.check(folder)
    SearchPath.chosen = tuple(own)
    mistakes.check(given.overrides, own)
    if not given.multirun:
        refuse_several(given.overrides)
    try:
        with _hydra_raising():
            application()
    except BrokenPipeError:
        if given.help or given.hydra_help or given.cfg or given.info:
            raise  # nothing was at work
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # where the rest may go
        _say(f"stopped: nobody reads its output any more; {GOES_ON}.")
        return 128 + signal.SIGPIPE
    except ValueError as error:
        # Hydra raises these for a defaults list that cannot be, such as one that chooses null.
        where = Path(traceback.extract_tb(error.__traceback__)[-1].filename).parts
        if isinstance(error, PosbenchError) or "hydra" not in where:
            raise
        said = " ".join(str(error).split())
        raise ConfigError(f"the command line cannot be composed: {said}") from None
    return 0


@contextmanager
def _hydra_raising() -> Iterator[None]:
    """Within the block Hydra raises errors; it would print them, on several lines."""
    before = os.environ.get(blame.FULL_ERROR)
    os.environ[blame.FULL_ERROR] = "1"
    try:
        yield
    except Ended as ended:
        cause = ended.__cause__
        assert cause is not None
        raise cause from cause.__cause__
    finally:
        if before is None:
            del os.environ[blame.FULL_ERROR]
        else:
            os.environ[blame.FULL_ERROR] = before


def _arguments(written: Sequence[str]) -> argparse.Namespace:
    """The options and words of the command line, wherever they are among each other; ConfigError
    for an option that there is not. `sys.argv` then has the options first, as Hydra reads them.
    """
    if "--version" in written:
        print(", ".join(f"{name} {number}" for name, number in versions().items() if name in SHOWN))
        sys.exit(0)
    parser = get_args_parser()
    parser.error = _refuse  # type: ignore[method-assign]
    # An option may not be shortened: --m could be one of several, and so could --conf.
    parser.allow_abbrev = False
    given, unknown = parser.parse_known_intermixed_args(list(written))
    if unknown:
        raise ConfigError(_meant(unknown[0], written))
    if (several := sum(each.partition("=")[0] in FOLDER for each in written)) > 1:
        raise ConfigError(
            f"{several} folders are given with --config-dir, and a run reads one: put your files "
            "into one folder"
        )
    words = list(given.overrides)
    options = [each for each in written if each not in words]
    sys.argv[1:] = [*_without_folder(options), *words]
    return given


def _without_folder(options: Sequence[str]) -> list[str]:
    """The options without --config-dir, of which `SearchPath` tells Hydra: it would read the files
    there without asking what they set.
    """
    found, is_folder = list[str](), False
    for each in options:
        if not is_folder and each.partition("=")[0] not in FOLDER:
            found.append(each)
        is_folder = each in FOLDER
    return found


def _refuse(message: str) -> NoReturn:
    raise ConfigError(f"{message}: `{HELP}` shows how a command is written")


def _meant(option: str, written: Sequence[str]) -> str:
    """About an option that there is not: the word that says the same, if there is one."""
    name, _, value = option.lstrip("-").partition("=")
    after = list(written)[list(written).index(option) + 1 :]
    if not value and after and "=" not in after[0] and not after[0].startswith("-"):
        value = after[0]
    key = closest(name, [*folders.GROUPS, *KEYS]) if "." not in name else name
    if key is None:
        return f"{option} is no option: `{HELP}` shows how a command is written"
    return f"{option} is no option: write {key}={value or 'VALUE'}"


def _say(sentence: str) -> None:
    print(complaint(sentence), file=sys.stderr, flush=True)
