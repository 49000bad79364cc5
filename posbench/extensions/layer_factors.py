"""A factor of extension for each layer."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from posbench.base.errors import ConfigError
from posbench.core.encoding import EncodingStack, PositionEncoding
from posbench.core.extension import Extension, Scaled, Searched

FLAT = (1.0, 1.0, 1.0)
"""The same factor s in every layer."""


class LayerFactors(Scaled):
    r"""Every layer is extended by a factor of its own, which follows a curve over the depth.

    Layer l of N is extended by $s_l = s^{e(t)}$ at $t = l/(N - 1)$ with the Bézier curve $e(t) = (1
    - t)^2 e_0 + 2 t (1 - t)\,e_1 + t^2 e_2$ (arXiv 2503.04355).

    `make` builds the extension of a layer from its `scale`, such as PI or NTK. `exponents` are
    $e_0, e_1, e_2$, from 0, which leaves a layer as it is; with 1, 1, 1 every layer has s. Left out
    (null), s is L'/L for each test length, and nothing changes at the training length.

    Of the paper only the abstract could be read, which names factors for each layer, PI and dynamic
    NTK, Bézier curves and a genetic algorithm. The degree of the curve and powers of s, which make
    one curve serve every length, are of this suite. Two layers have the ends of the curve alone.
    """

    def __init__(
        self,
        make: Callable[..., Extension],
        exponents: Sequence[float] = FLAT,
        scale: float | None = None,
    ) -> None:
        super().__init__(scale)
        if len(exponents) != 3 or not all(0 <= each < math.inf for each in exponents):
            raise ConfigError(
                f"exponents are three numbers of a curve, each at least 0, got {list(exponents)}"
            )
        try:
            inner = make(scale=1.0)
        except TypeError:
            raise ConfigError(
                "make builds an extension that has no scale, which a layer could have for itself: "
                "choose one that has, as pi or ntk"
            ) from None
        self.make = make
        self.needs = inner.needs
        self.exponents = tuple(map(float, exponents))

    def factor(self, layer: int, layers: int, scale: float) -> float:
        """The factor of one layer of so many."""
        t = layer / max(layers - 1, 1)
        first, middle, last = self.exponents
        power = (1 - t) ** 2 * first + 2 * t * (1 - t) * middle + t**2 * last
        return float(scale**power)

    def apply(
        self, encoding: PositionEncoding, train_positions: int, test_positions: int
    ) -> PositionEncoding:
        """What the first layer is given: only `extend` knows the depth."""
        scale = self.factor(0, 1, self.scale_at(train_positions, test_positions))
        return self.make(scale=scale).apply(encoding, train_positions, test_positions)

    def extend(
        self, stack: EncodingStack, train_positions: int, test_positions: int
    ) -> EncodingStack:
        scale = self.scale_at(train_positions, test_positions)
        extended = []
        for index in range(len(stack)):
            inner = self.make(scale=self.factor(index, len(stack), scale))
            extended.append(list(inner.extend(stack, train_positions, test_positions))[index])
        return stack.replaced(extended)


class LayerFactorsSearch(Searched):
    r"""A search for the curve that gives every layer its factor of extension.

    `LayerFactors` with the three numbers of its curve from `budget` evaluations on a validation
    length (arXiv 2503.04355).

    The first candidate has s in every layer. The others are drawn at random from $[0, 1.25]^3$, the
    range from a layer that stays to 1.25 s at about s = 2.5. The paper has a genetic algorithm, of
    which no more than the name could be read.
    """

    HIGHEST = 1.25

    def __init__(
        self, make: Callable[..., Extension], budget: int = 24, multiple: float = 2.5
    ) -> None:
        super().__init__(LayerFactors(make), budget, multiple)
        self.make = make

    def candidates(
        self, stack: EncodingStack, train_positions: int, rng: np.random.Generator
    ) -> Iterator[tuple[dict[str, Any], Extension]]:
        while True:
            exponents = rng.uniform(0, self.HIGHEST, size=3).tolist()
            yield {"exponents": exponents}, LayerFactors(self.make, exponents)
