"""TensorBoard, imported only where it is chosen; needs posbench[tensorboard]."""

from __future__ import annotations

import shlex
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

from lightning.pytorch.loggers import TensorBoardLogger

from posbench.base.errors import ConfigError
from posbench.records.record import Record
from posbench.running.loggers import metrics
from posbench.running.loggers.metrics import About
from posbench.showing.figures import depth_map_pixels


class TensorBoard(TensorBoardLogger):
    """Event files in the folder of the run: `tensorboard --logdir results/local/logs`.

    The step of a test is its length, as TensorBoard has one axis of whole numbers. The summary
    are the metrics of the table of hyperparameters.
    """

    def __init__(self, save_dir: str, name: str = "", **settings: Any) -> None:
        try:
            import tensorboard  # noqa: F401
        except ImportError:
            raise ConfigError(
                "logger=tensorboard needs a library: pip install 'posbench[tensorboard]'"
            ) from None
        super().__init__(Path(save_dir) / "tensorboard", name="", version="", **settings)
        self.params: dict[str, Any] = {}

    @property
    def kept(self) -> str:
        return f"Events: tensorboard --logdir {shlex.quote(self.log_dir)}"

    def begin(self, about: About, say: Callable[[str], None]) -> None:
        """Say what the run is called; its folder has that from the results."""
        self.experiment.add_text("run", about.title)

    def log_hyperparams(self, params: Any, metrics: Any = None, step: int | None = None) -> None:
        """Keep them for the end: TensorBoard shows them beside the summary alone."""
        self.params = dict(params)

    def log_record(self, record: Record) -> None:
        """The tests by length, all cells as text, the depth map, the summary."""
        for length, values in metrics.tests(record):
            self.log_metrics(values, step=length)
        self.experiment.add_text(metrics.CELLS, metrics.markdown(record))
        if (picture := depth_map_pixels(record.rows, record.views)) is not None:
            self.experiment.add_image(metrics.DEPTH_MAP, picture, dataformats="HWC")
        summary = {
            metrics.summarised(name): value for name, value in metrics.numbers(record).items()
        }
        super().log_hyperparams(self.params, summary)

    def close(self) -> None:
        """Write what is left and close the file, whose name then has the host's no more."""
        self.experiment.close()
        host = f".{socket.gethostname()}."
        for path in Path(self.log_dir).glob(f"events.out.tfevents.*{host}*"):
            path.rename(path.with_name(path.name.replace(host, ".posbench.")))
