"""Hosts, and extensions of them from 4 positions seen in training to the 7 of `loops`."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import torch
from loops import HEADS, WIDTH, N, shaken

from posbench.core.encoding import PositionEncoding
from posbench.core.extension import Extension
from posbench.encodings.alibi import ALiBi
from posbench.encodings.nape import NAPE
from posbench.encodings.rope import RoPE
from posbench.encodings.stick_breaking import StickBreaking
from posbench.encodings.t5 import T5
from posbench.encodings.transformer_xl import TransformerXL

L = 4  # positions seen in training, of N = 7

HOSTS: dict[str, Callable[[], PositionEncoding]] = {
    "rope": lambda: RoPE(WIDTH),
    "alibi": lambda: ALiBi(HEADS),
    "t5": lambda: T5(HEADS, 64, 4, 8),
    "txl": lambda: TransformerXL(HEADS, WIDTH, HEADS * WIDTH),
    "nape": lambda: NAPE(HEADS),
    "stick": lambda: StickBreaking(),
}
hosts = pytest.mark.parametrize("make", HOSTS.values(), ids=list(HOSTS))


def host(make: Callable[[], PositionEncoding]) -> PositionEncoding:
    torch.manual_seed(0)
    return shaken(make())


def extended(extension: Extension, base: PositionEncoding, test: int = N) -> PositionEncoding:
    return extension.apply(base, L, test)


def log_n(i: int, p: float) -> float:
    return max(1.0, math.log(i + 1) / math.log(L))
