"""The suite's encodings and its attention in a model of transformers.

transformers lets a library register an attention function, and a model's rotary embedding is a
module that returns cosine and sine. Here the module is made to return 1 and 0, so that queries and
keys arrive as they were projected, and the function turns them with the suite's own encodings and
runs the suite's own plan. Nothing of the model is copied, and `unmount` leaves it as it was.

The cache then holds keys that are not turned. They are turned in every step with the encoding of
the length at hand, so that a method whose scale follows the length stays right while an answer
grows. That costs a rotation of all keys in each step.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Self
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, nn
from transformers import AttentionInterface, AttentionMaskInterface, PreTrainedModel

from posbench.core.attention import Attention, attend, attend_from
from posbench.core.encoding import EncodingStack
from posbench.core.extension import Extension
from posbench.encodings.sliding_window import SlidingWindow
from posbench.extensions.direct import Direct
from posbench.pretrained.configured import Form
from posbench.pretrained.refusal import CannotMount

NAME = "posbench"


@dataclass(frozen=True)
class Mask:
    """The model says here which keys a query may see, before any mask is built."""

    padding: Tensor | None  # [batch, keys so far], True for a token; None: no padding
    given: bool  # whether the caller gave a mask, if only one without padding
    visible: Any  # (batch, head, query index, key index) -> bool, causality and windows


def mask(*, mask_function: Any, attention_mask: Tensor | None = None, **sizes: Any) -> Mask:
    padded = attention_mask is not None and not bool(attention_mask.all())
    return Mask(attention_mask if padded else None, attention_mask is not None, mask_function)


@dataclass(frozen=True)
class Layer:
    """An attention layer of the model, with the form that it turned out to have."""

    module: nn.Module
    form: Form
    window: int | None  # keys that a query sees, its own among them; None for all


class Mounted:
    """A model whose attention is the suite's, under an extension that can be exchanged.

    `train_positions` is L, the positions that the model counts as trained. Layers whose window is
    no longer than L are left as they are: no distance in them is ever new.
    """

    def __init__(
        self,
        model: PreTrainedModel,
        layers: list[Layer],
        rotaries: list[nn.Module],
        train_positions: int,
    ) -> None:
        self.model = model
        self.layers = layers
        self.rotaries = rotaries
        self.train_positions = train_positions
        self.length: int | None = None
        self.paths: set[str] = set()  # how attention has been computed since this was cleared
        self._extension: Extension = Direct()
        self._stacks: dict[int, EncodingStack] = {}
        self._positions: Tensor | None = None
        self._index = {layer.module: index for index, layer in enumerate(layers)}
        self.mount()

    def mount(self) -> None:
        self._before = self.model.config._attn_implementation
        for layer in self.layers:
            MOUNTED[layer.module] = self
        self._hooks = [
            rotary.register_forward_hook(self._unrotated, with_kwargs=True)
            for rotary in self.rotaries
        ]
        self.model.set_attn_implementation(NAME)

    def unmount(self) -> None:
        for hook in self._hooks:
            hook.remove()
        for layer in self.layers:
            MOUNTED.pop(layer.module, None)
        self.model.set_attn_implementation(self._before)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.unmount()

    # -- which encoding ----------------------------------------------------------------------------

    @property
    def extension(self) -> Extension:
        return self._extension

    @extension.setter
    def extension(self, extension: Extension) -> None:
        if extension.trains:
            raise CannotMount(
                f"{type(extension).__name__} trains a model further, and a pretrained model is "
                "measured as it is: choose an extension without training"
            )
        self._extension = extension
        self._stacks.clear()

    def encodings(self, length: int) -> EncodingStack:
        """One encoding a layer for sequences of `length` positions, prompt and answer together."""
        if length not in self._stacks:
            trained = self.trained(length)
            extended = self.extension.extend(trained, self.train_positions, length)
            self._stacks[length] = trained.replaced(
                [
                    old
                    if layer.window is not None and layer.window <= self.train_positions
                    else new
                    for layer, old, new in zip(self.layers, trained, extended, strict=True)
                ]
            )
        return self._stacks[length]

    def trained(self, length: int) -> EncodingStack:
        """The encodings that the layers have without an extension."""
        encodings = []
        for layer in self.layers:
            encoding = layer.form.at(length)
            encodings.append(
                encoding if layer.window is None else SlidingWindow(encoding, layer.window)
            )
        return EncodingStack(encodings, self._period())

    def _period(self) -> int:
        """The number of layers after which their kinds repeat; an extension chooses among these."""
        kinds = [(layer.form, layer.window) for layer in self.layers]
        return next(
            period
            for period in range(1, len(kinds) + 1)
            if all(kinds[i] == kinds[i % period] for i in range(len(kinds)))
        )

    @property
    def follows_length(self) -> bool:
        """Whether the encoding may be another one at another length."""
        return self.extension.changes or any(layer.form.own.follows_length for layer in self.layers)

    # -- running -----------------------------------------------------------------------------------

    @contextmanager
    def at(self, length: int) -> Iterator[None]:
        """Every call inside is part of a sequence that will have `length` positions in the end.

        Outside, the length is that of the call. Whoever decodes with a cache has to say it first:
        what a layer passed on to the next was computed under the encoding of the time.
        """
        before, self.length = self.length, length
        try:
            yield
        finally:
            self.length = before

    def generate(self, input_ids: Tensor, max_new_tokens: int, **settings: Any) -> Any:
        """The model's own `generate`, at the length that the prompt and the answer will have.

        LongRoPE (Phi-3) then has one list of factors for all tokens, the long one if the answer
        ends beyond the original length. Transformers changes to the long list on the way.
        """
        with self.at(input_ids.shape[1] + max_new_tokens):
            generate: Any = self.model.generate
            return generate(input_ids=input_ids, max_new_tokens=max_new_tokens, **settings)

    def _unrotated(
        self, rotary: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], output: Any
    ) -> tuple[Tensor, Tensor]:
        cos, sin = real_pair(rotary, output)
        self._positions = positions_in(args, kwargs)
        return torch.ones_like(cos), torch.zeros_like(sin)

    def _attention(
        self,
        module: nn.Module,
        q: Tensor,
        k: Tensor,
        v: Tensor,
        mask: Mask,
        scale: float,
    ) -> Tensor:
        assert self._positions is not None  # the rotary embedding comes before any layer
        q_pos = self._positions
        if not (mask.given or bool((q_pos.diff(dim=1) == 1).all())):
            raise CannotMount(
                "position_ids do not count up by one, which without attention_mask means several "
                "sequences in a row: give attention_mask, or one sequence a row"
            )
        padding, new, total = mask.padding, q.shape[2], k.shape[2]
        last = int(q_pos.max()) + 1
        if self.length is None and total > new and self.follows_length:
            raise CannotMount(
                f"{total - new} keys are in the cache and the encoding follows the length: say "
                "with mounted.at(length), around the first call, how long the sequence will be"
            )
        if self.length is not None and last > self.length:
            raise CannotMount(
                f"position {last - 1} lies beyond the length {self.length} that mounted.at was "
                "given: give it the length of prompt and answer together"
            )
        window = self.layers[self._index[module]].window
        gone = total > new and total < (last if padding is None else padding.shape[1])
        if gone and self.extension.changes and window is not None and window > self.train_positions:
            raise CannotMount(
                f"the cache has dropped keys beyond the window of {window}, and extensions count "
                "keys from the first: give the whole sequence at once, with use_cache=False"
            )
        encoding = self.encodings(self.length or last).layers[self._index[module]]
        k_pos = q_pos if total == new else _key_positions(q_pos, padding, total)
        groups = q.shape[1] // k.shape[1]
        k, v = k.repeat_interleave(groups, 1), v.repeat_interleave(groups, 1)
        if total > new:
            # The suite's queries and keys are the same tokens: those before have a query of zeros.
            q = torch.cat((q.new_zeros(*q.shape[:2], total - new, q.shape[3]), q), 2)
        order = None if padding is None else _tokens_first(padding[:, -total:])
        if order is not None:
            q, k, v = (_reordered(t, order) for t in (q, k, v))
            k_pos = k_pos.expand(order.shape).gather(1, order)
        nothing = q.new_empty(q.shape[0], total, 0)
        plan = encoding.encode(Attention(q, k, v, nothing, k_pos, k_pos, scale))  # type: ignore[operator]
        self.paths.add(plan.path)
        if order is None:
            out = attend_from(plan, total - new) if total > new else attend(plan)
        else:
            rows = order.argsort(1)[:, total - new :]  # where the new tokens have gone
            start = int(rows.min())
            out = attend_from(plan, start) if start else attend(plan)
            out = _reordered(out, rows - start)
        return out.to(v.dtype)


MOUNTED: WeakKeyDictionary[nn.Module, Mounted] = WeakKeyDictionary()


def attention(
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Any,
    scaling: float | None = None,
    dropout: float = 0.0,
    **settings: Any,
) -> tuple[Tensor, None]:
    """Transformers calls this with [batch, heads, n, width] and gets [batch, n, heads, width]."""
    refuse_settings(module, dropout, settings)
    if not isinstance(attention_mask, Mask):
        raise CannotMount(
            "attention_mask must be [batch, tokens] with 0 for padding, or left out: the suite "
            "makes every other mask itself"
        )
    scale = 1 / math.sqrt(query.shape[-1]) if scaling is None else scaling
    out = MOUNTED[module]._attention(module, query, key, value, attention_mask, scale)
    return out.transpose(1, 2).contiguous(), None


NOT_OURS = {"softcap": "a bound on scores (softcap)", "s_aux": "a learned sink (s_aux)"}
"""A model may ask its attention for these, which the suite does not have for models."""


def refuse_settings(module: nn.Module, dropout: float, settings: dict[str, Any]) -> None:
    if dropout:
        raise CannotMount(
            f"dropout is {dropout} in attention, and a mounted model is for measuring: call "
            "model.eval()"
        )
    for name, what in NOT_OURS.items():
        if settings.get(name) is not None:
            raise CannotMount(
                f"{type(module).__name__} has {what} in its attention, which a mounted model "
                "cannot have: choose a model without it"
            )


def real_pair(rotary: nn.Module, output: Any) -> tuple[Tensor, Tensor]:
    """Cosine and sine, as nearly all rotary embeddings of transformers return them."""
    if not (isinstance(output, tuple) and len(output) == 2 and not output[0].is_complex()):
        raise CannotMount(
            f"{type(rotary).__name__} returns no cosine and sine, so its rotation cannot be "
            "switched off: choose a model whose rotary embedding does"
        )
    return output


def positions_in(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Tensor:
    """The `position_ids` of a call of a rotary embedding, [batch|1, n]."""
    positions = kwargs["position_ids"] if "position_ids" in kwargs else args[1]
    if positions.ndim != 2:
        raise CannotMount(
            f"position_ids have the shape {tuple(positions.shape)}, one position for each of "
            "several axes: choose a model that counts tokens alone"
        )
    return positions


def _key_positions(q_pos: Tensor, padding: Tensor | None, total: int) -> Tensor:
    """The positions of all keys where some come from a cache, [batch|1, total].

    A cache keeps no positions, so they are counted: tokens by the mask, or back from the last.
    """
    new = q_pos.shape[1]
    if padding is None:
        back = torch.arange(1 - total, 1, device=q_pos.device)
        counted, tokens = q_pos[:, -1:] + back, torch.ones_like(q_pos, dtype=torch.bool)
    else:
        counted = (padding.long().cumsum(1) - 1).clamp(min=0)[:, -total:]
        tokens = padding[:, -new:]
    if bool(((counted[:, -new:] != q_pos) & tokens).any()):
        raise CannotMount(
            "position_ids do not count the tokens that the attention_mask names: with keys in a "
            "cache they must, or give the whole sequence at once"
        )
    return counted


def _tokens_first(tokens: Tensor) -> Tensor:
    """The order in which tokens come before padding, [batch, n], both as they were.

    Then no query sees padding, and what counts keys by index counts from the first token.
    """
    return (~tokens).long().argsort(stable=True, dim=1)


def _reordered(x: Tensor, order: Tensor) -> Tensor:
    """The rows of `x` [batch, heads, n, width] in the `order` [batch, m]."""
    index = order[:, None, :, None].expand(-1, x.shape[1], -1, x.shape[3])
    return x.gather(2, index)


AttentionInterface.register(NAME, attention)
AttentionMaskInterface.register(NAME, mask)
