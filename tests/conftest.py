"""Shared fixtures: composed configurations and small experiments, on one torch thread."""

from __future__ import annotations

import copy
import functools
import os

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("WANDB_MODE", "offline")

from collections.abc import Iterator
from pathlib import Path

import hydra
import pytest
import torch
from hydra.core.global_hydra import GlobalHydra
from omegaconf import DictConfig, OmegaConf

from posbench import resolvers
from posbench.building import build
from posbench.experiment import Experiment

torch.set_num_threads(1)
CONF = Path(__file__).parent.parent / "conf"


def names(group: str) -> list[str]:
    """Every YAML of a config group, found by looking."""
    return sorted(path.stem for path in (CONF / group).glob("*.yaml"))


@pytest.fixture(autouse=True)
def _hydra() -> Iterator[None]:
    resolvers.register()
    GlobalHydra.instance().clear()
    with hydra.initialize_config_module("posbench.conf", version_base="1.3"):
        yield


@functools.cache
def _composed(*overrides: str) -> DictConfig:
    return hydra.compose("config", list(overrides))


def composed(*overrides: str) -> DictConfig:
    """A copy: composing costs fifty times as much as copying."""
    return copy.deepcopy(_composed(*overrides))


def experiment(*overrides: str) -> Experiment:
    """The experiment of a command line, at the smoke protocol unless told otherwise."""
    cfg = composed(*([] if any(word.startswith("protocol=") for word in overrides) else ["protocol=smoke"]), *overrides)
    task = build(OmegaConf.to_container(cfg.task, resolve=True), "task")
    return Experiment(cfg, None, task)  # type: ignore[arg-type]  # a name is needed for records alone
