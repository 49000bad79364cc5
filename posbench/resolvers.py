"""The two functions that YAML files may call."""

from __future__ import annotations

from typing import Any

from omegaconf import OmegaConf

from posbench.errors import ConfigError


def register() -> None:
    OmegaConf.register_new_resolver("positions", _positions, replace=True)
    OmegaConf.register_new_resolver("divide", _divide, replace=True)


def _positions(share: float, at_most: int | None = None, *, _root_: Any) -> int:
    """`${positions:0.5,32}`: half of the positions seen in training, at most 32."""
    count = max(1, round(share * _root_.train_positions))
    return count if at_most is None else min(count, at_most)


def _divide(a: int, b: int) -> int:
    """`${divide:${model.width},${model.num_heads}}`: the whole part; whether it divides is checked elsewhere."""
    if not isinstance(a, int) or not isinstance(b, int) or b < 1:
        raise ConfigError(f"cannot divide {a} by {b}: both must be whole numbers, the second at least 1")
    return a // b
