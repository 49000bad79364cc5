"""The interface of a position encoding, and the stack that holds one encoding per layer."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Self

import torch
from torch import Tensor, nn

from posbench.core.attention import Attention, Plan


@dataclass(frozen=True)
class Draw:
    """What an encoding may use to draw the positions of one batch."""

    batch_size: int
    generator: torch.Generator
    training: bool = False  # False in validation and test


class PositionEncoding(nn.Module):
    """How position enters the transformer. The base class is NoPE: it encodes nothing.

    A method overrides one or two of `positions`, `embed` and `encode`. Positions always arrive
    as an argument and must never be rebuilt from a shape: that would silently break random,
    shifted and task-supplied ids.

    Declarations (the conformance suite measures each of them):

    `shared`           parameters or submodules tied over layers
    `handles`          what an extension may change: "frequencies", "distance", "positions", "rows",
                       "mask", "temperature"
    `relative`         shifting all positions by a constant changes nothing
    `float_positions`  non-integer positions are accepted
    `max_positions`    number of positions that exist, None for no limit
    `ids`              the position ids it takes: the "index" of a token, or a kind from `Task.ids`
    `method_class`     the kind of result it gives: rows are compared within their class
    """

    shared: tuple[str, ...] = ()
    handles: frozenset[str] = frozenset({"mask", "temperature"})
    relative: bool = True
    float_positions: bool = True
    max_positions: int | None = None
    ids: str = "index"
    method_class: str = "zero-shot"

    def positions(self, ids: Tensor, draw: Draw) -> Tensor:
        """Turn the task's `ids` [batch|1, n] into positions, [batch|1, n] or [batch|1, n, axes].

        This runs outside the model, so that the forward pass stays a pure function of its inputs.
        """
        return ids

    def span(self, length: int, training: bool = False) -> int:
        """One more than the largest position that `positions` may give for ids below `length`.

        It may differ between `training` and test.
        """
        return length

    def embed(self, x: Tensor, pos: Tensor) -> Tensor:
        """Add position to token embeddings [batch, n, model_width], before the first layer."""
        return x

    def encode(self, a: Attention) -> Plan:
        """The plan that attention executes in one layer."""
        return a

    def variant(self, **changes: object) -> Self:
        """A copy with some attributes changed that shares the very same parameters.

        AttributeError if the encoding has no such attribute.
        """
        new = copy.copy(self)
        # copy.copy shares the registries: setting a buffer on the copy would change the original.
        for registry in ("_parameters", "_buffers", "_modules"):
            new.__dict__[registry] = dict(self.__dict__[registry])
        for name, value in changes.items():
            if not hasattr(new, name):
                raise AttributeError(f"{type(self).__name__} has no {name!r} to vary")
            setattr(new, name, value)
        return new


DECLARATIONS = (
    "handles",
    "relative",
    "float_positions",
    "max_positions",
    "ids",
    "method_class",
)
"""What a wrapper declares as its host does, unless its class says otherwise."""


def declares(cls: type, base: type, name: str) -> bool:
    """Whether `cls`, or a class between it and `base`, states `name` itself."""
    return any(name in vars(each) for each in cls.__mro__[: cls.__mro__.index(base)])


class Wrapper(PositionEncoding):
    """An encoding around a host: it changes what goes into the host and leaves the rest to it.

    Its declarations are the host's unless a subclass overrides them. An attribute that the wrapper
    lacks is read from the host, and an extension that changes it changes the host.
    """

    def __init__(self, host: PositionEncoding) -> None:
        super().__init__()
        self.host = host
        for name in DECLARATIONS:
            if not declares(type(self), Wrapper, name):
                setattr(self, name, getattr(host, name))

    def positions(self, ids: Tensor, draw: Draw) -> Tensor:
        return self.host.positions(ids, draw)

    def span(self, length: int, training: bool = False) -> int:
        return self.host.span(length, training)

    def embed(self, x: Tensor, pos: Tensor) -> Tensor:
        return self.host.embed(x, pos)

    def encode(self, a: Attention) -> Plan:
        return self.host.encode(a)

    def register_parameter(self, name: str, param: nn.Parameter | None) -> None:
        # torch first asks whether the name is taken, and a parameter of the host may have it.
        host = self._modules.pop("host")
        super().register_parameter(name, param)
        self._modules["host"] = host

    def __getattr__(self, name: str) -> Any:
        try:
            return super().__getattr__(name)
        except AttributeError:
            if name == "host":  # not set yet: looking it up would recurse
                raise
            return getattr(self.host, name)

    def variant(self, **changes: object) -> Self:
        ours = {
            name: value
            for name, value in changes.items()
            if name in self.__dict__ or name in self._modules
        }
        new = super().variant(**ours)
        theirs = {name: value for name, value in changes.items() if name not in ours}
        if theirs:
            new.host = self.host.variant(**theirs)
        return new


def tie(layer: PositionEncoding, first: PositionEncoding) -> None:
    """Give a layer the shared parameters of the first layer, also inside wrapped hosts."""
    for name in layer.shared:
        setattr(layer, name, getattr(first, name))
    for name, child in layer.named_children():
        if isinstance(child, PositionEncoding):
            tie(child, getattr(first, name))


class EncodingStack(nn.Module):
    """One encoding per layer; layers of one specification tie the parameters in its `shared`."""

    def __init__(self, layers: Sequence[PositionEncoding], num_specifications: int = 1) -> None:
        super().__init__()
        self.layers = nn.ModuleList(layers)
        self.firsts = tuple(range(min(num_specifications, len(layers))))
        for index, layer in enumerate(layers):
            tie(layer, layers[index % num_specifications])

    def __iter__(self) -> Iterator[PositionEncoding]:
        return iter(self.layers)  # type: ignore[arg-type]

    def __len__(self) -> int:
        return len(self.layers)

    @property
    def handles(self) -> frozenset[str]:
        return frozenset().union(*(layer.handles for layer in self))

    @property
    def max_positions(self) -> int | None:
        limits = [layer.max_positions for layer in self if layer.max_positions is not None]
        return min(limits, default=None)

    @property
    def method_class(self) -> str:
        return max(
            (layer.method_class for layer in self),
            key=lambda name: name != PositionEncoding.method_class,
        )

    # Positions are drawn once per forward pass, so the first layer answers for all layers.

    @property
    def ids(self) -> str:
        return next(iter(self)).ids

    def positions(self, ids: Tensor, draw: Draw) -> Tensor:
        return next(iter(self)).positions(ids, draw)

    def span(self, length: int, training: bool = False) -> int:
        return next(iter(self)).span(length, training)

    def embed(self, x: Tensor, pos: Tensor) -> Tensor:
        for index in self.firsts:  # each specification once
            x = self.layers[index].embed(x, pos)  # type: ignore[operator]
        return x

    def replaced(self, layers: Sequence[PositionEncoding]) -> EncodingStack:
        """The same stack with other encodings, which keep their tied parameters."""
        new = copy.copy(self)
        new.__dict__["_modules"] = {**self.__dict__["_modules"], "layers": nn.ModuleList(layers)}
        return new
