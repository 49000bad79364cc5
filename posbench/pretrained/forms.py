"""Which encoding each layer of a model has, measured instead of read off its class.

A model is run on a few tokens with attention that returns zeros, once as it is and once with its
rotation switched off. Both runs then have the same hidden states, so queries and keys differ by the
rotation alone, layer by layer. An encoding of the suite that makes the one out of the other is the
layer's. Its window is measured as well, by asking the model's mask for one query.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from transformers import AttentionInterface, AttentionMaskInterface, PreTrainedModel

from posbench.core.attention import Attention
from posbench.pretrained.configured import Form, forms
from posbench.pretrained.mounting import (
    Layer,
    Mask,
    Mounted,
    mask,
    positions_in,
    real_pair,
    refuse_settings,
)
from posbench.pretrained.refusal import CannotMount, as_one_line

NAME = "posbench-probe"
POSITIONS = (0, 1, 2, 5, 11, 23, 47, 95)
"""Positions at which forms are compared, as far as they are below L: far enough apart for every
form to differ from every other."""


@dataclass(frozen=True)
class Call:
    """The queries and keys that reached the attention of one layer."""

    module: nn.Module
    q: Tensor  # [batch, heads, n, width]
    k: Tensor  # [batch, heads, n, width], repeated for the heads that share it
    v: Tensor
    mask: Mask
    scale: float

    def attention(self, pos: Tensor) -> Attention:
        nothing = self.q.new_empty(*self.q.shape[:3:2], 0)
        return Attention(self.q, self.k, self.v, nothing, pos, pos, self.scale)


def mount(model: PreTrainedModel, train_positions: int | None = None) -> Mounted:
    """The model with the suite's attention; CannotMount, with the reason, if that cannot be.

    `train_positions` is L, by default the `max_position_embeddings` of its configuration.
    """
    config = model.config
    model_name = type(model).__name__
    if getattr(config, "kv_lora_rank", None):
        raise CannotMount(
            f"{model_name} has latent attention (MLA), which turns a part of each key that all "
            "heads share: choose a model with ordinary or grouped keys"
        )
    if not model._can_set_attn_implementation():
        raise CannotMount(
            f"{model_name} computes attention in code of its own: choose a model that goes through "
            "the attention interface of transformers"
        )
    positions = train_positions or getattr(config, "max_position_embeddings", None)
    if not positions:
        raise CannotMount(
            f"{model_name} does not say for how many positions it was trained: give train_positions"
        )
    rotaries = [m for m in model.modules() if type(m).__name__.endswith("RotaryEmbedding")]
    if not rotaries:
        raise CannotMount(
            f"{model_name} has no rotary positions, and only those can be replaced: choose a model "
            "that has"
        )
    layers = _layers(model, rotaries, positions)
    return Mounted(model, layers, rotaries, positions)


def _layers(model: PreTrainedModel, rotaries: list[nn.Module], positions: int) -> list[Layer]:
    # Not the last trained one: at just L, transformers keeps the dynamic scale of an earlier call.
    asked = [each for each in POSITIONS if each < positions - 1]
    pos = torch.tensor([asked], device=model.device)
    before, training = model.config._attn_implementation, model.training
    model.eval()
    model.set_attn_implementation(NAME)
    try:
        turned = _calls(model, pos)

        def off(module: nn.Module, args: Any, kwargs: Any, output: Any) -> tuple[Tensor, Tensor]:
            positions_in(args, kwargs)
            cos, sin = real_pair(module, output)
            return torch.ones_like(cos), torch.zeros_like(sin)

        hooks = [each.register_forward_hook(off, with_kwargs=True) for each in rotaries]
        try:
            plain = _calls(model, pos)
        finally:
            for hook in hooks:
                hook.remove()
    finally:
        model.set_attn_implementation(before)
        model.train(training)
    if not turned:
        raise CannotMount(
            f"no layer of {type(model).__name__} calls the attention interface of transformers: "
            "choose a model that does"
        )
    known: dict[int, list[Form]] = {}
    return [
        Layer(
            call.module,
            _form(
                known.setdefault(
                    call.q.shape[-1], list(forms(model.config.get_text_config(), call.q.shape[-1]))
                ),
                index,
                bare,
                call,
                pos,
            ),
            window(call, positions),
        )
        for index, (bare, call) in enumerate(zip(plain, turned, strict=True))
    ]


_collected: list[Call] = []


def _calls(model: PreTrainedModel, pos: Tensor) -> list[Call]:
    _collected.clear()
    tokens = (1 + torch.arange(pos.shape[1], device=pos.device))[None]
    try:
        with torch.no_grad():
            model(
                input_ids=tokens % model.config.get_text_config().vocab_size,
                attention_mask=torch.ones_like(tokens),
                position_ids=pos,
                use_cache=False,
            )
    except torch.OutOfMemoryError:
        raise
    except (AttributeError, LookupError, RuntimeError, TypeError, ValueError) as error:
        raise CannotMount(
            f"{type(model).__name__} does something of its own with masks, positions or attention "
            f"({as_one_line(error)}): choose a model that leaves them to the attention interface "
            "of transformers"
        ) from error
    calls = list(_collected)
    _collected.clear()
    return calls


def collect(
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Any,
    scaling: float | None = None,
    dropout: float = 0.0,
    **settings: Any,
) -> tuple[Tensor, None]:
    refuse_settings(module, dropout, settings)
    groups = query.shape[1] // key.shape[1]
    scale = 1 / math.sqrt(query.shape[-1]) if scaling is None else scaling
    k, v = key.repeat_interleave(groups, 1), value.repeat_interleave(groups, 1)
    _collected.append(Call(module, query, k, v, attention_mask, scale))
    return torch.zeros_like(v).transpose(1, 2).contiguous(), None


def _form(known: list[Form], index: int, plain: Call, turned: Call, pos: Tensor) -> Form:
    """The form that makes the turned queries and keys out of the plain ones, by their scores."""
    wanted = turned.q @ turned.k.mT
    errors = {}
    for form in known:
        plan = form.at(int(pos.max()) + 1).encode(plain.attention(pos))
        assert isinstance(plan, Attention)  # rotations change queries and keys alone
        error = (plan.q @ plan.k.mT - wanted).abs().max() / wanted.abs().max()
        errors[form.name] = float(error)
        if error <= tolerance(wanted.dtype):
            return form
    tried = ", ".join(f"{name} by {error:.1g}" for name, error in errors.items())
    raise CannotMount(
        f"layer {index} turns queries and keys in a form that the suite does not have; its scores "
        f"differ from {tried} of the largest: choose a model with rotary positions of those forms"
    )


def tolerance(dtype: torch.dtype) -> float:
    """A share of the largest value. transformers has angles in float32, whatever the model has."""
    return max(8 * torch.finfo(dtype).eps, 1e-4)


def window(call: Call, positions: int) -> int | None:
    """How many keys a query sees, None for all before it; the same at two places far away."""
    first = torch.tensor(0)
    seen = []
    for query in (4 * positions + 1, 4 * positions + 2):
        keys = torch.arange(query + 4)
        visible = call.mask.visible(first, first, torch.tensor(query), keys).expand(keys.shape)
        count = int(visible.sum())
        if visible[query + 1 :].any() or not visible[query + 1 - count : query + 1].all():
            raise CannotMount(
                f"{type(call.module).__name__} lets a query see keys that are not the last ones "
                "before it: choose a model with causal attention, in windows or without"
            )
        seen.append(None if count == query + 1 else count)
    if seen[0] != seen[1]:
        raise CannotMount(
            f"{type(call.module).__name__} attends in chunks: choose a model with windows or "
            "without"
        )
    return seen[0]


AttentionInterface.register(NAME, collect)
AttentionMaskInterface.register(NAME, mask)
