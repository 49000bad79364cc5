"""The distance that each region extension tells a host, written once more for every pair in plain
Python, from the papers.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import pytest
import torch
from loops import HEADS, WIDTH, call
from torch import Tensor

from posbench.core.attention import Attention
from posbench.core.encoding import PositionEncoding
from posbench.encodings.alibi import ALiBi
from posbench.encodings.deberta import DeBERTa
from posbench.encodings.kerple_log import KerpleLog
from posbench.encodings.nape import NAPE
from posbench.encodings.projected_logits import ProjectedLogits
from posbench.encodings.rope import RoPE
from posbench.encodings.scale_invariant import ScaleInvariant
from posbench.encodings.shaw import Shaw
from posbench.encodings.t5 import T5
from posbench.encodings.transformer_xl import TransformerXL
from posbench.encodings.xpos import XPos
from posbench.extensions.clamp import Clamp
from posbench.extensions.dca import DCA
from posbench.extensions.interpolate_distance import InterpolateDistance
from posbench.extensions.jet_long import JetLong
from posbench.extensions.lampe import LaMPE
from posbench.extensions.leaky_rerope import LeakyReRoPE
from posbench.extensions.lm_infinite import LMInfinite
from posbench.extensions.mesa import Mesa
from posbench.extensions.regions import RegionExtension
from posbench.extensions.rerope import ReRoPE
from posbench.extensions.self_extend import SelfExtend
from posbench.extensions.self_extend_logistic import LogisticSelfExtend
from posbench.extensions.streaming_llm import StreamingLLM
from posbench.extensions.string import STRING

TRAINED, TESTED = 8, 20
N = TESTED
MODEL = HEADS * WIDTH

POSITIONS: dict[str, Sequence[float]] = {
    "counted": list(range(N)),
    "shifted": [100_003 + i for i in range(N)],
    "with gaps": [3 * i - i % 3 + (40 if i > 14 else 0) for i in range(N)],
    "running back": [12, 11, 7, 7, 5, 2, 0, 1, 9, 30, 4, 4, 3, 25, 26, 1, 8, 10, 18, 6],
    "fractional": [0.25 * i**2 + 0.5 for i in range(N)],
}

Distance = Callable[[Sequence[float], int, int], float]
"""(positions, index of the query, of the key) -> d'"""


def d(p: Sequence[float], i: int, j: int) -> float:
    return p[i] - p[j]


def rerope(p: Sequence[float], i: int, j: int) -> float:
    return min(d(p, i, j), 4)


def clamp(p: Sequence[float], i: int, j: int) -> float:
    return min(d(p, i, j), TRAINED - 1)


def leaky(
    p: Sequence[float], i: int, j: int, k: float = 5.0
) -> float:  # (20 - 1 - 4) / (8 - 1 - 4)
    return d(p, i, j) if d(p, i, j) < 4 else 4 + (d(p, i, j) - 4) / k


def self_extend(p: Sequence[float], i: int, j: int, group: int = 4, window: int = 3) -> float:
    if d(p, i, j) < window:
        return d(p, i, j)
    return (p[i] - p[0]) // group - (p[j] - p[0]) // group + window - window // group


def logistic(
    p: Sequence[float],
    i: int,
    j: int,
    window: int = 3,
    rate: float = 0.8,
    capacity: int = 10,
) -> float:
    """Groups are dealt out one after the other, until the one that a place is in."""

    def group(place: float) -> int:
        if place < 0:
            return math.floor(place)
        number, end = 0, 1.0
        while place >= end:
            number += 1
            end += math.floor(capacity / (1 + (capacity - 1) / math.e ** (rate * number)))
        return number

    if d(p, i, j) < window:
        return d(p, i, j)
    return window + group(p[i] - p[0] - window) - group(p[j] - p[0])


def jet_long(p: Sequence[float], i: int, j: int, group: int = 3, window: int = 4) -> float:
    """Places of groups that are counted as tokens come, the first of each at a multiple."""
    if p[i] - p[j] <= window:
        return p[i] - p[j]
    return math.floor((p[i] - p[0]) / group) - math.floor((p[j] - p[0]) / group)


def lampe(p: Sequence[float], i: int, j: int, near: int = 3, far: int = 2, count: int = 4) -> float:
    """Places 0..19 dealt out to groups 0..4 one by one; 4 = 8 / (1 + e^(2 - 20 / 8)), rounded
    down.
    """

    def group(x: float) -> int:
        return math.floor(x * count / (TESTED - 1) + 1e-12)

    q, k = p[i] - p[0], p[j] - p[0]
    kept = max(x for x in range(TESTED) if group(x) == group(far))
    shift = near - (group(near) + 1)
    if q - k <= near:
        return q - k
    if q - k < TESTED - kept:
        return group(q) - group(k) + shift
    edge = TESTED - 1 - kept  # the last distance of the middle, from the last token
    return q - k - edge + group(edge) + shift


def mesa(p: Sequence[float], i: int, j: int, step: int = 3, chunk: int = 3) -> float:
    q, k = p[i] - p[0], p[j] - p[0]
    begin = chunk * (q // chunk)
    return q - k if k >= begin else q - begin + math.ceil(begin / step) - math.floor(k / step)


def dca(p: Sequence[float], i: int, j: int, largest: int = 7, window: int = 2) -> float:
    size = largest - window
    (q_chunk, q), (k_chunk, k) = divmod(p[i] - p[0], size), divmod(p[j] - p[0], size)
    if q_chunk - k_chunk == 1:
        return min(q + size, largest - 1) - k
    return largest - 1 - k if q_chunk > k_chunk else d(p, i, j)


def string(p: Sequence[float], i: int, j: int) -> float:
    return d(p, i, j) if d(p, i, j) < 5 else d(p, i, j) - 5 + 2


def lm_infinite(p: Sequence[float], i: int, j: int) -> float:
    return min(d(p, i, j), TRAINED)


def streaming(p: Sequence[float], i: int, j: int, sinks: int = 2, window: int = 6) -> float:
    """The cache itself: each key follows the one before it, at its own distance, and nothing is
    where keys are gone.
    """
    oldest = max(i - window + 1, 0)
    if oldest <= sinks or j >= sinks:
        return d(p, i, j)
    return p[i] - p[oldest] + 1 + p[sinks - 1] - p[j]


def interpolated(p: Sequence[float], i: int, j: int) -> float:
    return d(p, i, j) / (TESTED / TRAINED)


def everything(i: int, j: int) -> bool:
    return True


CASES: dict[str, tuple[RegionExtension, Distance, Callable[[int, int], bool]]] = {
    "rerope": (ReRoPE(4), rerope, everything),
    "clamp": (Clamp(), clamp, everything),
    "leaky_rerope": (LeakyReRoPE(4), leaky, everything),
    "self_extend": (SelfExtend(3), self_extend, everything),
    "self_extend_logistic": (LogisticSelfExtend(3, 0.8), logistic, everything),
    "jet_long": (JetLong(4), jet_long, everything),
    "lampe": (LaMPE(3, 2, 1.0, 1.0, -2.0), lampe, everything),
    "mesa": (Mesa(3), mesa, everything),
    "dca": (DCA(7, 2), dca, everything),
    "string": (STRING(5, 2), string, everything),
    "lm_infinite": (LMInfinite(2), lm_infinite, lambda i, j: j < 2 or i - j < TRAINED),
    "streaming_llm": (StreamingLLM(2), streaming, lambda i, j: j < 2 or i - j < 6),
    "interpolate_distance": (InterpolateDistance(), interpolated, everything),
}


def method(*kinds: str) -> pytest.MarkDecorator:
    """Every extension, marked with the kinds of its oracle."""
    marks = {name: [pytest.mark.oracle(name, kind) for kind in kinds] for name in CASES}
    return pytest.mark.parametrize(
        "name", [pytest.param(name, marks=marks[name]) for name in CASES]
    )


everywhere = pytest.mark.parametrize("positions", POSITIONS.values(), ids=list(POSITIONS))


class Ruler(PositionEncoding):
    """A host whose scores are the distances that it is told."""

    handles = PositionEncoding.handles | {"distance", "frequencies"}

    def encode(self, a: Attention) -> Attention:
        a = Attention(0 * a.q, a.k, a.v, a.x, a.q_pos, a.k_pos, a.scale, masks=a.masks)
        return a.plus(lambda rows: a.distance(rows)[:, None].double())


def told(
    extension: RegionExtension,
    positions: Sequence[float],
    lengths: tuple[int, int] = (TRAINED, TESTED),
) -> tuple[Tensor, Tensor]:
    """What is told and what is visible, [n, n], of the first batch element."""
    plan = extension.apply(Ruler(), *lengths).encode(call(positions))
    rows = [slice(0, 5), slice(5, len(positions))]
    z, seen = (torch.cat([part(r) for r in rows], -2) for part in (plan.logits, plan.allowed))
    return z[0, 0], seen[0, 0]


def causal(n: int) -> list[tuple[int, int]]:
    return [(i, j) for i in range(n) for j in range(i + 1)]


HOSTS: dict[str, Callable[[], PositionEncoding]] = {
    "rope": lambda: RoPE(WIDTH),
    "xpos": lambda: XPos(WIDTH, 8),
    "alibi": lambda: ALiBi(HEADS),
    "t5": lambda: T5(HEADS, MODEL, 6, 14),
    "kerple": lambda: KerpleLog(HEADS),
    "shaw": lambda: Shaw(WIDTH, 30),
    "transformer_xl": lambda: TransformerXL(HEADS, WIDTH, MODEL),
    "deberta": lambda: DeBERTa(HEADS, WIDTH, MODEL, 30),
    "projected_logits": lambda: ProjectedLogits(HEADS, MODEL, 3, 30),
    "scale_invariant": lambda: ScaleInvariant(NAPE(HEADS)),
}


def drawn(host: str) -> PositionEncoding:
    torch.manual_seed(0)
    return HOSTS[host]().double()
