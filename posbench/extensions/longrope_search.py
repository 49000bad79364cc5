"""LongRoPE with its search for the list."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from posbench.base.errors import ConfigError
from posbench.core.encoding import EncodingStack
from posbench.core.extension import Searched
from posbench.core.frequencies import Frequencies
from posbench.extensions.longrope import LongRoPE


class LongRoPEExponents(LongRoPE):
    r"""$\lambda_m = s^{e_m}$ with `exponents` e, from 0 and never falling: a list of LongRoPE for
    every s at once.

    For one s any list of factors from 1 on is such a list. Left out (null), e is that of `LongRoPE`
    without a list.
    """

    def __init__(
        self, exponents: Sequence[float] | None = None, scale: float | None = None
    ) -> None:
        super().__init__(None, None, scale)
        if exponents is not None and not all(
            a <= b for a, b in itertools.pairwise([0, *exponents])
        ):
            raise ConfigError(
                "exponents must not be negative and not fall from pair to pair, got "
                f"{list(exponents)}"
            )
        self.exponents = None if exponents is None else tuple(map(float, exponents))

    def stretch(
        self, frequencies: Frequencies, train_positions: int, scale: float
    ) -> tuple[float, ...]:
        if self.exponents is None:
            return super().stretch(frequencies, train_positions, scale)
        return tuple(scale**e for e in self.exponents)


class LongRoPESearch(Searched):
    r"""LongRoPE searches for its factors with `budget` evaluations on a validation length.

    LongRoPE with its search (arXiv 2402.13753), at the price of `budget` evaluations on a
    validation length.

    The paper evolves lists of factors that do not fall, from 1 to 1.25 s, for each target length.
    Here one list of exponents (`LongRoPEExponents`) is drawn at random for all lengths: $e_m =
    r\,u_{(m)}^p$ with u a sorted sample of K uniform numbers, $p = 2^{U(-2, 2)}$, so that lists
    rise early, late or evenly, and $r = U(0.8, 1.1)$, the exponent of the slowest pair (1.25 s at s
    = 3 is an exponent of 1.2). The first candidate is the list that `LongRoPE` has without a
    search. The paper's unstretched first tokens and list for short texts are left out: at the
    training length nothing changes.
    """

    def __init__(self, budget: int = 24, multiple: float = 2.5) -> None:
        super().__init__(LongRoPEExponents(), budget, multiple)

    def candidates(
        self, stack: EncodingStack, train_positions: int, rng: np.random.Generator
    ) -> Iterator[tuple[dict[str, Any], LongRoPEExponents]]:
        frequencies = common(stack)
        while frequencies is not None:
            shape, highest = 2 ** rng.uniform(-2, 2), rng.uniform(0.8, 1.1)
            drawn = np.sort(rng.uniform(size=frequencies.count))
            exponents = (highest * drawn**shape).tolist()
            yield {"exponents": exponents}, LongRoPEExponents(exponents)


def common(stack: EncodingStack) -> Frequencies | None:
    """The frequencies that one list is to stretch: those of the first layer that has any."""
    held: list[Any] = [layer for layer in stack if "frequencies" in layer.handles]
    counts: set[int] = {layer.frequencies.count for layer in held}
    if len(counts) > 1:
        raise ConfigError(
            f"one list cannot stretch layers of {' and '.join(map(str, sorted(counts)))} "
            "frequencies"
        )
    return held[0].frequencies if held else None
