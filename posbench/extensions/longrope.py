"""LongRoPE: one stretch for each pair, from a list."""

from __future__ import annotations

import math
from collections.abc import Sequence

from posbench.base.errors import ConfigError
from posbench.core.encoding import PositionEncoding
from posbench.core.extension import FrequencyExtension
from posbench.core.frequencies import Frequencies
from posbench.extensions.turns import turns


class LongRoPE(FrequencyExtension):
    r"""Each pair has a factor of its own, found by a search and given as a list.

    $\lambda_m$ = `long_factors`[m] for tests beyond the training length L, `short_factors`[m]
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
