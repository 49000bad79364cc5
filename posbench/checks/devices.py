"""A device that every machine has: shapes without numbers, on which a tensor of the CPU is wrong.

Torch's meta device lets pass what a GPU does not: a matrix product or a gather of its tensors with
those of the CPU. So every operation is looked at.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map_only

MOVES = ("aten::copy_", "aten::_to_copy")
"""Operations that may have tensors of two devices."""


class WrongDevice(AssertionError):
    """An operation on tensors of two devices."""


class Elsewhere(TorchDispatchMode):
    """Refuses to mix devices; where a tensor is asked for a number says 1, and notes who asks.

    As on a GPU, a tensor of the CPU without dimensions counts as a number.
    """

    def __init__(self) -> None:
        super().__init__()
        self.asked: set[str] = set()

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        """Nothing is compiled here, and torch would import its compiler only to leave it out."""
        return False

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        given, name = kwargs or {}, func._schema.name
        tensors = [each for each in tree_leaves((args, given)) if isinstance(each, Tensor)]
        devices = {each.device.type for each in tensors if each.ndim}
        if len(devices) > 1 and name not in MOVES:
            shapes = ", ".join(f"{each.device} {list(each.shape)}" for each in tensors)
            raise WrongDevice(f"{name} of {shapes}")
        if name == "aten::_local_scalar_dense" and tensors[0].is_meta:
            self.asked.add("one number")
            return 1
        if name == "aten::_to_copy" and tensors[0].is_meta and "cpu" in str(given.get("device")):
            self.asked.add("all numbers")
            return torch.ones(tensors[0].shape, dtype=given.get("dtype") or tensors[0].dtype)
        return _without_numbers(func, args, given)


def _without_numbers(func: Any, args: Any, given: dict[str, Any]) -> Any:
    """What an operation gives on the meta device.

    For most operations torch would import its compiler to know the shape, which costs more than all
    checks together. So what changes and shares nothing is computed of zeros on the CPU.
    """
    schema = func._schema
    if any(each.alias_info is not None for each in (*schema.arguments, *schema.returns)):
        return func(*args, **given)
    meta = any(each.is_meta for each in tree_leaves((args, given)) if isinstance(each, Tensor))
    if not meta and f"{given.get('device')}" != "meta":
        return func(*args, **given)
    try:
        args_here, given_here = tree_map_only(Tensor, _zeros, (args, given))
        if "device" in given:
            given_here["device"] = "cpu"
        return tree_map_only(Tensor, lambda each: each.to("meta"), func(*args_here, **given_here))
    except Exception:  # zeros cannot be divided by, for example; torch knows what else is wrong
        return func(*args, **given)


def _zeros(given: Tensor) -> Tensor:
    return torch.zeros(given.shape, dtype=given.dtype) if given.is_meta else given


class Autocast(torch.autocast):
    """`torch.autocast`, which refuses the meta device."""

    def __init__(self, device_type: str, *args: Any, **kwargs: Any) -> None:
        super().__init__("cpu" if device_type == "meta" else device_type, *args, **kwargs)


@contextmanager
def elsewhere() -> Iterator[Elsewhere]:
    """Within, no operation may mix the meta device and the CPU."""
    with patch.object(torch, "autocast", Autocast), Elsewhere() as mode:
        yield mode
