"""Which encoding each layer of a model has, measured instead of read off its class.

A model is run on a few tokens with attention that returns zeros, once as it is and once with its
rotation switched off. Both runs then have the same hidden states, so queries and keys differ by the
rotation alone, layer by layer. An encoding of the suite that makes the one out of the other is the
layer's. Its window is measured as well, by asking the model's mask for one query.
"""

from __future__ import annotations

import contextlib
import functools
import math
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn
from transformers import AttentionInterface, AttentionMaskInterface, PreTrainedModel

from posbench.base.errors import ConfigError
from posbench.core.attention import Attention
from posbench.core.encoding import PositionEncoding
from posbench.extensions.direct import Direct
from posbench.pretrained.configured import Configured, Form, forms
from posbench.pretrained.mounting import Layer, Mask, Mounted, mask
from posbench.pretrained.refusal import CannotMount, as_one_line
from posbench.pretrained.richer import (
    Richer,
    RicherLayer,
    Scores,
    refuse_dropout,
    still,
    text_positions,
)
from posbench.pretrained.turned_parts import (
    Angles,
    angles,
    configured_parts,
    is_pair,
    known_rotations,
    measured_parts,
)

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
    scores: Scores = field(default_factory=Scores)

    def attention(self, pos: Tensor) -> Attention:
        nothing = self.q.new_empty(*self.q.shape[:3:2], 0)
        return Attention(self.q, self.k, self.v, nothing, pos, pos, self.scale)


def mount(model: PreTrainedModel, train_positions: int | None = None) -> Mounted:
    """The model with the suite's attention; CannotMount, with the reason, if that cannot be.

    `train_positions` is L, by default the `max_position_embeddings` of its configuration.
    """
    model_name = type(model).__name__
    refuse_own_attention(model)
    config = model.config.get_text_config()
    positions = train_positions or getattr(config, "max_position_embeddings", None)
    if not positions:
        raise CannotMount(
            f"{model_name} does not say for how many positions it was trained: give train_positions"
        )
    rotaries = rotaries_of(model)
    found = TwoPasses(model, rotaries, positions)
    layers = found.layers()
    richer = any(isinstance(each, RicherLayer) or each.window for each in layers)
    kind = Mounted if found.is_plain and not richer else Richer
    return kind(model, layers, rotaries, positions)


def refuse_own_attention(model: PreTrainedModel) -> None:
    if not model._can_set_attn_implementation():
        raise CannotMount(
            f"{type(model).__name__} computes attention in code of its own, where nothing can be "
            "exchanged: choose a model that goes through the attention interface of transformers"
        )


def rotaries_of(model: PreTrainedModel) -> list[nn.Module]:
    """The rotary embeddings of a model; CannotMount where it has none."""
    found = [m for m in model.modules() if type(m).__name__.endswith("RotaryEmbedding")]
    if not found:
        raise CannotMount(
            f"{type(model).__name__} has no rotary positions, and only those can be replaced: "
            "choose a model that has"
        )
    return found


class TwoPasses:
    """A model on a few tokens, with its rotation and without.

    `is_plain` says whether its rotary embeddings are called with one axis of positions, and return
    cosine and sine.
    """

    def __init__(self, model: PreTrainedModel, rotaries: list[nn.Module], positions: int) -> None:
        self.model, self.rotaries, self.positions = model, rotaries, positions
        self.is_plain = True
        self.tables: list[Angles] = []
        # Not the last trained one: at just L, transformers keeps the dynamic scale of an earlier
        # call.
        asked = [each for each in POSITIONS if each < positions - 1]
        self.pos = torch.tensor([asked], device=model.device)

    def layers(self) -> list[Layer]:
        model = self.model
        before, training = model.config._attn_implementation, model.training
        model.eval()
        model.set_attn_implementation(NAME)
        try:
            turned = self._run(self._look, self.pos)
            plain = self._run(self._off, self.pos)
        finally:
            model.set_attn_implementation(before)
            model.train(training)
        if not turned:
            raise CannotMount(
                f"no layer of {type(model).__name__} calls the attention interface of "
                "transformers: choose a model that does"
            )
        if len(plain) != len(turned) or any(
            one.module is not other.module for one, other in zip(plain, turned, strict=True)
        ):
            raise CannotMount(
                f"{type(model).__name__} attends in other layers when nothing is turned: choose "
                "another model"
            )
        known: dict[int, list[Form]] = {}
        found = []
        for index, (bare, call) in enumerate(zip(plain, turned, strict=True)):
            width = call.q.shape[-1]
            if width not in known:
                known[width] = self._forms(width)
            try:
                form = _form(known[width], index, bare, call, self.pos)
            except CannotMount:
                if not (measured := self._measured_forms(width)):
                    raise
                form = _form(measured, index, bare, call, self.pos)
                known[width].append(form)
            found.append(_layer(call, form, self.positions))
        return found

    def _forms(self, width: int) -> list[Form]:
        """Those that the configuration explains, for heads of a width."""
        config = self.model.config.get_text_config()
        usual: list[Form] = []
        if known_rotations(config):
            # What the configuration leaves out, the tables say.
            with contextlib.suppress(CannotMount, ConfigError, KeyError, TypeError):
                usual = list(forms(config, width))
        if not usual:
            none = Configured(Direct(), self.positions)
            usual = [Form(PositionEncoding(), none, "no position")]
        return [*usual, *configured_parts(config, width, self.tables)]

    def _measured_forms(self, width: int) -> list[Form]:
        """Those of frequencies that no configuration explains, and that no length changes."""
        return list(
            measured_parts(
                self.model.config.get_text_config(), width, self._lasting, self.positions
            )
        )

    @functools.cached_property
    def _lasting(self) -> list[Angles]:
        near, self.tables = self.tables, []
        far = torch.tensor([[0, 1, 4 * self.positions]]).to(self.pos)
        before = self.model.config._attn_implementation
        self.model.set_attn_implementation(NAME)
        try:
            self._run(self._look, far)
            self._run(self._off, self.pos)  # a scale that follows the length is what it was
        finally:
            self.model.set_attn_implementation(before)
            near, self.tables = self.tables, near
        return [each for each in self.tables if any(_same(each, other) for other in near)]

    def _run(self, hook: Any, pos: Tensor) -> list[Call]:
        hooks = [each.register_forward_hook(hook, with_kwargs=True) for each in self.rotaries]
        try:
            return _calls(self.model, pos)
        finally:
            for each in hooks:
                each.remove()

    def _look(self, module: nn.Module, args: Any, kwargs: Any, output: Any) -> None:
        given = kwargs.get("position_ids", args[1] if len(args) > 1 else None)
        one_axis = isinstance(given, Tensor) and given.ndim == 2
        self.is_plain = self.is_plain and one_axis and is_pair(output)
        table = angles(output)
        if table is not None and not any(_same(table, each) for each in self.tables):
            self.tables.append(table)

    def _off(self, module: nn.Module, args: Any, kwargs: Any, output: Any) -> Any:
        text_positions(args, kwargs)
        return still(module, output)


def _same(one: Angles, other: Angles) -> bool:
    return (
        one.theta.shape == other.theta.shape
        and torch.allclose(one.theta, other.theta, rtol=1e-5, atol=0)
        and abs(one.magnitude - other.magnitude) < 1e-5
    )


def _layer(call: Call, form: Form, positions: int) -> Layer:
    window, chunk = seen(call, positions)
    if chunk is None and not call.scores:
        return Layer(call.module, form, window)
    if chunk is not None and chunk > positions:
        raise CannotMount(
            f"{type(call.module).__name__} attends in chunks of {chunk}, longer than the "
            f"{positions} trained positions: give train_positions of at least {chunk}"
        )
    return RicherLayer(call.module, form, window, chunk, call.scores)


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
    refuse_dropout(dropout)
    scores = Scores(settings.get("s_aux"), settings.get("softcap"))
    groups = query.shape[1] // key.shape[1]
    scale = 1 / math.sqrt(query.shape[-1]) if scaling is None else scaling
    k, v = key.repeat_interleave(groups, 1), value.repeat_interleave(groups, 1)
    _collected.append(Call(module, query, k, v, attention_mask, scale, scores))
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


def seen(call: Call, positions: int) -> tuple[int | None, int | None]:
    """The window of a layer and its chunk: how many keys a query sees, None for all before it.

    A window is the same at two places far away. The window of a chunk is its size.
    """
    query = 4 * positions + 1
    counts = [_count(call, each) for each in (query, query + 1)]
    if counts[0] == counts[1]:
        return counts[0], None
    # A chunk begins at the first key that a query sees, and the one before it ends just there.
    begins = query + 1 - (counts[0] or 0)
    chunk = _count(call, begins - 1) or begins
    whole = (begins, 1), (begins + chunk - 1, chunk), (begins + chunk, 1)
    if begins < 1 or any(_count(call, at) != count for at, count in whole) or begins % chunk:
        raise CannotMount(
            f"{type(call.module).__name__} lets a query see keys by a rule that is neither a "
            "window nor chunks: choose a model with windows, chunks or neither"
        )
    return chunk, chunk


def _count(call: Call, query: int) -> int | None:
    """How many keys a query sees, itself and those just before it; None for all."""
    first, keys = torch.tensor(0), torch.arange(query + 4)
    visible = call.mask.visible(first, first, torch.tensor(query), keys).expand(keys.shape)
    count = int(visible.sum())
    if visible[query + 1 :].any() or not visible[query + 1 - count : query + 1].all():
        raise CannotMount(
            f"{type(call.module).__name__} lets a query see keys that are not the last ones "
            "before it: choose a model with causal attention, in windows or without"
        )
    return None if count == query + 1 else count


AttentionInterface.register(NAME, collect)
AttentionMaskInterface.register(NAME, mask)
