"""The sweeper that Hydra calls with -m: any launcher then runs the jobs of a plan.

Hydra takes plugins from packages below hydra_plugins alone, so pyproject.toml installs this folder
as hydra_plugins.posbench_sweeper. Every Hydra application on the machine imports it: what it needs
is imported where it is used.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from hydra.core.plugins import Plugins
from hydra.plugins.sweeper import Sweeper
from hydra.types import HydraContext, TaskFunction
from omegaconf import DictConfig


class PosbenchSweeper(Sweeper):
    """Plans all runs that the command line asks for, and has a launcher make what is missing. At
    its end it says how to see them, unless whoever called it does that: `leaderboard`.
    """

    def __init__(self, leaderboard: bool = True) -> None:
        self.leaderboard = leaderboard

    def setup(
        self, *, hydra_context: HydraContext, task_function: TaskFunction, config: DictConfig
    ) -> None:
        register_launchers()
        self.master = config
        self.made_by = Plugins.instance().instantiate_launcher(
            hydra_context=hydra_context, task_function=task_function, config=config
        )

    def sweep(self, arguments: list[str]) -> Any:
        """Make the runs; PosbenchError if some of them failed."""
        from posbench.config import folders, resolvers
        from posbench.sweeping.requests import request
        from posbench.sweeping.sweep import Sweep

        resolvers.guard()
        own = folders.given(self.master.hydra.runtime.config_sources)
        folders.make_importable(own)  # the plan builds what a job builds
        asked = request(arguments, own)
        sweep = Sweep(asked, self.master.results_dir, self.made_by, leaderboard=self.leaderboard)
        sweep.make(self.master.plan_only)


def register_launchers() -> None:
    """Register the launchers of posbench for which what they build on is installed."""
    with suppress(ImportError):
        from hydra_plugins.posbench_sweeper._slurm import Patient

        Plugins.instance().register(Patient)
