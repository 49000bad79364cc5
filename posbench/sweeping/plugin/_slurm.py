"""A launcher for Slurm that waits for all of its jobs. It needs hydra-submitit-launcher."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from dataclasses import fields
from typing import Any

from hydra.core.singleton import Singleton
from hydra_plugins.hydra_submitit_launcher.config import BaseQueueConf
from hydra_plugins.hydra_submitit_launcher.submitit_launcher import SlurmLauncher


class Patient(SlurmLauncher):
    """Submits an array of jobs and returns when the last of them is over.

    The plugin's own raises when it comes to a job that has failed, while others still run or are
    queued: whoever then launches what is missing submits those again. Ctrl-C cancels the jobs.
    """

    def launch(self, job_overrides: Sequence[Sequence[str]], initial_job_idx: int) -> Sequence[Any]:
        """Nothing, after the last job; the first of their errors if there is one."""
        jobs = self._submitted(job_overrides, initial_job_idx)
        try:
            errors = [job.exception() for job in jobs]
        except BaseException:
            arrays = {job.job_id.partition("_")[0] for job in jobs}
            subprocess.run(["scancel", *sorted(arrays)], check=False)
            raise
        if found := [error for error in errors if error is not None]:
            raise found[0]
        return []

    def _submitted(self, job_overrides: Sequence[Sequence[str]], first: int) -> list[Any]:
        import submitit

        own = {field.name for field in fields(BaseQueueConf)}
        given = {key if key in own else f"slurm_{key}": value for key, value in self.params.items()}
        executor = submitit.AutoExecutor(
            given.pop("submitit_folder"),
            cluster="slurm",
            slurm_max_num_timeout=given.pop("slurm_max_num_timeout"),
        )
        executor.update_parameters(**given)
        state = Singleton.get_state()
        arguments = [
            (list(words), "hydra.sweep.dir", first + index, f"job_id_for_{first + index}", state)
            for index, words in enumerate(job_overrides)
        ]
        return executor.map_array(self, *zip(*arguments, strict=True))
