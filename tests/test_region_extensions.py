"""Extensions that give keys other distances tell a host those of the papers, written once more for
every pair in plain Python.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from fractions import Fraction

import pytest
import torch
from distances import (
    CASES,
    HOSTS,
    POSITIONS,
    TESTED,
    TRAINED,
    N,
    causal,
    drawn,
    everywhere,
    mesa,
    method,
    told,
)
from loops import HEADS, WIDTH, call, same

from posbench.base.errors import ConfigError
from posbench.core.attention import Attention, dense
from posbench.encodings.alibi import ALiBi
from posbench.encodings.rope import RoPE
from posbench.extensions.clamp import Clamp
from posbench.extensions.dca import DCA
from posbench.extensions.interpolate_distance import InterpolateDistance
from posbench.extensions.jet_long import JetLong
from posbench.extensions.lampe import LaMPE
from posbench.extensions.leaky_rerope import LeakyReRoPE
from posbench.extensions.lm_infinite import LMInfinite
from posbench.extensions.mesa import Mesa
from posbench.extensions.pi import PI
from posbench.extensions.rerope import ReRoPE
from posbench.extensions.self_extend import SelfExtend
from posbench.extensions.self_extend_logistic import LogisticGroups, LogisticSelfExtend
from posbench.extensions.streaming_llm import StreamingLLM
from posbench.extensions.string import STRING

# -- the papers, pair by pair ----------------------------------------------------------------------


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


# -- identities ------------------------------------------------------------------------------------


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
    "self_extend_logistic": LogisticSelfExtend(N, 0.8, 10),
    "jet_long": JetLong(N - 1, 3),
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
        "self_extend_logistic": LogisticSelfExtend(N - 3, 2.0, 10),
        "jet_long": JetLong(N - 2, 3),
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
    """With d = i - j it is d below N, and N + ceil((d - N) / E) from there."""
    actual, _ = told(Mesa(chunk, step), range(N))
    for i, j in causal(N):
        d, near = i - j, i % chunk
        assert actual[i, j] == (d if d < near else near + math.ceil(Fraction(d - near, step)))


@pytest.mark.parametrize(
    ("chunk", "step", "differ"), [(6, 2, (72, 144)), (6, 3, (96, 144)), (4, 4, (120, 160))]
)
def test_mesa_is_up_to_a_stair_above_that_of_its_authors_code(
    chunk: int, step: int, differ: tuple[int, int]
) -> None:
    """The code repeats each position E times, from the one where the query's chunk begins down:
    N + floor((d - N) / E). That is one less wherever E does not divide d - N, which are all keys
    of earlier chunks but one in E.
    """
    actual, _ = told(Mesa(chunk, step), range(N))
    higher = []
    for i in range(N):
        begin = i - i % chunk
        stair = [begin - back for back in range(begin + 1) for _ in range(step)]
        for j in range(begin):
            theirs, d, near = i - stair[begin - j], i - j, i - begin
            assert theirs == near + (d - near) // step
            assert actual[i, j] - theirs == ((d - near) % step > 0)
            higher.append(actual[i, j] > theirs)
    assert (sum(higher), len(higher)) == differ


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


@pytest.mark.oracle("self_extend_logistic", "identity: the groups of the authors' code")
@pytest.mark.parametrize(("capacity", "rate"), [(33, 0.02), (8, 0.02), (17, 0.1)])
def test_groups_of_self_are_those_whose_sizes_its_code_finds_by_the_inverse(
    capacity: int, rate: float
) -> None:
    """The code asks for each size y at which x the function reaches it: groups from
    ceil(x(y)) to the last before x(y + 1) have y tokens.
    """

    def reached(y: int) -> float:
        return (math.log(y * capacity - y) - math.log(capacity - y)) / rate

    sizes = [
        y
        for y in range(1, capacity - 1)
        for _ in range(math.ceil(reached(y)), math.ceil(reached(y + 1)))
    ]
    groups = LogisticGroups.of(capacity, rate)
    numbers = [number for number, size in enumerate(sizes) for _ in range(size)]
    numbers += [len(sizes) + place // (capacity - 1) for place in range(200)]
    assert groups.numbers(torch.arange(len(numbers))).tolist() == numbers
    assert groups.largest == capacity - 1


def test_self_is_self_extend_after_one_token_where_groups_are_large_at_once() -> None:
    """At a large rate the first group has one token, and all others have C - 1."""
    logistic, plain = LogisticSelfExtend(3, 50.0, 5), SelfExtend(3, 4)
    actual, _ = told(logistic, range(N))
    later, _ = told(plain, range(N + 3))
    for i, j in causal(N):
        if i - j >= 3:
            start = (i - 3 + 3) // 4 - (j + 3) // 4  # the first token as the last of its group
            assert actual[i, j] == 3 + start
        else:
            assert actual[i, j] == later[i, j]


def test_the_capacity_is_the_smallest_or_there_is_none() -> None:
    for trained, tested, window, rate in ((8, 20, 3, 0.8), (40, 320, 10, 1.0), (40, 41, 10, 0.1)):
        capacity = LogisticSelfExtend(window, rate).smallest(trained, tested)
        fits, not_yet = (
            told(LogisticSelfExtend(window, rate, c), range(tested))[0].tril().max() < trained
            for c in (capacity, capacity - 1)
        )
        assert fits and not not_yet
    with pytest.raises(ConfigError, match=r"rate=0.5 lets groups grow too slowly"):
        told(LogisticSelfExtend(3, 0.5), range(N))
    for rate in (0.0, -1.0, math.inf, math.nan):
        with pytest.raises(ConfigError, match="rate is the growth of groups"):
            LogisticSelfExtend(3, rate)


@pytest.mark.oracle("jet_long", "identity: the phases of the authors' code")
@pytest.mark.parametrize("length", [9, 16, 17, 33])
def test_far_keys_of_jet_long_have_the_angles_that_its_code_corrects_to(length: int) -> None:
    """The code turns queries and keys by their positions first, and by floor(p / G) - p again,
    G = ceil(L' / w); nearer than w_0 + 1 tokens the first alone counts.
    """
    w, w_0, theta = 8, 2, 0.3
    group = max(1, math.ceil(length / w))

    def phase(p: int) -> float:
        return p * theta + (math.floor(p / group) - p) * theta

    actual, _ = told(JetLong(w_0), range(length), (w, length))
    for i, j in causal(length):
        far = i - w_0 > j  # the keys before its boundary
        expected = phase(i) - phase(j) if far else (i - j) * theta
        assert theta * float(actual[i, j]) == pytest.approx(expected, abs=1e-9)


@pytest.mark.oracle("jet_long", "identity: self_extend without its offset")
def test_jet_long_is_self_extend_without_its_offset() -> None:
    jet, _ = told(JetLong(3, 2), range(N))
    extended, _ = told(SelfExtend(4, 2), range(N))
    far = torch.tensor([[i - j > 3 for j in range(N)] for i in range(N)])
    same(jet, extended - far * (4 - 4 // 2), 1e-12)


@pytest.mark.oracle("lampe", "published numbers")
@pytest.mark.parametrize(
    ("settings", "trained", "fitted"),
    [
        ((0.757, 0.8596, -2.4666), 8192, (0.00010493097327094324, -2.466638011138158, 6204.409)),
        ((0.6077, 0.35525, -0.648), 4096, (8.673006440952035e-05, -0.648012322406978, 2489.1055)),
        ((0.6283, 5.9051, -2.7886), 131072, (4.505261149632588e-05, -2.788576860718702, 82358.52)),
    ],
)
def test_groups_of_lampe_are_those_that_the_authors_fit(
    settings: tuple[float, float, float], trained: int, fitted: tuple[float, float, float]
) -> None:
    rate, offset, most = fitted
    for length in (trained, 2 * trained, 5 * trained, 16 * trained):
        expected = int(most / (1 + math.exp(-(rate * length + offset))))
        assert LaMPE(3, 2, *settings).groups(trained, length) == pytest.approx(expected, rel=2e-3)
        if trained == 8192:
            assert LaMPE(3, 2).groups(trained, length) == pytest.approx(expected, rel=1e-2)


@pytest.mark.oracle("lampe", "identity: the positions of the authors' code")
@pytest.mark.parametrize(("trained", "tested", "near", "far"), [(24, 60, 5, 3), (24, 24, 4, 6)])
def test_lampe_tells_the_differences_of_the_positions_of_its_code(
    trained: int, tested: int, near: int, far: int
) -> None:
    """Three pairs of positions, as the code moves them: all of the window, queries beyond it to
    groups moved by bias 1, and the last queries by bias 2.
    """
    extension = LaMPE(near, far, 1.0, 0.5, -0.5)
    count = extension.groups(trained, tested)
    ids = [math.floor(p * count / (tested - 1) + 1e-12) for p in range(tested)]
    resize = far
    while resize + 1 < tested and ids[resize + 1] == ids[resize]:
        resize += 1
    bias_1 = near - (ids[near] + 1)
    bias_2 = (tested - 1 - resize) - ids[tested - 1 - resize] - bias_1
    actual, _ = told(extension, range(tested), (trained, tested))
    used = set()
    for i, j in causal(tested):
        window = i - j <= near
        tail = i >= tested - resize and j <= i - (tested - resize)
        used.add("near" if window else "far" if tail else "middle")
        expected = i - j if window else i - bias_2 - j if tail else ids[i] + bias_1 - ids[j]
        assert actual[i, j] == expected, (i, j)
    assert used == {"near", "middle", "far"}
    assert actual.tril().max() == tested - 1 - bias_2


def test_lampe_leaves_short_sequences_and_those_with_a_group_a_token() -> None:
    for extension, test in ((LaMPE(4, 2), 7), (LaMPE(2, 2, 1.0, 1.0, 50.0), TRAINED)):
        actual, _ = told(extension, range(test), (TRAINED, test))
        assert torch.equal(actual.tril(), told(ReRoPE(N), range(test))[0].tril())
    with pytest.raises(ConfigError, match="capacity is the most groups"):
        LaMPE(3, 2, 0.0)


@pytest.mark.oracle("dca", "published numbers")
def test_dca_has_the_matrix_of_the_paper() -> None:
    """Figure 2: twelve tokens in chunks of 6, pretrained on 10; and a third chunk, whose queries
    stand at 9.
    """
    actual, _ = told(DCA(10, 4), range(14))
    assert actual[11, :12].tolist() == [9, 8, 7, 6, 5, 4, 5, 4, 3, 2, 1, 0]
    assert actual[7, :8].tolist() == [7, 6, 5, 4, 3, 2, 1, 0]
    assert actual[12, :13].tolist() == [9, 8, 7, 6, 5, 4, 6, 5, 4, 3, 2, 1, 0]


@pytest.mark.slow
@pytest.mark.parametrize("trained", [12, 40, 41, 62])
def test_dca_as_published_keeps_all_distances_of_training(trained: int) -> None:
    """Chunks of three quarters of the training length, of which two cover it."""
    actual, _ = told(DCA(), range(4 * trained), (trained, 4 * trained))
    for i, j in causal(4 * trained):
        if i < trained:
            assert actual[i, j] == i - j
        assert 0 <= actual[i, j] < trained
    size = trained - round(trained / 4)
    assert actual[2 * size, 0] == trained - 1, "a chunk that is not the next"
    assert actual[2 * size, size] == size, (
        "the first token of the chunk before, from that of its own"
    )
    assert actual[2 * size, 2 * size - 1] < trained // 2


@pytest.mark.oracle("dca", "identity: the tables of the authors' code")
@pytest.mark.parametrize(("largest", "window"), [(12, 4), (7, 5), (6, 4), (9, 1)])
def test_caps_of_the_code_of_dca_are_those_of_its_tables(largest: int, window: int) -> None:
    """The code keeps a table of angles for queries of the next chunk, 0..s-1 moved by s and cut at
    c, and takes its last row for all keys before that chunk.
    """
    size, n = largest - window, 40
    moved = [min(place + size, largest) for place in range(size)]
    actual, _ = told(DCA(largest, window, "code"), range(n), (largest, n))
    papers, _ = told(DCA(largest, window), range(n), (largest, n))
    for begin in range(0, n, size):
        for i in range(begin, min(begin + size, n)):
            for j in range(i + 1):
                if j >= begin:
                    expected = i - j
                elif j >= begin - size:
                    expected = moved[i % size] - j % size
                else:
                    expected = moved[size - 1] - j % size
                assert actual[i, j] == expected, (i, j)
                if j >= begin - size:
                    assert papers[i, j] == min(expected, largest - 1 - (j % size) * (j < begin))
    assert actual.tril().max() == max(size - 1, moved[-1])


def test_unknown_caps_of_dca_are_refused() -> None:
    with pytest.raises(ConfigError, match="caps must be one of paper, code, got 'codes'"):
        DCA(10, 4, "codes")


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
@pytest.mark.parametrize("kind", [SelfExtend, JetLong, Mesa])
def test_left_out_factors_are_the_smallest_without_new_distances(
    kind: type[SelfExtend] | type[JetLong] | type[Mesa], length: int, longer: int, window: int
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
    largest = {
        "string": N - 1 - 5 + 2,
        "lm_infinite": TRAINED,
        "rerope": 4,
        "dca": 6,
        "jet_long": 6,
        "lampe": 9,
    }.get(name, TRAINED - 1)
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
    for extension in (
        LeakyReRoPE(4, 2.0),
        SelfExtend(4, 2),
        LogisticSelfExtend(4, 0.8, 5),
        JetLong(4, 2),
        Mesa(4, 2),
        InterpolateDistance(2.0),
    ):
        assert not extension.is_identity
        short, long = (told(extension, range(N), (TRAINED, n))[0] for n in (TRAINED, 4 * TRAINED))
        assert torch.equal(short.tril(), long.tril())
    for none in (
        LeakyReRoPE(4, 1.0),
        SelfExtend(4, 1),
        LogisticSelfExtend(4, 0.8, 1),
        LogisticSelfExtend(4, 0.8, 2),
        JetLong(4, 1),
        Mesa(4, 1),
        InterpolateDistance(1.0),
    ):
        assert none.is_identity and torch.equal(
            told(none, range(N))[0], told(ReRoPE(N), range(N))[0]
        )
    for own in (Clamp(3), LMInfinite(2, 5), StreamingLLM(2, 5)):
        assert not own.is_identity


def test_a_test_shorter_than_training_changes_nothing_where_factors_are_left_out() -> None:
    for name in (
        "leaky_rerope",
        "self_extend",
        "self_extend_logistic",
        "jet_long",
        "mesa",
        "interpolate_distance",
        "clamp",
    ):
        actual, _ = told(CASES[name][0], range(5), (TRAINED, 5))
        same(actual.tril(), told(ReRoPE(N), range(5))[0].tril(), 1e-12)


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
