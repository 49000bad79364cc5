"""Extensions that give keys other distances, against per-pair closed forms.

The distance a host is told, and what is visible, are written once more for every pair in plain
Python, from the papers; hosts are told by loops that share no code with them.
"""

from __future__ import annotations

import cmath
import itertools
import math
import os
import resource
from collections.abc import Callable, Sequence
from fractions import Fraction

import pytest
import torch
from loops import HEADS, SCALE, WIDTH, by_pairs, call, product, same
from torch import Tensor

from posbench.attention import Attention, Heads, Regions, attend, dense
from posbench.encoding import EncodingStack, PositionEncoding
from posbench.encodings.alibi import ALiBi
from posbench.encodings.deberta import DeBERTa
from posbench.encodings.kerple_log import KerpleLog
from posbench.encodings.learned import Learned
from posbench.encodings.nape import NAPE
from posbench.encodings.nope import NoPE
from posbench.encodings.projected_logits import ProjectedLogits
from posbench.encodings.random_positions import RandomPositions
from posbench.encodings.rope import RoPE
from posbench.encodings.scale_invariant import ScaleInvariant
from posbench.encodings.shaw import Shaw
from posbench.encodings.t5 import T5
from posbench.encodings.transformer_xl import TransformerXL
from posbench.encodings.vo_rope import VORoPE
from posbench.encodings.xpos import XPos
from posbench.errors import IllegalExtension
from posbench.extensions.clamp import Clamp
from posbench.extensions.dca import DCA
from posbench.extensions.interpolate_distance import InterpolateDistance
from posbench.extensions.leaky_rerope import LeakyReRoPE
from posbench.extensions.lm_infinite import LMInfinite
from posbench.extensions.mesa import Mesa
from posbench.extensions.ntk import NTK
from posbench.extensions.pi import PI
from posbench.extensions.regions import RegionExtension
from posbench.extensions.rerope import ReRoPE
from posbench.extensions.self_extend import SelfExtend
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


# -- the papers, pair by pair ----------------------------------------------------------------------


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
    "mesa": (Mesa(3), mesa, everything),
    "dca": (DCA(7, 2), dca, everything),
    "string": (STRING(5, 2), string, everything),
    "lm_infinite": (LMInfinite(2), lm_infinite, lambda i, j: j < 2 or i - j < TRAINED),
    "streaming_llm": (StreamingLLM(2), streaming, lambda i, j: j < 2 or i - j < 6),
    "interpolate_distance": (InterpolateDistance(), interpolated, everything),
}
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


@everywhere
@method("double loop")
def test_every_pair_is_told_the_distance_of_the_paper(
    name: str, positions: Sequence[float]
) -> None:
    extension, distance, visible = CASES[name]
    actual, seen = told(extension, positions)
    for i, j in causal(N):
        assert bool(seen[i, j]) == visible(i, j), (i, j)
        if visible(i, j):
            assert abs(float(actual[i, j]) - distance(positions, i, j)) < 1e-9, (i, j)


@everywhere
@pytest.mark.parametrize("name", CASES)
def test_regions_cover_the_triangle_once(name: str, positions: Sequence[float]) -> None:
    a, everything = call(positions), slice(0, N)
    first, *others = CASES[name][0].regions(TRAINED, TESTED)
    assert first.keys is None
    covered = torch.zeros(2, N, N, dtype=torch.long)
    for region in others:
        assert region.keys is not None
        covered += region.keys(a, everything).long()
    assert int(covered.max()) <= 1  # the first region takes what is left
    assert not others or int(covered.tril().sum()) > 0


@pytest.mark.parametrize("name", CASES)
def test_all_positions_may_be_shifted(name: str) -> None:
    here, _ = told(CASES[name][0], list(range(N)))
    there, _ = told(CASES[name][0], [5_000_001 + i for i in range(N)])
    same(there.tril(), here.tril(), 1e-9)


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


# -- identities ------------------------------------------------------------------------------------

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


@pytest.mark.parametrize("host", HOSTS)
@method("identity: the host where nothing is moved")
def test_the_training_length_stays_as_declared(name: str, host: str) -> None:
    extension, base = CASES[name][0], drawn(host)

    def change(positions: Sequence[float]) -> float:
        a = call(positions)
        extended = dense(extension.apply(base, TRAINED, TRAINED).encode(a))
        return (extended - dense(base.encode(a))).abs().max().item()

    assert (change(range(TRAINED)) < 1e-9) == extension.is_identity
    if extension.is_identity and base.float_positions:
        assert change([0.75 * i for i in range(TRAINED)]) < 1e-8


COVERING = {
    "rerope": ReRoPE(N),
    "clamp": Clamp(N - 1),
    "leaky_rerope": LeakyReRoPE(N, 3.0),
    "self_extend": SelfExtend(N, 3),
    "mesa": Mesa(N, 3),
    "dca": DCA(N + 2, 2),
    "string": STRING(N, 2),
    "lm_infinite": LMInfinite(1, N),
    "streaming_llm": StreamingLLM(1, N - 1),
}


@pytest.mark.parametrize("host", HOSTS)
@pytest.mark.parametrize("name", COVERING)
def test_a_window_that_covers_the_sequence_leaves_the_host(name: str, host: str) -> None:
    a, base = call(range(N)), drawn(host)
    same(dense(COVERING[name].apply(base, TRAINED, TESTED).encode(a)), dense(base.encode(a)), 1e-12)


@pytest.mark.parametrize("name", sorted(set(COVERING) - {"dca"}))
def test_one_position_less_does_not(name: str) -> None:
    """Where the limit lies: the furthest pair of n tokens is at n - 1."""
    closer = {
        "rerope": ReRoPE(N - 2),
        "clamp": Clamp(N - 2),
        "leaky_rerope": LeakyReRoPE(N - 2, 3.0),
        "self_extend": SelfExtend(N - 2, 3),
        "mesa": Mesa(N - 1, 3),
        "string": STRING(N - 1, 2),
        "lm_infinite": LMInfinite(1, N - 2),
        "streaming_llm": StreamingLLM(1, N - 2),
    }[name]
    before, _ = told(COVERING[name], range(N))
    after, seen = told(closer, range(N))
    changed = (before != after) | ~seen
    assert changed[N - 1].any() and not changed[: N - 2].tril().any()


@pytest.mark.oracle("rerope", "identity: the cap of lm_infinite without its mask")
@pytest.mark.oracle("lm_infinite", "identity: rerope under a mask")
def test_lm_infinite_is_rerope_under_a_mask() -> None:
    masked, seen = told(LMInfinite(2, 5), range(N))
    plain, _ = told(ReRoPE(5), range(N))
    assert torch.equal(masked, plain) and int((~seen).tril().sum()) > 0


@pytest.mark.oracle("clamp", "identity: rerope at the largest trained distance")
def test_clamp_is_rerope_at_the_largest_trained_distance() -> None:
    for here, there in itertools.product((Clamp(), Clamp(TRAINED - 1)), (ReRoPE(TRAINED - 1),)):
        assert torch.equal(told(here, range(N))[0], told(there, range(N))[0])


@pytest.mark.oracle("leaky_rerope", "identity: rerope where the leak is shut")
def test_leaky_rerope_tends_to_rerope() -> None:
    same(told(LeakyReRoPE(4, 1e12), range(N))[0].tril(), told(ReRoPE(4), range(N))[0].tril(), 1e-9)


@pytest.mark.oracle("interpolate_distance", "identity: slopes of ALiBi times L / L'")
def test_interpolated_distances_of_alibi_are_interpolated_slopes() -> None:
    a, flatter = call(range(N)), ALiBi(HEADS)
    flatter.slopes = tuple(slope * TRAINED / TESTED for slope in flatter.slopes)
    extended = InterpolateDistance().apply(ALiBi(HEADS), TRAINED, TESTED).encode(a)
    assert isinstance(extended, Attention) and extended.path == "fused"
    same(dense(extended), dense(flatter.encode(a)))


@pytest.mark.oracle("interpolate_distance", "identity: pi on RoPE")
@pytest.mark.parametrize("scale", [None, 3.0])
def test_interpolated_distances_of_rope_are_position_interpolation(scale: float | None) -> None:
    for positions in (POSITIONS["counted"], POSITIONS["shifted"]):
        a = call(positions)
        ours = InterpolateDistance(scale).apply(RoPE(WIDTH), TRAINED, TESTED)
        theirs = PI(scale).apply(RoPE(WIDTH), TRAINED, TESTED)
        same(dense(ours.encode(a)), dense(theirs.encode(a)), 1e-9)


@pytest.mark.oracle("mesa", "identity: the stair of the paper with N = i - b")
@pytest.mark.parametrize(("chunk", "step"), [(6, 2), (6, 3), (4, 4)])
def test_mesa_is_the_stair_of_the_paper(chunk: int, step: int) -> None:
    actual, _ = told(Mesa(chunk, step), range(N))
    for i, j in causal(N):
        near = i % chunk
        assert actual[i, j] == (i - j if i - j <= near else near + math.ceil((i - j - near) / step))


@everywhere
@pytest.mark.oracle("mesa", "double loop")
@pytest.mark.parametrize(("chunk", "step"), [(3, 4), (5, 2), (2, 7)])
def test_steps_that_do_not_divide_a_chunk(
    chunk: int, step: int, positions: Sequence[float]
) -> None:
    actual, _ = told(Mesa(chunk, step), positions)
    for i, j in causal(N):
        assert actual[i, j] == mesa(positions, i, j, step, chunk)


@pytest.mark.oracle("streaming_llm", "identity: places in a list that keys are evicted from")
def test_streaming_distances_are_places_in_a_cache() -> None:
    sinks, window = 3, 4
    actual, seen = told(StreamingLLM(sinks, window), range(N))
    cache: list[int] = []
    for i in range(N):
        cache.append(i)
        if len(cache) > sinks + window:
            del cache[sinks]
        assert [j for j in range(N) if seen[i, j]] == cache
        for place, j in enumerate(cache):
            assert actual[i, j] == len(cache) - 1 - place


# -- published numbers -----------------------------------------------------------------------------


@pytest.mark.oracle("self_extend", "published numbers")
def test_self_extend_has_the_matrix_of_the_paper() -> None:
    """Figure 3: ten tokens, a pretraining window of 7, groups of 2, a neighbour window of 4."""
    actual, _ = told(SelfExtend(4, 2), range(10))
    assert actual[9].tolist() == [6, 6, 5, 5, 4, 4, 3, 2, 1, 0]
    assert actual[8, :9].tolist() == [6, 6, 5, 5, 4, 3, 2, 1, 0]
    assert told(SelfExtend(4), range(10), (7, 10))[0].tril().equal(actual.tril())


@pytest.mark.oracle("dca", "published numbers")
def test_dca_has_the_matrix_of_the_paper() -> None:
    """Figure 2: twelve tokens in chunks of 6, pretrained on 10; and a third chunk, whose queries
    stand at 9.
    """
    actual, _ = told(DCA(10, 4), range(14))
    assert actual[11, :12].tolist() == [9, 8, 7, 6, 5, 4, 5, 4, 3, 2, 1, 0]
    assert actual[7, :8].tolist() == [7, 6, 5, 4, 3, 2, 1, 0]
    assert actual[12, :13].tolist() == [9, 8, 7, 6, 5, 4, 6, 5, 4, 3, 2, 1, 0]


@pytest.mark.parametrize(("largest", "window"), [(7, 2), (10, 4), (9, 1)])
def test_dca_is_exact_up_to_its_window_and_stays_below_its_limit(largest: int, window: int) -> None:
    actual, _ = told(DCA(largest, window), range(40), (largest, 40))
    for i, j in causal(40):
        assert actual[i, j] == i - j if i - j <= window else window <= actual[i, j] < largest


# -- lengths ---------------------------------------------------------------------------------------

LENGTHS = [
    (length, longer, window)
    for length in (5, 8, 13)
    for longer in (length, 17, 40)
    for window in (2, 3, 4)
]


@pytest.mark.parametrize(("length", "longer", "window"), LENGTHS)
@pytest.mark.parametrize("kind", [SelfExtend, Mesa])
def test_left_out_factors_are_the_smallest_without_new_distances(
    kind: type[SelfExtend] | type[Mesa], length: int, longer: int, window: int
) -> None:
    """Groups and steps from 1 on, tried."""
    actual, _ = told(kind(window), range(longer), (length, longer))
    assert actual.tril().max() < length
    found = next(
        factor
        for factor in itertools.count(1)
        if told(kind(window, factor), range(longer), (length, longer))[0].tril().max() < length
    )
    assert torch.equal(actual.tril(), told(kind(window, found), range(longer))[0].tril())


@pytest.mark.parametrize("name", CASES)
def test_no_distance_is_new(name: str) -> None:
    actual, seen = told(CASES[name][0], range(N))
    largest = {"string": N - 1 - 5 + 2, "lm_infinite": TRAINED, "rerope": 4, "dca": 6}.get(
        name, TRAINED - 1
    )
    bound = (
        pytest.approx(largest)
        if name != "interpolate_distance"
        else pytest.approx((N - 1) * TRAINED / TESTED)
    )
    assert float(torch.where(seen, actual, 0.0).max()) == bound


@pytest.mark.parametrize(("trained", "tested"), [(8, 20), (10, 15), (7, 25), (8, 9)])
def test_distances_that_are_whole_are_told_as_whole_numbers(trained: int, tested: int) -> None:
    """A host that rounds down, as T5 does, must not see 2 as 1.9999 for some of the pairs."""
    positions = range(3, 3 + tested)
    interpolated, _ = told(InterpolateDistance(), positions, (trained, tested))
    leaky, _ = told(LeakyReRoPE(3), positions, (trained, tested))
    for i, j in causal(tested):
        exact = Fraction((i - j) * trained, tested)
        far = 3 + Fraction((i - j - 3) * (trained - 4), tested - 4)
        for actual, expected in (
            (interpolated, exact),
            (leaky, far if i - j >= 3 else Fraction(i - j)),
        ):
            if expected.denominator == 1:
                assert actual[i, j] == int(expected)
            assert abs(actual[i, j].item() - float(expected)) < 1e-9


def test_fixed_factors_are_factors_at_any_length() -> None:
    for extension in (LeakyReRoPE(4, 2.0), SelfExtend(4, 2), Mesa(4, 2), InterpolateDistance(2.0)):
        assert not extension.is_identity
        short, long = (told(extension, range(N), (TRAINED, n))[0] for n in (TRAINED, 4 * TRAINED))
        assert torch.equal(short.tril(), long.tril())
    for none in (LeakyReRoPE(4, 1.0), SelfExtend(4, 1), Mesa(4, 1), InterpolateDistance(1.0)):
        assert none.is_identity and torch.equal(
            told(none, range(N))[0], told(ReRoPE(N), range(N))[0]
        )
    for own in (Clamp(3), LMInfinite(2, 5), StreamingLLM(2, 5)):
        assert not own.is_identity


def test_a_test_shorter_than_training_changes_nothing_where_factors_are_left_out() -> None:
    for name in ("leaky_rerope", "self_extend", "mesa", "interpolate_distance", "clamp"):
        actual, _ = told(CASES[name][0], range(5), (TRAINED, 5))
        same(actual.tril(), told(ReRoPE(N), range(5))[0].tril(), 1e-12)


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


# -- settings at their limit -----------------------------------------------------------------------


def test_settings_at_their_limit_work() -> None:
    for extension in (
        LeakyReRoPE(6),
        SelfExtend(7),
        Mesa(7),
        StreamingLLM(7),
        DCA(2, 1),
        STRING(1, 0),
        LMInfinite(0),
    ):
        actual, seen = told(extension, range(N))
        assert bool(torch.isfinite(actual).all()) and bool(seen.diagonal().all())


def test_a_sequence_shorter_than_the_sinks_is_seen_as_it_is() -> None:
    actual, seen = told(StreamingLLM(6), range(4), (TRAINED, 4))
    assert torch.equal(actual.tril(), told(ReRoPE(N), range(4))[0].tril()) and bool(
        seen.tril().sum() == 10
    )


# -- memory ----------------------------------------------------------------------------------------


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
