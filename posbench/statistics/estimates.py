"""A mean over seeds, with its interval by Student's t."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from scipy import special

from posbench.statistics.aggregates import CONFIDENCE, FEWEST, Array


@dataclass(frozen=True)
class Estimate:
    """A mean over seeds and half the width of its interval, which is NaN for one seed or two."""

    mean: float
    half_width: float

    @classmethod
    def over(cls, seeds: Iterable[float]) -> Estimate:
        [found] = cls.each(np.array(list(seeds), float)[None])
        return found

    @classmethod
    def each(cls, values: Array) -> list[Estimate]:
        """One estimate for each thing, all measured on the same seeds, [thing, seed]."""
        count = values.shape[1]
        means = values.mean(1) if count else np.full(len(values), np.nan)
        if count < FEWEST:
            return [cls(mean, np.nan) for mean in means.tolist()]
        quantile = special.stdtrit(count - 1, (1 + CONFIDENCE) / 2)
        widths = quantile * values.std(1, ddof=1) / count**0.5
        return list(map(cls, means.tolist(), widths.tolist()))
