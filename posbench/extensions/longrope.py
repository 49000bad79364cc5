"""LongRoPE: one stretch for each pair, from a list."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from posbench.encoding import EncodingStack, PositionEncoding
from posbench.errors import ConfigError
from posbench.extension import FrequencyExtension, Searched
from posbench.extensions.by_parts import turns
from posbench.frequencies import Frequencies


class LongRoPE(FrequencyExtension):
    r"""$\lambda_m$ = `long_factors`[m] for tests beyond the training length L, `short_factors`[m]
    up to it, cos and sin times $\sqrt{1 + \ln s/\ln L}$ for s > 1 (LongRoPE, arXiv 2402.13753;
    transformers' "longrope").

    The lists are published for each model: they come from a search on validation data, over lists
    that do not decrease with m, from 1 to 1.25 s. Without a list, and so by default, $\lambda_m =
    s^{\min(1,\,m/c)}$ with c the first pair that does not complete a turn in training: every pair
    whose angles were not all seen is interpolated, the others lie on a geometric scale below. It is
    a list to start a search from, not the result of one: LongRoPE2 (arXiv 2502.20082) keeps that
    scale, and searches c and the factors from c on, which it finds above s.

    A missing `short_factors` are ones, and so is s at L where `scale` is left out: nothing changes
    there. The paper also leaves the first tokens of a sequence unstretched; released models do not,
    nor does this.
    """

    def __init__(
        self,
        long_factors: Sequence[float] | None = None,
        short_factors: Sequence[float] | None = None,
        scale: float | None = None,
    ) -> None:
        super().__init__(scale)
        if short_factors is not None and long_factors is None:
            raise ConfigError(
                "short_factors are given without long_factors: a search finds both, so give both "
                "or none"
            )
        for name, factors in (("long_factors", long_factors), ("short_factors", short_factors)):
            if any(not factor >= 1 for factor in factors or ()):
                raise ConfigError(f"{name} are stretches of at least 1, got {min(factors or ())}")
        self.long_factors = None if long_factors is None else tuple(map(float, long_factors))
        self.short_factors = None if short_factors is None else tuple(map(float, short_factors))

    @property
    def is_identity(self) -> bool:
        return super().is_identity and set(self.short_factors or ()) <= {1.0}

    def stretch(
        self, frequencies: Frequencies, train_positions: int, scale: float
    ) -> tuple[float, ...]:
        """The list to start from."""
        found = turns(frequencies, train_positions)
        critical = min((m for m, r in enumerate(found) if r < 1), default=len(found))
        return tuple(
            scale ** (min(m / critical, 1.0) if critical else 1.0) for m in range(len(found))
        )

    def magnitude(self, train_positions: int, scale: float) -> float:
        return math.sqrt(1 + math.log(scale) / math.log(train_positions))

    def apply(
        self, encoding: PositionEncoding, train_positions: int, test_positions: int
    ) -> PositionEncoding:
        frequencies: Frequencies = encoding.frequencies  # type: ignore[assignment]  # promised by the handle
        scale = self.scale_at(train_positions, test_positions)
        if self.long_factors is None:
            factors = self.stretch(frequencies, train_positions, scale)
        elif test_positions > train_positions:
            factors = self.long_factors
        else:
            factors = self.short_factors or (1.0,) * frequencies.count
        if len(factors) != frequencies.count:
            raise ConfigError(
                f"a list of LongRoPE has one factor for each frequency: give {frequencies.count}, "
                f"got {len(factors)}"
            )
        return encoding.variant(
            frequencies=frequencies.stretched(factors, self.magnitude(train_positions, scale))
        )


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
    r"""LongRoPE with its search (arXiv 2402.13753), at the price of `budget` evaluations on a
    validation length.

    The paper evolves lists of factors that do not fall, from 1 to 1.25 s, for each target length.
    Here one list of exponents (`LongRoPEExponents`) is drawn at random for all lengths: $e_m =
    r\,u_{(m)}^p$ with u a sorted sample of K uniform numbers, $p = 2^{U(-2, 2)}$, so that lists
    rise early, late or evenly, and $r = U(0.8, 1.1)$, the exponent of the slowest pair (1.25 s at s
    = 3 is an exponent of 1.2). The first candidate is the list that `LongRoPE` has without a
    search. The paper's unstretched first tokens and list for short texts are left out: at the
    training length nothing changes.
    """

    def __init__(self, budget: int = 24, multiple: float = 3.0) -> None:
        super().__init__(LongRoPEExponents(), budget, multiple)

    def candidates(
        self, stack: EncodingStack, train_positions: int, rng: np.random.Generator
    ) -> Iterator[tuple[dict[str, Any], LongRoPEExponents]]:
        held: list[Any] = [layer for layer in stack if "frequencies" in layer.handles]
        counts: set[int] = {layer.frequencies.count for layer in held}
        if len(counts) > 1:
            raise ConfigError(
                f"one list cannot stretch layers of {' and '.join(map(str, sorted(counts)))} "
                "frequencies"
            )
        while counts:
            shape, highest = 2 ** rng.uniform(-2, 2), rng.uniform(0.8, 1.1)
            exponents = (highest * np.sort(rng.uniform(size=min(counts))) ** shape).tolist()
            yield {"exponents": exponents}, LongRoPEExponents(exponents)
