"""Training all of them to their end."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import lightning as L
import torch

from posbench.base.disk import atomically
from posbench.core.training import Checkpoint, Training
from posbench.running.replicas.curves import Curves, Ended
from posbench.running.replicas.trainings import Replicas
from posbench.running.resuming import loaded, with_threads

# -- A checkpoint of all, and one of each as its training alone would write it ---------------------

State = dict[str, Any]
"""A checkpoint as Lightning writes it."""


class OwnCheckpoints(Checkpoint):
    """Writes for each replica the checkpoint that its training alone would write."""

    def __init__(self, replicas: Replicas, paths: Sequence[Path], every: int) -> None:
        super().__init__(paths[0], every)
        self.replicas, self.paths = replicas, paths

    def save(self, trainer: L.Trainer) -> None:
        state: State = {}
        for index in self.replicas.active:
            with atomically(self.paths[index]) as beside:
                if not state:  # Lightning hands out a checkpoint as a file and in no other way
                    trainer.save_checkpoint(beside)
                    state = with_threads(loaded(beside))
                torch.save(alone(state, index), beside)


def alone(state: State, index: int) -> State:
    """The checkpoint of one replica."""
    prefix = f"trainings.{index}."
    [optimizer] = state["optimizer_states"]
    moments = {
        number: {
            name: value if name == "step" else value[index].clone() for name, value in own.items()
        }
        for number, own in optimizer["state"].items()
    }
    return state | {
        "state_dict": {
            # A slice would be written with all that it is a slice of.
            name.removeprefix(prefix): value.clone()
            for name, value in state["state_dict"].items()
            if name.startswith(prefix)
        },
        "optimizer_states": [optimizer | {"state": moments}],
        "callbacks": {"Curve": state["callbacks"]["Curves"][str(index)]},
    }


def joined(states: Sequence[State]) -> State:
    """The checkpoint of all, from one of each; `alone` gives them back."""
    optimizers = [state["optimizer_states"][0] for state in states]
    moments = {
        number: {
            name: value
            if name == "step"
            else torch.stack([each["state"][number][name] for each in optimizers])
            for name, value in own.items()
        }
        for number, own in optimizers[0]["state"].items()
    }
    return states[0] | {
        "state_dict": {
            f"trainings.{index}.{name}": value
            for index, state in enumerate(states)
            for name, value in state["state_dict"].items()
        },
        "optimizer_states": [optimizers[0] | {"state": moments}],
        "callbacks": {
            "Curves": {str(i): state["callbacks"]["Curve"] for i, state in enumerate(states)}
        },
    }


# -- fitting ---------------------------------------------------------------------------------------


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
