"""Attention is watched inside a model that is tested, and heads are taken out of it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn

from posbench.attention import Attention, Heads, Plan, Regions
from posbench.encoding import Wrapper
from posbench.transformer import Transformer


class Watched(Wrapper):
    """An encoding that computes what its host does, and keeps the plan of the last call."""

    plan: Plan

    def encode(self, a: Attention) -> Plan:
        self.plan = self.host.encode(a)
        return self.plan


def watched(model: Transformer) -> tuple[Transformer, list[Watched]]:
    """The same model, and the encoding of each layer, which can be asked for its plan."""
    layers = [Watched(layer) for layer in model.encodings]
    return model.with_encodings(model.encodings.replaced(layers)), layers


@contextmanager
def without_head(model: Transformer, layer: int, head: int) -> Iterator[None]:
    """The output of one head counts as 0 for its layer while this context lasts."""
    width = model.head_width
    channels = slice(head * width, (head + 1) * width)

    def silenced(module: nn.Module, inputs: tuple[Tensor, ...]) -> Tensor:
        found = inputs[0].clone()
        found[..., channels] = 0
        return found

    block = model.blocks[layer]
    handle = block.out.register_forward_pre_hook(silenced)  # type: ignore[union-attr]
    try:
        yield
    finally:
        handle.remove()


def farthest(plan: Plan, rows: slice) -> float:
    """The largest distance between a query and a key that it sees, in positions as the method
    counts them; NaN where they have several axes.
    """
    if isinstance(plan, Heads):
        return max(farthest(part, rows) for part in plan.parts)
    if isinstance(plan, Regions):
        region = plan.select(rows)
        far = [
            _largest(part.distance(rows), plan.allowed(rows) & (region == index))
            for index, part in enumerate(plan.parts)
            if part.q_pos.ndim == 2
        ]
        return max(far, default=float("nan"))
    if not isinstance(plan, Attention) or plan.q_pos.ndim != 2:
        return float("nan")
    return _largest(plan.distance(rows), plan.allowed(rows))


def _largest(distance: Tensor, seen: Tensor) -> float:
    """The largest of [batch|1, rows, keys] where [batch|1, heads|1, rows, keys] is true."""
    spread = distance[:, None].expand(torch.broadcast_shapes(distance[:, None].shape, seen.shape))
    return float(spread.masked_fill(~seen.expand(spread.shape), 0).max())
