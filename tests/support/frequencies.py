"""What extensions do to frequencies, in Python floats, and sizes to try them at."""

from __future__ import annotations

import math
from collections.abc import Callable

from posbench.core.encoding import PositionEncoding
from posbench.core.extension import FrequencyExtension

L = 42  # positions of training
TURN = 2 * math.pi
Table = Callable[[list[float], int, float], list[float]]
"""(frequencies as they are, positions of training, s) -> frequencies as they become"""


def tapered(n: int) -> Table:
    def table(theta: list[float], train: int, s: float) -> list[float]:
        falling = [math.cos(math.pi * i / (n - 1) / 2) ** 2 for i in range(n)]
        falling[-1] = 0.0
        return theta[:-n] + [t * part for t, part in zip(theta[-n:], falling, strict=True)]

    return table


def cut(n: int) -> Table:
    return lambda theta, train, s: theta[:-n] + [0.0] * n


def warm(s: float) -> float:
    return 0.1 * math.log(s) + 1


def theta_of(encoding: PositionEncoding) -> list[float]:
    return encoding.frequencies.theta().tolist()  # type: ignore[operator, union-attr]


def extended(
    extension: FrequencyExtension, encoding: PositionEncoding, train: int, test: int
) -> list[float]:
    return theta_of(extension.apply(encoding, train, test))


SIZES = [
    (4, 10000.0, 42),
    (16, 10000.0, 25),
    (32, 10000.0, 265),
    (64, 10000.0, 4096),
    (64, 500_000.0, 8192),
]
