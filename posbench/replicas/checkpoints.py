"""A checkpoint of all, and one of each as its training alone would write it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import lightning as L
import torch

from posbench.replicas.trainings import Replicas
from posbench.resuming import keeping, loaded, with_threads
from posbench.training import Checkpoint

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
            with keeping(self.paths[index]) as beside:
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
