"""One forward pass of all replicas, through `torch.vmap`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.overrides import TorchFunctionMode

from posbench.core.scoring import Inputs
from posbench.core.transformer import Transformer

# -- the batches of several trainings, put together to one of a single shape -----------------------

NOT_ASKED = -100
"""The label of a place that predicts nothing."""


@dataclass(frozen=True)
class ReplicaBatch:
    """The batches of R replicas, [R, batch|1, n], padded at their end to the longest."""

    tokens: Tensor
    pos: Tensor
    segments: Tensor
    labels: Tensor  # NOT_ASKED where nothing is to be predicted
    first: int  # column of the first place of all

    @classmethod
    def of(cls, batches: Sequence[Inputs], beyond: int = 0) -> ReplicaBatch:
        """Padded to the longest, and `beyond` it, by the last token and position of each sequence:
        those exist in every table.
        """
        length = max(data.tokens.shape[1] for data in batches) + beyond
        rows = max(data.pos.shape[0] for data in batches)

        def padded(column: Tensor) -> Tensor:
            last = column[:, -1:]
            shape = (len(column), length - column.shape[1], *column.shape[2:])
            return torch.cat((column, last.expand(shape)), 1)

        labels = [data.tokens.new_full(data.tokens.shape, NOT_ASKED) for data in batches]
        for each, data in zip(labels, batches, strict=True):
            each[data.where] = data.labels
        return cls(
            torch.stack([padded(data.tokens) for data in batches]),
            torch.stack([padded(data.pos.expand(rows, *data.pos.shape[1:])) for data in batches]),
            torch.stack([padded(data.segments) for data in batches]),
            torch.stack(
                [F.pad(each, (0, length - each.shape[1]), value=NOT_ASKED) for each in labels]
            ),
            min(data.first for data in batches),
        )

    def to(self, device: torch.device) -> ReplicaBatch:
        def moved(tensor: Tensor) -> Tensor:
            return tensor.to(device, non_blocking=True)

        return ReplicaBatch(
            moved(self.tokens),
            moved(self.pos),
            moved(self.segments),
            moved(self.labels),
            self.first,
        )


# -- attention of all replicas ---------------------------------------------------------------------


class FoldedAttention(torch.autograd.Function):
    """Attention whose replicas are further heads of one call, under `torch.vmap`.

    Left to itself vmap asks each replica's tensors whether they need a gradient. They say no,
    because the weights outside do, and kernels are then chosen that have none for a bias.
    """

    @staticmethod
    def forward(
        q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, causal: bool, scale: float
    ) -> Tensor:
        return F.scaled_dot_product_attention(q, k, v, mask, is_causal=causal, scale=scale)

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        """Nothing is kept: `vmap` below calls what brings its own gradient."""

    @staticmethod
    def vmap(
        info: Any,
        in_dims: Any,
        q: Tensor,
        k: Tensor,
        v: Tensor,
        mask: Tensor | None,
        causal: bool,
        scale: float,
    ) -> tuple[Tensor, int]:
        replicas, heads = info.batch_size, q.shape[-3]

        def folded(t: Tensor, dim: int | None) -> Tensor:
            """[batch, heads, ...] of each replica -> [batch, replicas * heads, ...]."""
            t = t.expand(replicas, *t.shape) if dim is None else t.movedim(dim, 0)
            t = t.expand(*t.shape[:2], heads, *t.shape[3:])
            return t.transpose(0, 1).flatten(1, 2)

        if mask is not None and not (in_dims[3] is None and (mask.ndim < 4 or mask.shape[1] == 1)):
            mask = folded(mask, in_dims[3])
        out = F.scaled_dot_product_attention(
            folded(q, in_dims[0]),
            folded(k, in_dims[1]),
            folded(v, in_dims[2]),
            mask,
            is_causal=causal,
            scale=scale,
        )
        return out.unflatten(1, (replicas, heads)).transpose(0, 1), 0


class Folding(TorchFunctionMode):
    """Attention goes through `FoldedAttention` while this mode is entered."""

    def __torch_function__(
        self, func: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Tensor:
        given = kwargs or {}
        if func is not F.scaled_dot_product_attention:
            return func(*args, **given)
        mask, causal = given.get("attn_mask"), given.get("is_causal", False)
        return FoldedAttention.apply(*args, mask, causal, given["scale"])


def losses(model: Transformer, state: dict[str, Tensor], data: ReplicaBatch) -> Tensor:
    """The loss of each replica on its own batch, [R], by one pass of a model with their `state`."""

    def of_one(state: dict[str, Tensor], *batch: Tensor) -> Tensor:
        tokens, pos, segments, labels = batch
        inputs = (tokens, pos, segments, None, data.first)
        logits = torch.func.functional_call(model, state, inputs, tie_weights=False)
        return F.cross_entropy(logits.flatten(0, 1), labels[:, data.first :].flatten())

    with Folding():
        return torch.vmap(of_one)(state, data.tokens, data.pos, data.segments, data.labels)


def state_of(models: Sequence[Transformer], weights: Sequence[Tensor]) -> dict[str, Tensor]:
    """Parameters and buffers, [R, ...], by each place that they have in a module, a module once.

    `weights` are those of all models in the order of `parameters`, which has a tied one once.
    `functional_call` left to tie weights itself leaves its own in a module that is at two
    places.
    """
    number = {id(weight): index for index, weight in enumerate(models[0].parameters())}
    state: dict[str, Tensor] = {}
    for prefix, module in models[0].named_modules():
        for name, weight in module.named_parameters(prefix, recurse=False):
            state[name] = weights[number[id(weight)]]
        for name, _ in module.named_buffers(prefix, recurse=False):
            state[name] = torch.stack([model.get_buffer(name) for model in models])
    return state
