"""Where the computing is done."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch

from posbench.base.errors import ConfigError


def device(accelerator: str) -> torch.device:
    """The device for a setting such as "auto"; ConfigError if the machine has none."""
    if accelerator in ("gpu", "cuda") or (accelerator == "auto" and torch.cuda.is_available()):
        if torch.cuda.is_available():
            return torch.device("cuda")
        raise ConfigError(
            "the protocol asks for a GPU and torch sees none: use protocol=cpu (for an experiment, "
            "experiment=NAME_cpu), or trainer.accelerator=cpu for the same run on the processor "
            "(slow)"
        )
    if accelerator == "mps":
        if not torch.backends.mps.is_available():
            raise ConfigError(
                "trainer.accelerator=mps needs an Apple GPU and torch sees none: use cpu or auto"
            )
        return torch.device("mps")
    return torch.device("cpu")


@contextmanager
def present_devices_seeded() -> Iterator[None]:
    """Within the block `torch.manual_seed` seeds the kinds of device that the machine has.

    For each other kind torch would keep the seed and the stack, in case it is needed later. That
    takes about a fiftieth of a small model's step.
    """
    kinds: list[Any] = [torch.cuda, torch.xpu, torch.mtia]
    absent = [each for each in kinds if not each.is_available()]
    before = [each.manual_seed_all for each in absent]
    for each in absent:
        each.manual_seed_all = lambda seed: None
    try:
        yield
    finally:
        for each, seeding in zip(absent, before, strict=True):
            each.manual_seed_all = seeding


def device_name(accelerator: str) -> str:
    """The name of the device for a setting, as records have it."""
    return name_of(device(accelerator))


def name_of(device: torch.device) -> str:
    """The name of a device, as records have it: its model for a GPU of CUDA, or else its type."""
    return torch.cuda.get_device_name(device) if device.type == "cuda" else device.type
