"""Hosts compute their scores at the distances that an extension tells them, against loops that
share no code with them.
"""

from __future__ import annotations

import cmath
import math
import os
import resource
from collections.abc import Callable, Sequence

import pytest
import torch
from distances import CASES, HOSTS, MODEL, POSITIONS, TESTED, TRAINED, Distance, N, drawn, method
from loops import HEADS, SCALE, WIDTH, by_pairs, call, product, same
from torch import Tensor

from posbench.base.errors import IllegalExtension
from posbench.core.attention import Attention, Heads, Regions, attend, dense
from posbench.core.encoding import EncodingStack, PositionEncoding
from posbench.encodings.alibi import ALiBi
from posbench.encodings.learned import Learned
from posbench.encodings.nape import NAPE
from posbench.encodings.nope import NoPE
from posbench.encodings.random_positions import RandomPositions
from posbench.encodings.rope import RoPE
from posbench.encodings.scale_invariant import ScaleInvariant
from posbench.encodings.shaw import Shaw
from posbench.encodings.t5 import T5
from posbench.encodings.vo_rope import VORoPE
from posbench.extensions.ntk import NTK
from posbench.extensions.rerope import ReRoPE
from posbench.extensions.self_extend import SelfExtend

FRACTIONS = {"leaky_rerope", "interpolate_distance"}


def floored(p: Sequence[float], i: int, j: int, name: str) -> float:
    """What a host that knows whole positions only is told instead of a fraction."""
    i_pos, j_pos = p[i] - p[0], p[j] - p[0]
    if name == "interpolate_distance":
        return math.floor(i_pos * TRAINED / TESTED) - math.floor(j_pos * TRAINED / TESTED)
    return (
        i_pos - j_pos
        if i_pos - j_pos < 4
        else math.floor(4 + (i_pos - 4) / 5) - math.floor(j_pos / 5)
    )


# -- on hosts --------------------------------------------------------------------------------------


def rope_score(a: Attention, distance: Callable[[int, int, int], float]) -> Tensor:
    """Complex numbers, pair m in channels m and m + half."""
    q, k, half = a.q.tolist(), a.k.tolist(), WIDTH // 2

    def score(b: int, h: int, i: int, j: int) -> float:
        total = 0.0
        for m in range(half):
            left, right = (complex(t[m], t[m + half]) for t in (q[b][h][i], k[b][h][j]))
            total += (
                left * right.conjugate() * cmath.exp(1j * distance(b, i, j) * 10000 ** (-m / half))
            ).real
        return SCALE * total

    return by_pairs(a, score)


def bucket(distance: float, count: int = 6, furthest: int = 14) -> int:
    """T5's, in Python floats; distances near an edge of the logarithm do not occur below."""
    distance = max(distance, 0)
    if distance < count // 2:
        return int(distance)
    far = (
        math.log(distance / (count // 2)) / math.log(furthest / (count // 2)) * (count - count // 2)
    )
    return min(count // 2 + int(far), count - 1)


def compare(actual: Tensor, expected: Tensor, visible: Callable[[int, int], bool]) -> None:
    keep = torch.tensor([[j <= i and visible(i, j) for j in range(N)] for i in range(N)])
    same(torch.where(keep, actual, 0.0), torch.where(keep, expected, 0.0), 1e-9)


def by_batch(distance: Distance, positions: Sequence[float]) -> Callable[[int, int, int], float]:
    return lambda b, i, j: distance([p + 2 * b for p in positions], i, j)


HOSTED = pytest.mark.parametrize(
    "positions", [POSITIONS["counted"], POSITIONS["with gaps"]], ids=["counted", "with gaps"]
)


def scores(name: str, host: PositionEncoding, a: Attention) -> Tensor:
    plan = CASES[name][0].apply(host, TRAINED, TESTED).encode(a)
    return torch.cat([plan.logits(slice(0, 9)), plan.logits(slice(9, N))], -2)


@HOSTED
@method("double loop")
def test_on_rope(name: str, positions: Sequence[float]) -> None:
    a, (_, distance, visible) = call(positions), CASES[name]
    compare(scores(name, RoPE(WIDTH), a), rope_score(a, by_batch(distance, positions)), visible)


@HOSTED
@method("double loop")
def test_on_alibi(name: str, positions: Sequence[float]) -> None:
    a, (_, distance, visible) = call(positions), CASES[name]
    content, place, slopes = product(a), by_batch(distance, positions), ALiBi(HEADS).slopes
    expected = by_pairs(a, lambda b, h, i, j: content(b, h, i, j) - slopes[h] * place(b, i, j))
    compare(scores(name, ALiBi(HEADS), a), expected, visible)


@HOSTED
@method("double loop")
def test_on_t5(name: str, positions: Sequence[float]) -> None:
    a, (_, distance, visible) = call(positions), CASES[name]
    host = T5(HEADS, MODEL, 6, 14).double()
    content, place, table = product(a), by_batch(distance, positions), host.table.tolist()
    expected = by_pairs(
        a, lambda b, h, i, j: content(b, h, i, j) + table[bucket(place(b, i, j))][h]
    )
    compare(scores(name, host, a), expected, visible)


@HOSTED
@method("double loop")
def test_on_shaw_with_its_values(name: str, positions: Sequence[float]) -> None:
    clip = 6
    a, (extension, distance, visible) = call(positions), CASES[name]
    host = Shaw(WIDTH, clip).double()
    place = by_batch(
        (lambda p, i, j: floored(p, i, j, name)) if name in FRACTIONS else distance, positions
    )
    keys, values, q, v = (t.tolist() for t in (host.keys, host.values, a.q, a.v))
    content = product(a)

    def row(b: int, i: int, j: int) -> int:
        return clip - int(max(-clip, min(clip, place(b, i, j))))

    def score(b: int, h: int, i: int, j: int) -> float:
        relative = sum(x * y for x, y in zip(q[b][h][i], keys[row(b, i, j)], strict=True))
        return content(b, h, i, j) + SCALE * relative

    z = by_pairs(a, lambda b, h, i, j: score(b, h, i, j) if j <= i and visible(i, j) else -math.inf)
    weights = z.softmax(-1).tolist()
    expected = [
        [
            [
                [
                    sum(
                        weights[b][h][i][j] * (v[b][h][j][c] + values[row(b, i, j)][c])
                        for j in range(i + 1)
                    )
                    for c in range(WIDTH)
                ]
                for i in range(N)
            ]
            for h in range(HEADS)
        ]
        for b in range(2)
    ]
    plan = extension.apply(host, TRAINED, TESTED).encode(a)
    for out in (dense(plan), attend(plan, 6)):
        same(out, torch.tensor(expected, dtype=torch.float64))


# -- hosts and other extensions --------------------------------------------------------------------


def test_frequencies_are_stretched_before_or_after() -> None:
    a, base = call(range(N)), RoPE(WIDTH)
    for name in CASES:
        region, stretch = CASES[name][0], NTK()
        first = region.apply(stretch.apply(base, TRAINED, TESTED), TRAINED, TESTED)
        last = stretch.apply(region.apply(base, TRAINED, TESTED), TRAINED, TESTED)
        assert first.frequencies == last.frequencies != base.frequencies
        assert torch.equal(dense(first.encode(a)), dense(last.encode(a)))
        assert not torch.equal(
            dense(first.encode(a)), dense(region.apply(base, TRAINED, TESTED).encode(a))
        )


def test_a_region_can_be_taken_hold_of_no_more() -> None:
    extended = ReRoPE(4).extend(EncodingStack([RoPE(WIDTH), NoPE()], 2), TRAINED, TESTED)
    assert extended.layers[0].handles == RoPE.handles - {"distance"}
    assert type(extended.layers[1]) is NoPE
    with pytest.raises(IllegalExtension, match="needs distance"):
        SelfExtend(4).extend(extended, TRAINED, TESTED)
    with pytest.raises(IllegalExtension, match="needs distance"):
        ReRoPE(4).extend(EncodingStack([Learned(MODEL, 20)]), TRAINED, TESTED)


def test_drawn_positions_reach_the_host_as_they_are_told() -> None:
    a, host = call([2, 3, 9, 11, 19]), RandomPositions(RoPE(WIDTH), 20)
    extended = ReRoPE(5).apply(host, 20, 20)
    assert extended.span(4) == 20 and extended.method_class == "trained beyond"
    plan = extended.encode(a)
    expected = rope_score(a, lambda b, i, j: min(a.k_pos[b, i].item() - a.k_pos[b, j].item(), 5))
    same(plan.logits(slice(0, 5)).tril(), expected.tril())


def test_heads_that_a_host_splits_stay_split() -> None:
    """NAPE's biased heads and its others, each scaled by the distance told."""
    a = call(range(N))
    plan = ReRoPE(4).apply(ScaleInvariant(NAPE(HEADS)), TRAINED, TESTED).encode(a)
    assert isinstance(plan, Heads) and all(isinstance(part, Regions) for part in plan.parts)
    content = product(a)

    def score(b: int, h: int, i: int, j: int) -> float:
        octaves = 2 * math.log1p(max(0, min(i - j, 4)) / 10)
        return (
            (1 + octaves) ** 0.5 * content(b, h, i, j) - octaves - (min(i - j, 4) if h == 0 else 0)
        )

    same(plan.logits(slice(0, N)).tril(), by_pairs(a, score).tril())


def test_hosts_without_a_place_for_several_positions_are_refused() -> None:
    a = call(range(N))
    with pytest.raises(IllegalExtension, match="finished outputs"):
        ReRoPE(4).apply(ScaleInvariant(VORoPE(WIDTH)), TRAINED, TESTED).encode(a)
    with pytest.raises(IllegalExtension, match="regions already"):
        ReRoPE(4).apply(ReRoPE(3).apply(RoPE(WIDTH), TRAINED, TESTED), TRAINED, TESTED).encode(a)


@pytest.mark.parametrize("name", CASES)
def test_fractions_of_a_caller_are_not_rounded_for_hosts_of_whole_positions(name: str) -> None:
    a = call([0.25 + 0.75 * i for i in range(N)])
    extended = CASES[name][0].apply(Shaw(WIDTH, 4), TRAINED, TESTED)
    assert not extended.float_positions
    with pytest.raises((IndexError, RuntimeError)):
        dense(extended.encode(a))


@pytest.mark.parametrize("name", CASES)
def test_blocks_of_rows_give_the_same_and_the_future_nothing(name: str) -> None:
    extended, a = CASES[name][0].apply(drawn("t5"), TRAINED, TESTED), call(range(N))
    whole = attend(extended.encode(a), N)
    for block in (1, 7):
        same(attend(extended.encode(a), block), whole, 1e-12)
    later = Attention(*(t.clone() for t in (a.q, a.k, a.v, a.x)), a.q_pos, a.k_pos, a.scale)
    for t in (later.q, later.k, later.v, later.x):
        t[..., 13:, :] += 1.0
    same(attend(extended.encode(later))[..., :13, :], whole[..., :13, :], 1e-12)


# -- memory ----------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "host"), [("dca", "rope"), ("streaming_llm", "shaw"), ("leaky_rerope", "t5")]
)
def test_a_long_sequence_is_worked_on_in_little_memory(name: str, host: str) -> None:
    """Blocks of 64 of 16,384 rows: the peak of a child process, above what it started with, in
    MiB.
    """
    n, heads = 16_384, HEADS
    read, write = os.pipe()
    if (child := os.fork()) == 0:
        pos = torch.arange(n)[None]
        q, k, v = (torch.randn(1, heads, n, WIDTH) for _ in range(3))
        a = Attention(q, k, v, torch.randn(1, n, heads * WIDTH), pos, pos, SCALE)
        start = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        with torch.inference_mode():
            plan = CASES[name][0].apply(HOSTS[host](), 512, n).encode(a)
            for begin in (0, 8_192, n - 64):
                rows = slice(begin, begin + 64)
                plan.output(plan.weights(plan.logits(rows), rows), rows)
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        os.write(write, str((peak - start) // 1024).encode())
        os._exit(0)
    os.close(write)
    with os.fdopen(read) as pipe:
        assert int(pipe.read()) < 300
    os.waitpid(child, 0)
