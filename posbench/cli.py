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
from hydra.core.hydra_config import HydraConfig
from hydra.errors import HydraException
from hydra.types import RunMode
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from posbench.composing import resolvers
from posbench.composing.compose import sentence
from posbench.errors import IllegalExtension, PosbenchError, Terminated

FULL_ERROR = "HYDRA_FULL_ERROR"


@hydra.main(version_base="1.3", config_path="pkg://posbench.conf", config_name="config")
def application(cfg: DictConfig) -> None:
    """One run; in a sweep, one of its runs."""
    resolvers.register()  # again: a launcher's worker process has not been through `main`
    settings = HydraConfig.get()
    for source in settings.runtime.config_sources:
        # An encoding of one's own may stand beside its YAML, in the folder given with --config-dir.
        if source.provider == "command-line" and source.path not in sys.path:
            sys.path.insert(0, source.path)
    try:
        _run(cfg, dict(settings.runtime.choices))
    except PosbenchError as error:
        if settings.mode == RunMode.MULTIRUN:
            _say(f"{' '.join(settings.overrides.task)}: {error}")
            raise  # Hydra notes the failure and goes on with the next run
        _say(str(error))
        sys.exit(1)
    except Terminated as stopped:
        _say(
            f"stopped by {signal.Signals(stopped.args[0]).name}; the same command goes on from "
            "here."
        )
        sys.exit(128 + stopped.args[0])


def _run(cfg: DictConfig, choices: dict[str, str]) -> None:
    from posbench.composing.building import build
    from posbench.composing.identity import identify
    from posbench.config import checked

    # In the order of their cost: what is wrong with the settings is said before torch is imported.
    checked(cfg)
    identity = identify(cfg, choices)
    task = build(OmegaConf.to_container(cfg.task, resolve=True), "task")  # type: ignore[arg-type]

    from posbench.composing.legality import legal_encodings
    from posbench.running.run import run

    try:
        run(cfg, identity, task)
    except IllegalExtension as error:
        legal = ", ".join(legal_encodings(cfg.extension)) or "no encoding"
        raise IllegalExtension(
            f"extension {identity.method.extension} cannot extend encoding "
            f"{identity.method.encoding}: {error}; it can extend {legal}"
        ) from None


def main() -> None:
    """The entry point: mistakes become one sentence and exit status 1."""
    resolvers.register()
    verbose = os.environ.get(FULL_ERROR) == "1"
    os.environ[FULL_ERROR] = "1"  # otherwise Hydra prints its errors itself, over several lines
    try:
        application()
    except PosbenchError:
        if verbose:
            raise
        sys.exit(1)  # said when it happened
    except (HydraException, OmegaConfBaseException) as error:
        if verbose:
            raise
        _say(sentence(error))
        sys.exit(1)
    except ValueError as error:
        # Hydra raises these for a defaults list that cannot be: `encoding=null`, an override
        # without a key.
        if (
            verbose
            or "hydra" not in Path(traceback.extract_tb(error.__traceback__)[-1].filename).parts
        ):
            raise
        _say(f"the command line cannot be composed: {' '.join(str(error).split())}")
        sys.exit(1)
    except KeyboardInterrupt:
        _say("stopped; the same command goes on from here.")
        sys.exit(128 + signal.SIGINT)


def _say(sentence: str) -> None:
    print(f"posbench: {sentence}", file=sys.stderr, flush=True)
