"""Mounted models that have more than a rotation: sinks, soft caps, chunks, windows that an
extension may widen, tables of other forms, layers with a state.

`Mounted` is what published records were measured with, and stays as it is. Here is what it lacks.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor, nn
from transformers import AttentionInterface, AttentionMaskInterface, PreTrainedModel

from posbench.core.attention import Attention, Normaliser, Plan, softmax
from posbench.core.encoding import EncodingStack, PositionEncoding, Wrapper
from posbench.encodings.sink import with_sink
from posbench.pretrained.mounting import MOUNTED, Layer, Mask, Mounted, mask
from posbench.pretrained.refusal import CannotMount
from posbench.pretrained.turned_parts import is_pair

NAME = "posbench-richer"


@dataclass(frozen=True)
class Scores:
    """What a layer does to its scores besides positions."""

    sink: Tensor | None = None  # [heads], one more logit
    cap: float | None = None  # logits z become cap * tanh(z / cap)

    def __bool__(self) -> bool:
        return self.sink is not None or self.cap is not None

    def normaliser(self, heads: slice) -> Normaliser:
        """What takes the place of the softmax, for some of the heads."""
        inner = softmax if self.sink is None else with_sink(self.sink[heads].detach())
        cap = self.cap
        if cap is None:
            return inner
        return lambda logits, allowed: inner(cap * torch.tanh(logits / cap), allowed)


class Scored(Wrapper):
    """An encoding with what the layer does to all scores, whatever extension made them."""

    def __init__(self, host: PositionEncoding, scores: Scores) -> None:
        super().__init__(host)
        self.scores = scores

    def encode(self, a: Attention) -> Plan:
        def changed(part: Attention, heads: slice) -> Attention:
            if part.normalise is not softmax:
                raise CannotMount(
                    "the extension normalises weights in its own way, and so does the model, by a "
                    "sink or a bound on its scores: choose another extension"
                )
            return replace(part, normalise=self.scores.normaliser(heads))

        return self.host.encode(a).each(changed)


class OfChunk(Wrapper):
    """The host in chunks that are counted by position: a cache may have dropped the first keys."""

    def __init__(self, host: PositionEncoding, chunk: int) -> None:
        super().__init__(host)
        self.chunk = chunk

    def encode(self, a: Attention) -> Plan:
        q_chunk, k_chunk = a.q_pos // self.chunk, a.k_pos // self.chunk
        return self.host.encode(
            a.where(lambda rows: (q_chunk[:, rows, None] == k_chunk[:, None])[:, None])
        )


@dataclass(frozen=True)
class RicherLayer(Layer):
    """A layer that may attend in chunks, and may change its scores.

    `window` of a chunk is its size: no distance within it is longer.
    """

    chunk: int | None = None
    scores: Scores = field(default_factory=Scores)


class Richer(Mounted):
    """A mounted model with whatever `RicherLayer` says, and with any rotary table.

    Positions may have several axes, as long as all are alike, as they are for text.
    """

    def mount(self) -> None:
        super().mount()
        self.model.set_attn_implementation(NAME)

    def trained(self, length: int) -> EncodingStack:
        stack = super().trained(length)
        return stack.replaced(
            [
                encoding if chunk is None else OfChunk(layer.form.at(length), chunk)
                for layer, encoding in zip(self.layers, stack, strict=True)
                for chunk in (getattr(layer, "chunk", None),)
            ]
        )

    def encodings(self, length: int) -> EncodingStack:
        if length not in self._stacks:
            stack = super().encodings(length)
            extended = self.extension.extend(self.trained(length), self.train_positions, length)
            self._stacks[length] = stack.replaced(
                [
                    Scored(encoding, scores) if scores else encoding
                    for layer, usual, new in zip(self.layers, stack, extended, strict=True)
                    for encoding in (new if _is_widened(layer, new) else usual,)
                    for scores in (getattr(layer, "scores", None),)
                ]
            )
        return self._stacks[length]

    def _attention(
        self, module: nn.Module, q: Tensor, k: Tensor, v: Tensor, mask: Mask, scale: float
    ) -> Tensor:
        assert self._positions is not None
        last, total = int(self._positions.max()) + 1, k.shape[2]
        known = last if mask.padding is None else mask.padding.shape[1]
        if q.shape[2] < total < known:
            index = self._index[module]
            layer, encoding = self.layers[index], self.encodings(self.length or last).layers[index]
            if _is_widened(layer, encoding):
                raise CannotMount(
                    f"the cache has dropped keys beyond the window of {layer.window}, and the "
                    "extension widens it: give the whole sequence at once, with use_cache=False"
                )
        return super()._attention(module, q, k, v, mask, scale)

    def _unrotated(
        self, rotary: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], output: Any
    ) -> Any:
        self._positions = text_positions(args, kwargs)
        return still(rotary, output)


def _is_widened(layer: Layer, encoding: object) -> bool:
    """Whether the window of a layer is another one than that of the model."""
    while isinstance(encoding, Wrapper):
        if (window := vars(encoding).get("window")) is not None:
            return bool(window != layer.window)
        encoding = encoding.host
    return False


def still(rotary: nn.Module, output: Any) -> Any:
    """The table of a rotary embedding that turns nothing, in the form that it has."""
    if isinstance(output, Tensor) and output.is_complex():
        return torch.ones_like(output)
    if is_pair(output):
        cos, sin = output
        return torch.ones_like(cos), torch.zeros_like(sin)
    raise CannotMount(
        f"{type(rotary).__name__} returns neither cosine and sine nor complex numbers, so its "
        "rotation cannot be switched off: choose a model whose rotary embedding does"
    )


def text_positions(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Tensor:
    """The `position_ids` of a call of a rotary embedding, [batch|1, n]; of several axes, one."""
    found = kwargs.get("position_ids")
    if found is None:
        # Whatever else a rotary embedding is given is no integer.
        found = next(
            (each for each in args if isinstance(each, Tensor) and not each.is_floating_point()),
            None,
        )
    if found is None:
        raise CannotMount(
            "the rotary embedding is called without position_ids: choose a model that gives them"
        )
    if found.ndim == 3 and bool((found == found[:1]).all()):
        found = found[0]
    if found.ndim == 1:
        found = found[None]
    if found.ndim != 2:
        raise CannotMount(
            f"position_ids have the shape {tuple(found.shape)}, unlike positions on several axes: "
            "give text alone, of which all axes count the same"
        )
    return found


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
    """As that of `mounting`, for layers that are given a sink or a bound on their scores."""
    refuse_dropout(dropout)
    if not isinstance(attention_mask, Mask):
        raise CannotMount(
            "attention_mask must be [batch, tokens] with 0 for padding, or left out: the suite "
            "makes every other mask itself"
        )
    scale = 1 / math.sqrt(query.shape[-1]) if scaling is None else scaling
    out = MOUNTED[module]._attention(module, query, key, value, attention_mask, scale)
    return out.transpose(1, 2).contiguous(), None


def refuse_dropout(dropout: float) -> None:
    if dropout:
        raise CannotMount(
            f"dropout is {dropout} in attention, and a mounted model is for measuring: call "
            "model.eval()"
        )


# -- layers with a state ---------------------------------------------------------------------------


class Tokens:
    """A layer of a cache that keeps the tokens themselves, and so can be cut back."""

    def __init__(self, tokens: Tensor) -> None:
        self.tokens = tokens

    def crop(self, max_length: int) -> None:
        self.tokens = self.tokens[:, : len(self.tokens[0]) + max_length]


@dataclass
class Later:
    """A reading of all tokens so far, made only where its logits are looked at."""

    model: PreTrainedModel
    tokens: Tensor
    settings: dict[str, Any]

    @functools.cached_property
    def logits(self) -> Tensor:
        return self.model(input_ids=self.tokens, use_cache=False, **self.settings).logits


class Rereads:
    """A model that reads a text again for each question, for its states cannot be cut back.

    An empty cache that it is called with holds tokens then. All else is the model's.
    """

    def __init__(self, model: PreTrainedModel) -> None:
        self.itself = model

    def __getattr__(self, name: str) -> Any:
        return getattr(self.itself, name)

    def __call__(self, *, input_ids: Tensor, past_key_values: Any = None, **settings: Any) -> Any:
        layers = None if past_key_values is None else past_key_values.layers
        if layers is None or (layers and not isinstance(layers[0], Tokens)):
            given = {} if layers is None else {"past_key_values": past_key_values}
            return self.itself(input_ids=input_ids, **given, **settings)
        settings.pop("use_cache", None)
        keep = settings.pop("logits_to_keep", input_ids.shape[1])
        if not layers:
            layers.append(Tokens(input_ids[:, :0]))
        known = layers[0]
        known.tokens = torch.cat((known.tokens, input_ids), 1)
        return Later(self.itself, known.tokens, settings | {"logits_to_keep": keep})


def itself(model: Any) -> PreTrainedModel:
    """The model of transformers, also where texts are read again."""
    return model.itself if isinstance(model, Rereads) else model


class RereadingMounted(Richer):
    """A mounted model whose texts are read again for each question.

    `caches` says whether an answer may grow token by token, with the cache that the model makes.
    """

    def __init__(
        self,
        model: PreTrainedModel,
        layers: Sequence[Layer],
        rotaries: list[nn.Module],
        train_positions: int,
    ) -> None:
        super().__init__(model, list(layers), rotaries, train_positions)
        self.model = Rereads(model)  # type: ignore[assignment]  # it is called as the model is
        self.caches = False

    def generate(self, input_ids: Tensor, max_new_tokens: int, **settings: Any) -> Any:
        """As that of `Mounted`, with a cache only where one was shown to change nothing."""
        return super().generate(
            input_ids, max_new_tokens, **({} if self.caches else {"use_cache": False}) | settings
        )


AttentionInterface.register(NAME, attention)
AttentionMaskInterface.register(NAME, mask)
