"""The function that YAML files may call."""

from __future__ import annotations

from typing import Any

from omegaconf import OmegaConf


def register() -> None:
    OmegaConf.register_new_resolver("positions", _positions, replace=True)


def _positions(share: float, at_most: int | None = None, *, _root_: Any) -> int:
    """`${positions:0.5,32}`: half of the positions seen in training, at most 32."""
    count = max(1, round(share * _root_.train_positions))
    return count if at_most is None else min(count, at_most)
