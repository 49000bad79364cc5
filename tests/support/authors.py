"""Numbers of the authors' code, run once, in tests/data; each file names where it comes from."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch
from loops import HEADS, WIDTH
from torch import Tensor

from posbench.core.attention import Attention

MODEL = HEADS * WIDTH
FLOAT32 = 2e-5  # numbers of the authors' code, which runs in float32


def published(name: str) -> dict[str, Any]:
    return json.loads((Path(__file__).parent.parent / "data" / f"{name}.json").read_text())


def tensor(values: list[Any]) -> Tensor:
    return torch.tensor(values, dtype=torch.float64)


def published_call(data: dict[str, Any], scale: float, x: Tensor | None = None) -> Attention:
    q, k, v = (tensor(data[name]) for name in "qkv")
    pos = torch.arange(q.shape[-2])[None]
    x = torch.zeros(q.shape[0], q.shape[2], MODEL, dtype=torch.float64) if x is None else x
    return Attention(q, k, v, x, pos, pos, scale=scale)
