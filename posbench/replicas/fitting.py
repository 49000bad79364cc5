"""Training all of them to their end."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Sequence
from pathlib import Path

import lightning as L
import torch

from posbench.replicas.checkpoints import OwnCheckpoints, joined
from posbench.replicas.curves import Curves, Ended
from posbench.replicas.trainings import Replicas
from posbench.resuming import loaded
from posbench.training import Training


def fit_together(
    trainings: Sequence[Training],
    checkpoints: Sequence[Path],
    accelerator: str,
    checkpoint_every: int,
    callbacks: list[L.Callback],
    report: Callable[[dict[str, float]], None],
    ended: Ended,
) -> None:
    """Train all to their end, each from its checkpoint if they exist, of one step or of none.

    `ended` is called for each. CannotReplicate is raised before anything is trained, if they have
    to be made one by one.
    """
    replicas = Replicas(trainings)
    curves, settings = Curves(replicas, ended, report), replicas.settings
    with OwnCheckpoints(replicas, checkpoints, checkpoint_every) as saver:
        trainer = L.Trainer(
            accelerator=accelerator,
            devices=1,
            precision=settings.precision,
            max_steps=settings.total_steps,
            gradient_clip_val=settings.gradient_clip,
            logger=False,
            callbacks=[curves, *callbacks, saver],
            enable_checkpointing=False,
            enable_progress_bar=False,
            enable_model_summary=False,
            num_sanity_val_steps=0,
            default_root_dir=checkpoints[0].parent,
        )
        begun = None
        try:
            if checkpoints[0].exists():
                state = joined([loaded(path) for path in checkpoints])
                begun = checkpoints[0].with_suffix(f".joined-{uuid.uuid4().hex}.tmp")
                torch.save(state, begun)
            trainer.fit(replicas, ckpt_path=begun, weights_only=True)
        finally:
            if begun is not None:
                begun.unlink(missing_ok=True)
    curves.leave([(index, None) for index in replicas.active])
