"""Where the computing is done."""

from __future__ import annotations

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


def device_name(accelerator: str) -> str:
    """The name of the device for a setting, as records have it."""
    return name_of(device(accelerator))


def name_of(device: torch.device) -> str:
    """The name of a device, as records have it: its model for a GPU of CUDA, or else its type."""
    return torch.cuda.get_device_name(device) if device.type == "cuda" else device.type
