"""What encodings share that ask the task for position ids."""

from __future__ import annotations

from torch import Tensor

from posbench.base.errors import ConfigError


def room(ids: Tensor, size: int, name: str) -> int:
    """How many starts there are from which all ids stay below `size`."""
    largest = int(ids.max())
    if largest >= size:
        raise ConfigError(
            f"the task gives ids up to {largest}, and {name}={size} leaves no room: raise it above "
            "that"
        )
    return size - largest
