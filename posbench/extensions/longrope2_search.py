"""LongRoPE2: a search for the pair from which on angles were not seen, and for the factors."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from posbench.base.errors import ConfigError
from posbench.core.encoding import EncodingStack
from posbench.core.extension import Extension, Searched, Trial, rank
from posbench.core.frequencies import Frequencies
from posbench.extensions.longrope import LongRoPE
from posbench.extensions.longrope_search import common
from posbench.extensions.turns import turns


class LongRoPE2Factors(LongRoPE):
    r"""$\lambda_m = s\,r_m$ for $m \ge c$, $(s\,r_c)^{m/c}$ for the faster pairs, and 1 where s is
    1 (LongRoPE2, arXiv 2502.20082, section 3.2).

    `critical` c is the pair from which on angles were not all seen in training, `ratios` r are
    those of its factor and of the slower ones to s, from 1 on and never falling. The pairs before c
    have NTK's factors at the base that leads up to $\lambda_c$. Left out (null), c is the first
    pair that does not complete a turn, and r are ones: `LongRoPE` without a list. Cosine and sine
    have no factor here, as in the paper's pseudocode. Up to the training length the original
    frequencies are used, so that lists with r > 1 change at once beyond it.
    """

    def __init__(
        self,
        critical: int | None = None,
        ratios: Sequence[float] | None = None,
        scale: float | None = None,
    ) -> None:
        super().__init__(None, None, scale)
        if (critical is None) != (ratios is None):
            raise ConfigError("critical is where ratios begin: give both or none")
        if ratios is not None and not all(a <= b for a, b in itertools.pairwise([1, *ratios])):
            raise ConfigError(
                f"ratios must be at least 1 and not fall from pair to pair, got {list(ratios)}"
            )
        self.critical = critical
        self.ratios = None if ratios is None else tuple(map(float, ratios))

    def stretch(
        self, frequencies: Frequencies, train_positions: int, scale: float
    ) -> tuple[float, ...]:
        if self.ratios is None or self.critical is None:
            return super().stretch(frequencies, train_positions, scale)
        if scale == 1:
            return (1.0,) * frequencies.count
        slow = tuple(scale * ratio for ratio in self.ratios)
        edge = slow[0] if slow else scale
        return tuple(edge ** (m / self.critical) for m in range(self.critical)) + slow

    def magnitude(self, train_positions: int, scale: float) -> float:
        return 1.0


class LongRoPE2Search(Searched):
    r"""LongRoPE2 searches for the pair where training ends and for the factors of the slower pairs.

    LongRoPE2's search for the real critical pair and the factors from there on (arXiv
    2502.20082), at the price of `budget` evaluations on a validation length.

    The first candidate takes the pair that theory has. Half of the budget goes to the paper's first
    generation: c between the first pair of fewer than 10 turns in training and that of fewer than
    1, all factors from c on the same, between s and 2 s. The rest are mutations of one of the best
    4 so far: each factor from c on is drawn anew with probability 0.3 between those of its
    neighbours, so that they never fall and stay from s to 2 s. The paper has a population of 64 and
    40 generations.

    The paper's perplexity of needles alone is the loss here: that of the answers of the task. Its
    needles are at the start of the text, and answers here are where the task has them. It searches
    one list for one length; here ratios to s make a list for every length. The training on short
    and long texts that follows in the paper is left out, and so nothing changes at the training
    length.
    """

    BEST = 4
    CHANCE = 0.3

    def __init__(self, budget: int = 24, multiple: float = 3.0) -> None:
        super().__init__(LongRoPE2Factors(), budget, multiple)

    def candidates(
        self, stack: EncodingStack, train_positions: int, rng: np.random.Generator
    ) -> Iterator[tuple[dict[str, Any], LongRoPE2Factors]]:
        """The first generation, over and over."""
        bounds = self.bounds(stack, train_positions)
        while bounds is not None:
            count, first, last = bounds
            for critical in rng.permutation(np.arange(first, last + 1)).tolist():
                yield made(critical, [rng.uniform(1, 2)] * (count - critical))

    @staticmethod
    def bounds(stack: EncodingStack, train_positions: int) -> tuple[int, int, int] | None:
        """The number of pairs, and the first with fewer than 10 turns and than 1."""
        frequencies = common(stack)
        if frequencies is None:
            return None
        found = turns(frequencies, train_positions)
        first, last = (sum(each >= least for each in found) for least in (10, 1))
        return len(found), first, last

    def trials(
        self,
        stack: EncodingStack,
        train_positions: int,
        rng: np.random.Generator,
        loss: Callable[[Extension], float],
    ) -> list[Trial]:
        drawn = self.candidates(stack, train_positions, rng)
        found = [Trial({}, self.extension, loss(self.extension))]
        bounds = self.bounds(stack, train_positions)
        for index in range(1, self.budget if bounds is not None else 1):
            assert bounds is not None
            best = sorted(found, key=rank)[: self.BEST]
            parent = best[rng.integers(len(best))].settings or theory(*bounds)
            mutate = index > self.budget // 2 and parent["ratios"]
            settings, each = self.mutated(parent, rng) if mutate else next(drawn)
            found.append(Trial(settings, each, loss(each)))
        return sorted(found, key=rank)

    def mutated(
        self, parent: dict[str, Any], rng: np.random.Generator
    ) -> tuple[dict[str, Any], LongRoPE2Factors]:
        """At least one factor is drawn anew."""
        ratios = list(parent["ratios"])
        chosen = rng.uniform(size=len(ratios)) < self.CHANCE
        chosen[rng.integers(len(ratios))] |= not chosen.any()
        for place in np.flatnonzero(chosen).tolist():
            low, high = [1.0, *ratios][place], [*ratios, 2.0][place + 1]
            ratios[place] = rng.uniform(low, high)
        return made(parent["critical"], ratios)


def theory(count: int, first: int, last: int) -> dict[str, Any]:
    """The settings of the first candidate, which has none."""
    return {"critical": last, "ratios": [1.0] * (count - last)}


def made(critical: int, ratios: list[float]) -> tuple[dict[str, Any], LongRoPE2Factors]:
    return {"critical": critical, "ratios": ratios}, LongRoPE2Factors(critical, ratios)
