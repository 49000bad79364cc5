"""Past records to W&B: each becomes the run that it would have been."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from posbench.loggers import told
from posbench.loggers.told import About
from posbench.loggers.wandb import Wandb
from posbench.provenance import content_hash
from posbench.records.record import Record


def upload(
    found: Sequence[Record],
    folder: Path,
    project: str,
    entity: str | None = None,
    online: bool = False,
    say: Callable[[str], None] = print,
) -> int:
    """Write one W&B run a record into `folder`, and send it if `online`; returns how many.

    A record whose run is there is left out, so that the same command goes on where it stopped.
    """
    count = 0
    for record in found:
        digest = content_hash(record.as_json())
        if any(folder.glob(f"wandb/*run-*-{digest}")):
            continue
        folder.mkdir(parents=True, exist_ok=True)
        about = About.of(record, record.seed)
        logger = Wandb(
            offline=not online, save_dir=folder, id=digest, project=project, entity=entity
        )
        logger.begin(about, say)
        try:
            logger.log_hyperparams(about.config(record.config))
            for step, point in told.curve(record):
                logger.log_metrics(point, step=step)
            logger.log_record(record)
        finally:
            logger.close()
        count += 1
    return count
