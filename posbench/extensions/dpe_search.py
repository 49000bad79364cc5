"""DPE with a search for the group size of every band."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from posbench.core.encoding import EncodingStack
from posbench.core.extension import Extension, Searched, Trial, rank
from posbench.extensions.dpe import DPE, PUBLISHED


class DPESearch(Searched):
    r"""DPE searches for the group size of every band of frequencies.

    DPE's search for effective distances (arXiv 2504.18857), at the price of `budget` evaluations on
    a validation length: one band at a time is given other groups, while the others stay.

    The authors begin with groups of 2 s in all bands and try, band by band, 1/16, 1/4, 1/2, 2, 4
    and 16 times that: ratios of 1/8, 1/2, 1, 4, 8 and 32 instead of 2. They measure four needles in
    a text. Here the first candidate has the published ratios and the second has 2 in all bands. All
    others change one band of the best so far to another of these ratios, the bands in random order,
    over and over. Where the authors vary each band by itself and put the best together at the end,
    every step here keeps what was found before, so that 24 evaluations reach all bands. What is
    measured is the loss on the answers of the task. Ratios to s serve every length.
    """

    START = 2.0
    RATIOS = (0.125, 0.5, 1.0, 2.0, 4.0, 8.0, 32.0)

    def __init__(self, window: int, budget: int = 24, multiple: float = 2.5) -> None:
        super().__init__(DPE(window), budget, multiple)
        self.window = window

    def candidates(
        self, stack: EncodingStack, train_positions: int, rng: np.random.Generator
    ) -> Iterator[tuple[dict[str, Any], Extension]]:
        """The first of the search itself: the same groups in every band."""
        yield self._made([self.START] * len(PUBLISHED))

    def trials(
        self,
        stack: EncodingStack,
        train_positions: int,
        rng: np.random.Generator,
        loss: Callable[[Extension], float],
    ) -> list[Trial]:
        found = super().trials(stack, train_positions, rng, loss)
        bands: list[int] = []
        while len(found) < self.budget:
            bands = bands or rng.permutation(len(PUBLISHED)).tolist()
            ratios = list(min(found, key=rank).settings.get("ratios", PUBLISHED))
            band = bands.pop()
            ratios[band] = rng.choice([each for each in self.RATIOS if each != ratios[band]]).item()
            settings, each = self._made(ratios)
            found.append(Trial(settings, each, loss(each)))
        return sorted(found, key=rank)

    def _made(self, ratios: list[float]) -> tuple[dict[str, Any], Extension]:
        return {"ratios": ratios}, DPE(self.window, ratios)
