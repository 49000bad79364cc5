"""`python -m posbench`: the Hydra application.

An importable module, so that launchers can pickle its function by name. torch and lightning are
imported when a run begins: help and mistakes in the configuration answer without them.
"""

from __future__ import annotations

import os
import signal
import sys
import traceback
from pathlib import Path

import hydra
from hydra._internal.utils import get_args_parser
from hydra.core.hydra_config import HydraConfig
from omegaconf import DictConfig, OmegaConf

from posbench.composing import blame, folders, mistakes
from posbench.composing.compose import Composition, register
from posbench.composing.options import BROKEN
from posbench.composing.shadow import refuse_shadow
from posbench.errors import PosbenchError, Terminated


class OfOwnCode(BaseException):
    """What a class of one's own has raised; no `Exception`, of which Hydra would speak first."""


@hydra.main(version_base="1.3", config_path="pkg://posbench.conf", config_name="config")
def application(cfg: DictConfig) -> None:
    """One run; in a sweep, one of its runs."""
    register()  # again: a launcher's worker process has not been through `main`
    settings = HydraConfig.get()
    folders.make_importable(folders.given(settings.runtime.config_sources))
    composed = Composition.of(cfg, settings.runtime.choices)
    try:
        if composed.content.get("board") is not None:
            name = settings.runtime.choices["board"]
            raise PosbenchError(f"board={name} names many runs: add -m to make them")
        _run(composed)
    except BROKEN as error:  # here, because Hydra would say that a job has failed
        _say(mistakes.sentence(error, list(settings.overrides.task)))
        sys.exit(1)
    except Terminated as stopped:
        _say(
            f"stopped by {signal.Signals(stopped.args[0]).name}; the same command goes on from "
            "here."
        )
        sys.exit(128 + stopped.args[0])


def _run(composed: Composition) -> None:
    """One run, or the job of a sweep."""
    from posbench.composing.building import build, check_source
    from posbench.config import checked
    from posbench.running.making import make
    from posbench.running.run_spec import RunSpec
    from posbench.sweeping.requests import OF_A_BOARD
    from posbench.sweeping.working import work

    if job := composed.content["job"]["runs"]:
        work(job, composed.content["job"]["sweep"])
        return
    # In the order of their cost: what is wrong with the settings is said before torch is imported.
    cfg = composed.cfg()
    if checked(cfg).plan_only:
        raise PosbenchError("plan_only=true is for sweeps: add -m")
    if part := checked(cfg).part:
        raise PosbenchError(OF_A_BOARD.format(part=part))
    check_source(*(composed.content[group] for group in ("encoding", "extension", "task")))
    spec = RunSpec.of(composed)
    try:
        build(OmegaConf.to_container(cfg.task, resolve=True), "task")  # type: ignore[arg-type]
        make(spec)
    except BROKEN:
        raise
    except (Exception, SystemExit) as error:
        if said := blame.of_own_code(error):
            raise OfOwnCode(said) from error
        raise


def main() -> None:
    """The entry point: mistakes become one sentence and exit status 1."""
    register()
    verbose = os.environ.get(blame.FULL_ERROR) == "1"
    os.environ[blame.FULL_ERROR] = "1"  # otherwise Hydra prints its errors itself, on several lines
    given = get_args_parser().parse_args()  # as `application` will read it
    own = [Path(given.config_dir)] if given.config_dir else []
    try:
        refuse_shadow()
        for folder in own:
            folders.check(folder)
        mistakes.check(given.overrides, own)
        application()
    except BROKEN as error:
        if verbose:
            raise
        _say(mistakes.sentence(error, given.overrides, own))
        sys.exit(1)
    except ValueError as error:
        # Hydra raises these for a defaults list that cannot be, such as one that chooses null.
        where = Path(traceback.extract_tb(error.__traceback__)[-1].filename).parts
        if verbose or "hydra" not in where:
            raise
        _say(f"the command line cannot be composed: {' '.join(str(error).split())}")
        sys.exit(1)
    except OfOwnCode as error:
        if verbose:
            raise
        _say(f"{error} ({blame.HOW})")
        sys.exit(1)
    except KeyboardInterrupt:
        _say("stopped; the same command goes on from here.")
        sys.exit(128 + signal.SIGINT)


def _say(sentence: str) -> None:
    print(f"posbench: {sentence}", file=sys.stderr, flush=True)
