"""Encodings and extensions for attention of one's own: `from posbench import rope, yarn`.

    position = rope(num_heads=4, head_width=16, trained=64)
    out = position(q, k, v)                                 # [batch, heads, n, head width]
    longer = yarn().extend(position, tested=256)            # shares its weights

Every name of conf/encoding and conf/extension is a function that takes the settings of its YAML.
What a setting follows from, the sizes of a model and the trained positions, is given with it. Where
an encoding and an extension share a name, the name gives the encoding;
`extension("sliding_window")` gives the extension.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from hydra.core.global_hydra import GlobalHydra
from hydra.core.singleton import Singleton
from omegaconf import OmegaConf
from torch import Tensor, nn

from posbench.attention import Attention, attend
from posbench.composing.building import build
from posbench.composing.compose import composing
from posbench.composing.folders import own_names
from posbench.composing.numbers import refuse_unbounded
from posbench.composing.options import node
from posbench.encoding import Draw, EncodingStack, PositionEncoding
from posbench.errors import ConfigError
from posbench.extension import Extension


class Position(nn.Module):
    """A position encoding around causal attention, for one layer."""

    def __init__(self, encoding: PositionEncoding, trained: int) -> None:
        super().__init__()
        self.encoding = encoding
        self.trained = trained  # positions

    def draw(self, n: int, generator: torch.Generator | None = None) -> Tensor:
        """The positions of n tokens, [1, n]: 0 to n - 1 unless the encoding draws others in
        training.
        """
        draw = Draw(1, generator or torch.Generator().manual_seed(0), self.training)
        return self.encoding.positions(torch.arange(n)[None], draw)

    def embed(self, x: Tensor, pos: Tensor | None = None) -> Tensor:
        """Token embeddings [batch, n, width] with what the encoding adds to them, before the first
        layer.
        """
        return self.encoding.embed(x, self._given(pos, x))

    def forward(
        self, q: Tensor, k: Tensor, v: Tensor, x: Tensor | None = None, pos: Tensor | None = None
    ) -> Tensor:
        """Causal attention, [batch, heads, n, head width], of queries, keys and values like that.

        `x` is the normalised input of the layer, [batch, n, width], from which some encodings
        compute.
        """
        x = q.transpose(1, 2).flatten(2) if x is None else x
        pos = self._given(pos, x)
        call = Attention(q, k, v, x, pos, pos, scale=q.shape[-1] ** -0.5)
        return attend(self.encoding.encode(call))

    def _given(self, pos: Tensor | None, x: Tensor) -> Tensor:
        return (self.draw(x.shape[1]) if pos is None else pos).to(x.device)


class UnboundExtension:
    """An extension that has yet to be applied to a trained position encoding."""

    def __init__(self, name: str, settings: dict[str, Any]) -> None:
        self.name, self.settings = name, settings

    def extend(self, position: Position, tested: int) -> Position:
        """The same weights for sequences of `tested` positions; IllegalExtension if it cannot."""
        sizes = {"train_positions": position.trained, "test_positions": tested}
        made: Extension = _built("extension", self.name, self.settings, sizes)
        stack = made.extend(EncodingStack([position.encoding]), position.trained, tested)
        [encoding] = stack
        return Position(encoding, position.trained)


def encoding(name: str) -> Callable[..., Position]:
    """The function behind `from posbench import NAME`, of an encoding."""

    def position(
        num_heads: int, head_width: int, trained: int, longest: int | None = None, **settings: Any
    ) -> Position:
        """The encoding for this many heads; `longest` is that of the tests, 8 times `trained`."""
        width = num_heads * head_width
        model = {"num_heads": num_heads, "head_width": head_width, "width": width}
        sizes = {
            "model": {**model, "embedding_std": 1.0, "num_layers": 1},
            "train_positions": trained,
            "test_positions": longest or 8 * trained,
        }
        return Position(_built("encoding", name, settings, sizes), trained)

    position.__name__ = name
    return position


def extension(name: str) -> Callable[..., UnboundExtension]:
    """The function behind `from posbench import NAME`, of an extension."""
    return lambda **settings: UnboundExtension(name, settings)


def named(name: str) -> Callable[..., Any]:
    """What `posbench.NAME` is, for a name that one of the groups has."""
    return (encoding if name in own_names("encoding") else extension)(name)


def _built(group: str, name: str, settings: dict[str, Any], sizes: dict[str, Any]) -> Any:
    content = OmegaConf.create({**sizes, group: _content(group, name)})
    unknown = settings.keys() - {str(key) for key in content[group]}
    if unknown:
        known = ", ".join(str(key) for key in content[group] if not str(key).startswith("_"))
        raise ConfigError(
            f"{name} has no setting {', '.join(sorted(unknown))}: it takes {known or 'none'}"
        )
    refuse_unbounded(settings)
    content[group].update(settings)
    plain: Any = OmegaConf.to_container(content, resolve=True)
    if "layers" in plain[group]:
        raise ConfigError(f"{name} is a pattern of unlike layers: take the encodings of its layers")
    return build(plain[group], group)


@functools.cache
def _content(group: str, name: str) -> Any:
    with _hydra_of_its_own():
        return OmegaConf.to_container(node(group, name), resolve=False)


@contextmanager
def _hydra_of_its_own() -> Iterator[None]:
    """Hydra for a moment; an application that this runs in keeps its own."""
    before = Singleton.get_state() if GlobalHydra.instance().is_initialized() else None
    try:
        with composing():
            yield
    finally:
        if before is not None:
            Singleton.set_state(before)
