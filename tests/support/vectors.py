"""Vectors as lists of Python floats."""

from __future__ import annotations

import math
from collections.abc import Sequence

from torch import Tensor, nn


def dot(x: Sequence[float], y: Sequence[float]) -> float:
    return sum(u * v for u, v in zip(x, y, strict=True))


def plus(x: Sequence[float], y: Sequence[float]) -> list[float]:
    return [u + v for u, v in zip(x, y, strict=True)]


def applied(matrix: Sequence[Sequence[float]], vector: Sequence[float]) -> list[float]:
    return [dot(row, vector) for row in matrix]


def sigmoid(u: float) -> float:
    return 1 / (1 + math.exp(-u))


def linear(layer: nn.Linear, x: Tensor) -> list[list[list[float]]]:
    """[batch][token][output], sum by sum."""
    weight, bias = (
        layer.weight.tolist(),
        [0.0] * layer.out_features if layer.bias is None else layer.bias.tolist(),
    )
    return [
        [[dot(row, token) + b for row, b in zip(weight, bias, strict=True)] for token in tokens]
        for tokens in x.tolist()
    ]


def softplus(x: float) -> float:
    return math.log(1 + math.exp(x))
