"""Shared fixtures: composed configurations and small experiments, on one torch thread."""

from __future__ import annotations

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("WANDB_MODE", "offline")

from collections.abc import Iterator
from pathlib import Path

import hydra
import pytest
import torch
from hydra.core.global_hydra import GlobalHydra

from posbench.catalogue.conformance import composed, setup
from posbench.composing.compose import register
from posbench.composing.folders import own_names

__all__ = ["composed", "names", "setup"]

torch.set_num_threads(1)
CONF = Path(__file__).parent.parent / "conf"


def names(group: str) -> list[str]:
    """Everything posbench offers of a config group: its files, or the rows of conf/methods.yaml."""
    return own_names(group)


@pytest.fixture(autouse=True)
def _hydra() -> Iterator[None]:
    register()
    GlobalHydra.instance().clear()
    with hydra.initialize_config_module("posbench.conf", version_base="1.3"):
        yield
