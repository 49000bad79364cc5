"""Trackio, imported only where it is chosen; needs posbench[trackio]."""

from __future__ import annotations

import contextlib
import io
import os
import shlex
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pandas as pd
from lightning.pytorch.loggers.logger import Logger

from posbench.base.errors import ConfigError
from posbench.records.record import Record
from posbench.running.loggers import metrics
from posbench.running.loggers.metrics import About
from posbench.showing.figures import depth_map_pixels


class Trackio(Logger):
    """A data base in `folder`: `TRACKIO_DIR=results/local/logs/trackio trackio show`.

    The step of a test is its length. `space_id` sends the run to a Space as well, for which
    Trackio needs a network. Where something else has imported Trackio before, its data base stays
    where it was.
    """

    def __init__(
        self,
        folder: str,
        project: str = "posbench",
        space_id: str | None = None,
        name: str = "",
        save_dir: str = "",
    ) -> None:
        self.folder = Path(folder).resolve()
        os.environ["TRACKIO_DIR"] = str(self.folder)  # it reads that when imported
        try:
            import trackio
        except ImportError:
            raise ConfigError(
                "logger=trackio needs a library: pip install 'posbench[trackio]'"
            ) from None
        self.library, self.project, self.space_id = trackio, project, space_id
        self.about: About
        self.run: Any = None
        self.title = name

    @property
    def name(self) -> str:
        return self.project

    @property
    def version(self) -> str:
        return self.title

    @property
    def kept(self) -> str:
        return f"Run: TRACKIO_DIR={shlex.quote(str(self.folder))} trackio show"

    def begin(self, about: About, say: Callable[[str], None]) -> None:
        """Note what the run is called; Trackio opens it with its settings."""
        self.about = about

    def log_hyperparams(self, params: Any, *_: Any, **__: Any) -> None:
        """Open the run."""
        about = self.about
        with contextlib.redirect_stdout(io.StringIO()):  # a banner
            self.run = self.library.init(
                project=self.project,
                name=about.title,
                group=about.group,
                space_id=self.space_id,
                config=dict(params) | {"job_type": about.job_type, "tags": list(about.tags)},
                embed=False,
                auto_log_gpu=False,  # of the machine it is told nothing
                auto_log_cpu=False,
            )

    def log_metrics(self, metrics: Mapping[str, float], step: int | None = None) -> None:
        """A point of the training's curve, or of a test."""
        self.run.log(dict(metrics), step=step)

    def log_record(self, record: Record) -> None:
        """The tests by length; then all cells as a table, the depth map and the summary."""
        for length, values in metrics.tests(record):
            self.log_metrics(values, step=length)
        columns, data = metrics.cells(record)
        last: dict[str, Any] = {
            metrics.summarised(name): value for name, value in metrics.numbers(record).items()
        }
        last[metrics.CELLS] = self.library.Table(dataframe=pd.DataFrame(data, columns=columns))
        if (picture := depth_map_pixels(record.rows, record.views)) is not None:
            last[metrics.DEPTH_MAP] = self.library.Image(picture, caption=record.method.label)
        self.run.log(last)

    def close(self) -> None:
        """Write what is left."""
        if self.run is not None:
            with contextlib.redirect_stdout(io.StringIO()):
                self.library.finish()
