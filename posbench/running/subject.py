"""An untrained encoding that the command line chooses, for checks and drawings, and small calls."""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator
from typing import Any
from weakref import WeakKeyDictionary

import torch
from hydra.core.global_hydra import GlobalHydra
from torch import Tensor, nn

from posbench.base.errors import PosbenchError
from posbench.config.building import build
from posbench.config.compose import compose
from posbench.config.legality import supplying_tasks
from posbench.config.options import BROKEN, options, resolved
from posbench.core.attention import Attention, dense
from posbench.core.encoding import PositionEncoding
from posbench.core.extension import Extension
from posbench.core.transformer import Transformer
from posbench.running.setup import Setup

BATCH, HEADS, WIDTH, MODEL = 2, 2, 16, 32  # sizes of the small calls below and of their model
CPU_HEAD = 32  # head width of the cpu protocol
EXACT = 1e-9
MANY = 512
"""Positions of the longest call: checks hold whole matrices of scores."""

Outputs = tuple[Tensor, Tensor]

_extensions: WeakKeyDictionary[Any, dict[tuple[Any, ...], Extension]] = WeakKeyDictionary()
"""Extensions that each Hydra has built, by their name and the sizes of the subject. They keep
nothing of what they extend, so one of each is enough for all encodings.
"""


class Broken(PosbenchError, AssertionError):
    """A promise that an encoding does not keep."""


def setup(*overrides: str) -> Setup:
    """The set-up of a command line, at the smoke protocol unless told otherwise."""
    asked = any(word.startswith("protocol=") for word in overrides)
    return Setup.of(compose(*([] if asked else ["protocol=smoke"]), *overrides).cfg())


class Subject:
    """An encoding as the command line chooses it.

    Needs an initialised Hydra. Setups hold no weights, so they are kept; each model is built
    anew.
    """

    def __init__(self, *words: str) -> None:
        self.words = words
        kind = setup(*words).encodings()[0].ids
        if kind != "index":  # the task with most symbols is taken among those that supply the ids
            tasks = [f"task={name}" for name in supplying_tasks(kind)]
            most = max(tasks, key=lambda word: setup(*words, word).task.vocab_size)
            self.words = (*words, most)
        self.made = functools.cache(self._made)

    def _made(self, *overrides: str) -> Setup:
        sizes = (f"model.width={MODEL}", f"model.num_heads={HEADS}", f"model.head_width={WIDTH}")
        return setup(*self.words, *sizes, *overrides)

    def model(self, *overrides: str) -> Transformer:
        return self.made(*overrides).model().double().eval()

    def layers(self, *overrides: str) -> Iterator[PositionEncoding]:
        """One encoding per specification, built from the configuration, in float64."""
        stack = self.model(*overrides).encodings
        return iter([stack.layers[index] for index in stack.firsts])  # type: ignore[misc]

    def stirred_model(self) -> Transformer:
        """`model`, with the encodings' parameters off from where they begin."""
        model = self.model()
        stir(model.encodings)
        return model

    def stirred(self) -> Iterator[PositionEncoding]:
        """`layers` of the `stirred_model`."""
        stack = self.stirred_model().encodings
        return iter([stack.layers[index] for index in stack.firsts])  # type: ignore[misc]

    @property
    def longest(self) -> int:
        """The positions of the longest test, which an encoding must be able to take, up to MANY."""
        return min(self.made().test_positions, MANY)

    @property
    def classes(self) -> list[type]:
        """The classes of the encodings in its layers."""
        return list(dict.fromkeys(type(layer) for layer in self.made().encodings()))

    def extension(self, name: str) -> Extension:
        """An extension at the lengths of this subject, without composing everything else again."""
        run, hydra = self.made(), GlobalHydra.instance().hydra
        assert hydra is not None
        known = _extensions.setdefault(hydra, {})
        sizes = {key: run.nodes[key] for key in ("model", "train_positions", "test_positions")}
        key = (name, run.train_positions, run.test_positions, *run.nodes["model"].items())
        if key not in known:
            known[key] = build(resolved("extension", name, sizes), "extension")
        return known[key]

    def extensions(self) -> Iterator[tuple[str, Extension]]:
        """All extensions that can be built; a broken one of the user is passed over."""
        for name in options("extension"):
            try:
                yield name, self.extension(name)
            except BROKEN:
                continue

    def settings(self) -> list[tuple[str, float]]:
        """The encoding's numeric settings.

        Those interpolated from elsewhere, such as sizes of the model, are left out.
        """
        return list(_numbers(compose(*self.words).content["encoding"]))


def _numbers(node: Any, prefix: str = "") -> Iterator[tuple[str, float]]:
    if isinstance(node, dict):
        for key, value in node.items():
            yield from _numbers(value, f"{prefix}{key}.")
    elif isinstance(node, int | float) and not isinstance(node, bool):
        yield prefix.rstrip("."), node


def call(
    n: int,
    pos: Tensor | None = None,
    dtype: torch.dtype = torch.float64,
    width: int = WIDTH,
    batch: int = BATCH,
) -> Attention:
    """One attention call on random inputs."""
    generator = torch.Generator().manual_seed(0)
    q, k, v = (
        torch.randn(batch, HEADS, n, width, generator=generator, dtype=dtype) for _ in range(3)
    )
    x = torch.randn(batch, n, HEADS * width, generator=generator, dtype=dtype)
    pos = torch.arange(n)[None] if pos is None else pos
    segments = (torch.arange(n) >= n // 2).long()[None]
    return Attention(q, k, v, x, pos, pos, scale=width**-0.5, segments=segments)


def outputs(encoding: PositionEncoding, pos: Tensor, width: int = WIDTH) -> Outputs:
    """The embeddings that an encoding returns, and the output of attention under it."""
    a = call(pos.shape[1], pos, width=width)
    return encoding.embed(a.x, pos), dense(encoding.encode(a))


def difference(a: Outputs, b: Outputs) -> float:
    """The largest difference of any entry; infinite if shapes differ or an entry is no number."""
    if any(x.shape != y.shape for x, y in zip(a, b, strict=True)):
        return torch.inf
    each = [(x.detach() - y.detach()).abs().max().item() for x, y in zip(a, b, strict=True)]
    # Python's max returns NaN only where it comes first.
    return torch.inf if any(map(math.isnan, each)) else max(each)


def require(condition: bool, sentence: str) -> None:
    if not condition:
        raise Broken(sentence)


def stir(encodings: nn.Module) -> None:
    """Move parameters off from where they begin: what begins at zero would hide whatever it is
    multiplied with.
    """
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for parameter in encodings.parameters():
            noise = torch.randn(parameter.shape, generator=generator, dtype=torch.float64)
            parameter.add_(0.3 * noise)


def finite(tensors: Outputs, where: str) -> None:
    require(
        all(bool(torch.isfinite(t).all()) for t in tensors),
        f"{where} some outputs are infinite or not a number: look for logarithms, roots and powers "
        "of what can be zero or negative, and for rows of attention without a visible key",
    )


def random_tokens(n: int) -> Tensor:
    return torch.randint(8, 20, (2, n), generator=torch.Generator().manual_seed(0))
