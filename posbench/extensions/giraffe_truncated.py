"""Giraffe's truncated basis: slow frequencies are cut by what training has shown."""

from __future__ import annotations

import math

from posbench.base.errors import ConfigError
from posbench.core.frequencies import Frequencies
from posbench.extensions.turns import turns
from posbench.extensions.unscaled import Unscaled


class GiraffeTruncated(Unscaled):
    r"""Fast pairs stay, those between share one low frequency, and the slowest stop turning.

    $\theta'_m = \theta_m$ where $\theta_m \ge c$, $\rho = c/$`slowing` where $\theta_m \ge
    c/$`span`, and 0 below, with $c = 2\pi\,$`turns`$/L$: the truncated basis of Giraffe (arXiv
    2308.10882).

    Pairs that turn `turns` times in training are kept: all their angles have been seen. The next
    ones share the one slow frequency $\rho$, and the rest carry content alone. The published code
    has a period T, $c = 2\pi/T$, which is `turns` = 1 for T = L, with a `span` of 8 and a `slowing`
    of 16. Published with fine-tuning, here without: the training length is changed as well.
    """

    def __init__(self, turns: float = 1.0, span: float = 8.0, slowing: float = 16.0) -> None:
        super().__init__()
        if not turns > 0:
            raise ConfigError(
                f"turns is how often a pair that is kept turns in training, above 0, got {turns}"
            )
        if not slowing >= span >= 1:
            raise ConfigError(
                f"needs slowing >= span >= 1, so that no pair is sped up, got {slowing} and {span}"
            )
        self.turns = turns
        self.span = span
        self.slowing = slowing

    def unscaled(self, frequencies: Frequencies, train_positions: int) -> tuple[float, ...]:
        def one(r: float) -> float:
            if r >= self.turns:
                return 1.0
            return r * self.slowing / self.turns if r >= self.turns / self.span else math.inf

        return tuple(map(one, turns(frequencies, train_positions)))
