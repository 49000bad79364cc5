"""The temperature of YaRN without its frequencies."""

from __future__ import annotations

import math

from posbench.core.encoding import PositionEncoding
from posbench.core.extension import Scaled
from posbench.extensions.temperature import Heated, constant


class YarnTemperature(Scaled):
    r"""Scores get the temperature of YaRN without its frequencies.

    $\tau = (0.1 \ln s + 1)^2$ for every query: the temperature of YaRN (arXiv 2309.00071)
    without its frequencies.

    YaRN multiplies cosine and sine by $0.1 \ln s + 1$ and so the scores of rotated channels by the
    square. Here the content scores are multiplied, whatever they are made of, so that encodings
    without rotation have the temperature too; a bias is not. On RoPE, PI and this are YaRN with
    nothing kept. Where only a part of the channels is rotated YaRN leaves the rest alone, and this
    does not. The constants were fitted to perplexities of LLaMA.

    s is `scale`, or left out (null) $\max(1, L'/L)$ for each test length. Unlike the other
    temperatures it is the same for early and late queries: at a longer test the first L are
    sharpened as well.
    """

    needs = "temperature"

    def apply(
        self, encoding: PositionEncoding, train_positions: int, test_positions: int
    ) -> PositionEncoding:
        factor = (0.1 * math.log(self.scale_at(train_positions, test_positions)) + 1) ** 2
        return Heated(encoding, constant(factor))
