"""Past records to W&B: each becomes the run that it would have been."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from posbench.base.content_hash import content_hash
from posbench.base.disk import write_bytes
from posbench.records.record import Record
from posbench.running.loggers import metrics
from posbench.running.loggers.metrics import About
from posbench.running.loggers.wandb import Wandb
from posbench.running.run_spec import Fingerprint

ONLINE = "online"


@dataclass(frozen=True)
class UploadCounts:
    """Numbers of records."""

    now: int  # became W&B runs
    before: int  # were W&B runs already
    failed: int  # did not reach the server whole


def upload(
    found: Sequence[Record],
    folder: Path,
    project: str,
    entity: str | None = None,
    online: bool = False,
) -> UploadCounts:
    """Write one W&B run a record into `folder`, and send it if `online`; returns what came of it.

    What is there is noted in a file of its own once it is whole, so that the same command goes on
    where it was stopped, or where the server was not reached. What was kept offline is sent by the
    same command with `online`.
    """
    done = UploadCounts(0, 0, 0)
    for record in found:
        digest = content_hash(record.as_json())
        note = folder / "uploaded" / digest
        if note.exists() and (not online or note.read_text() == ONLINE):
            done = replace(done, before=done.before + 1)
            continue
        about = About.of(record, record.seed, Fingerprint.of(record).hash)
        logger = Wandb(
            offline=not online, save_dir=folder, id=about.id, project=project, entity=entity
        )
        logger.begin(about, print)
        try:
            logger.log_hyperparams(about.config(record.config))
            for step, point in metrics.curve(record):
                logger.log_metrics(point, step=step)
            logger.log_record(record)
        finally:
            logger.close()
        if logger.complete:
            write_bytes((ONLINE if online else "offline").encode(), note)
            done = replace(done, now=done.now + 1)
        else:
            done = replace(done, failed=done.failed + 1)
    return done
