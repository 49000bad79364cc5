"""Every extension of frequencies beyond PI, NTK and YaRN computes its published table.

The oracle of a table is a loop over pairs in Python floats, written from the paper and in another
form than the library's: wavelengths instead of turns, products of radices instead of exponents, a
new base instead of stretches. Scores are the complex form in i - j with that table; where
transformers has the method, its table is compared too.
"""

from __future__ import annotations

import cmath
import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass

import pytest
import torch
from loops import POSITIONS, WIDTH, by_pairs, call, same, scores
from torch import Tensor

from posbench.attention import Attention
from posbench.encoding import PositionEncoding
from posbench.encodings.nope import NoPE
from posbench.encodings.p_rope import PRoPE
from posbench.encodings.partial_rope import PartialRoPE
from posbench.encodings.pope import PoPE
from posbench.encodings.rope import RoPE
from posbench.encodings.sinusoidal import Sinusoidal
from posbench.errors import ConfigError
from posbench.extension import FrequencyExtension
from posbench.extensions.abf import ABF
from posbench.extensions.both import Both
from posbench.extensions.by_parts import ByParts
from posbench.extensions.clipped_rope import ClippedRoPE
from posbench.extensions.drop_low_frequencies import DropLowFrequencies
from posbench.extensions.dynamic_ntk import DynamicNTK
from posbench.extensions.giraffe_power import GiraffePower
from posbench.extensions.giraffe_truncated import GiraffeTruncated
from posbench.extensions.llama3 import Llama3
from posbench.extensions.longrope import LongRoPE
from posbench.extensions.mrrope_pro import MrRoPEPro
from posbench.extensions.mrrope_uni import MrRoPEUni
from posbench.extensions.ntk import NTK
from posbench.extensions.ntk_fixed import NTKFixed
from posbench.extensions.ntk_mixed import NTKMixed
from posbench.extensions.pi import PI
from posbench.extensions.resonance import Resonance
from posbench.extensions.yarn import YaRN
from posbench.extensions.yarn_turns import YaRNTurns

L = 42  # positions of training
TURN = 2 * math.pi
Table = Callable[[list[float], int, float], list[float]]
"""(frequencies as they are, positions of training, s) -> frequencies as they become"""


def grid(pairs: int, base: float = 10000.0) -> list[float]:
    return [base ** (-m / pairs) for m in range(pairs)]


# -- the tables, from the papers -------------------------------------------------------------------


def mixed(c: float) -> Table:
    """Su: theta_m e^{-a m^c} with digits m = 1..K and a K^c = ln s."""

    def table(theta: list[float], train: int, s: float) -> list[float]:
        a = math.log(s) / len(theta) ** c
        return [t * math.exp(-a * m**c) for m, t in enumerate(theta, 1)]

    return table


def new_base(factor: float) -> Table:
    """By the base of dynamic NTK: b alpha^(d/(d-2)), on a geometric grid."""

    def table(theta: list[float], train: int, s: float) -> list[float]:
        d, base = 2 * len(theta), (theta[0] / theta[1]) ** len(theta)
        raised = base * (factor * s - (factor - 1)) ** (d / (d - 2))
        return [theta[0] * raised ** (-2 * m / d) for m in range(len(theta))]

    return table


def blend(theta: float, s: float, keep: float) -> float:
    return keep * theta + (1 - keep) * theta / s


def in_turns(fast: float, slow: float) -> Table:
    """By wavelengths: shorter than L/fast stays, longer than L/slow is interpolated, smooth
    between.
    """

    def table(theta: list[float], train: int, s: float) -> list[float]:
        found = []
        for t in theta:
            wave = TURN / t
            if wave < train / fast:
                found.append(t)
            elif wave > train / slow:
                found.append(t / s)
            else:
                found.append(blend(t, s, (train / wave - slow) / (fast - slow)))
        return found

    return table


def edges(theta: list[float], train: int, fast: float, slow: float, last: int) -> tuple[int, int]:
    """The last index with `fast` turns or more and the first with `slow` or fewer, on the grid
    continued both ways.
    """
    ratio = theta[1] / theta[0]
    turns = {m: train * theta[0] * ratio**m / TURN for m in range(-200, 400)}
    return max(0, max(m for m in turns if turns[m] >= fast)), min(
        last, min(m for m in turns if turns[m] <= slow)
    )


def in_index(fast: float, slow: float) -> Table:
    def table(theta: list[float], train: int, s: float) -> list[float]:
        low, high = edges(theta, train, fast, slow, 2 * len(theta) - 1)
        return [
            t if m <= low else t / s if m >= high else blend(t, s, (high - m) / (high - low))
            for m, t in enumerate(theta)
        ]

    return table


def radices(fast: float, slow: float, progressive: bool) -> Table:
    """theta_m over the product of the factors of all digits before it: 1 outside the middle,
    s^(1/n) or s^(2(1 + j - l) / ((1 + n) n)) for the n digits j = l..h-1.
    """

    def table(theta: list[float], train: int, s: float) -> list[float]:
        low, high = edges(theta, train, fast, slow, len(theta))
        n, found, product = high - low, [], 1.0
        for j, t in enumerate(theta):
            found.append(t / product)
            if low <= j < high:
                product *= s ** (2 * (1 + j - low) / ((1 + n) * n)) if progressive else s ** (1 / n)
        return found

    return table


def starting_list(theta: list[float], train: int, s: float) -> list[float]:
    """Whatever has a wavelength above L is divided by s, the others by powers of one ratio that
    leads up to it.
    """
    whole = [t for t in theta if TURN / t <= train]
    ratio = s ** (1 / len(whole)) if whole else 1.0
    return [t / ratio**m for m, t in enumerate(whole)] + [t / s for t in theta[len(whole) :]]


def to_base(base: float) -> Table:
    return lambda theta, train, s: grid(len(theta), base)


def power(k: float) -> Table:
    return lambda theta, train, s: [
        t * (1 - 2 * m / (2 * len(theta))) ** k for m, t in enumerate(theta)
    ]


def truncated(turns: float, span: float, slowing: float) -> Table:
    def table(theta: list[float], train: int, s: float) -> list[float]:
        period = train / turns
        return [
            t
            if TURN / t <= period
            else TURN / (period * slowing)
            if TURN / t <= span * period
            else 0.0
            for t in theta
        ]

    return table


def whole_waves(theta: list[float], train: int, s: float) -> list[float]:
    found = []
    for t in theta:
        wave = TURN / t
        below = math.floor(wave)
        found.append(TURN / (below if wave - below < 0.5 else below + 1))
    return found


def then_whole(first: Table) -> Table:
    return lambda theta, train, s: whole_waves(first(theta, train, s), train, s)


def tapered(n: int) -> Table:
    def table(theta: list[float], train: int, s: float) -> list[float]:
        falling = [math.cos(math.pi * i / (n - 1) / 2) ** 2 for i in range(n)]
        falling[-1] = 0.0
        return theta[:-n] + [t * part for t, part in zip(theta[-n:], falling, strict=True)]

    return table


def cut(n: int) -> Table:
    return lambda theta, train, s: theta[:-n] + [0.0] * n


LIST = (1.0, 1.5, 3.0, 7.25)


@dataclass(frozen=True)
class Case:
    make: Callable[[float | None], FrequencyExtension]  # at a scale, where it has one
    table: Table
    factor: Callable[[float], float] = lambda s: 1.0
    scaled: bool = True  # has `scale`


def warm(s: float) -> float:
    return 0.1 * math.log(s) + 1


CASES: dict[str, Case] = {
    "ntk_fixed": Case(lambda s: NTKFixed(s), mixed(1.0)),
    "ntk_mixed": Case(lambda s: NTKMixed(0.625, s), mixed(0.625)),
    "dynamic_ntk": Case(lambda s: DynamicNTK(3.0), new_base(3.0), scaled=False),
    "by_parts": Case(lambda s: ByParts(2.0, 0.01, scale=s), in_index(2.0, 0.01)),
    "yarn_turns": Case(lambda s: YaRNTurns(2.0, 0.01, s), in_turns(2.0, 0.01), warm),
    "llama3": Case(lambda s: Llama3(0.05, 4.0, s), in_turns(4.0, 0.05)),
    "mrrope_uni": Case(lambda s: MrRoPEUni(2.0, 0.01, s), radices(2.0, 0.01, False), warm),
    "mrrope_pro": Case(lambda s: MrRoPEPro(2.0, 0.01, s), radices(2.0, 0.01, True), warm),
    "longrope": Case(
        lambda s: LongRoPE(scale=s),
        starting_list,
        lambda s: math.sqrt(1 + math.log(s) / math.log(L)),
    ),
    "abf": Case(lambda s: ABF(40000.0), to_base(40000.0), scaled=False),
    "giraffe_power": Case(lambda s: GiraffePower(0.7), power(0.7), scaled=False),
    "giraffe_truncated": Case(
        lambda s: GiraffeTruncated(2.0, 30.0, 50.0), truncated(2.0, 30.0, 50.0), scaled=False
    ),
    "resonance": Case(lambda s: Resonance(), whole_waves, scaled=False),
    "resonance_yarn": Case(
        lambda s: Both(YaRN(2.0, 0.01), Resonance()),
        then_whole(in_index(2.0, 0.01)),
        warm,
        scaled=False,
    ),
    "clipped_rope": Case(lambda s: ClippedRoPE(0.75), tapered(3), scaled=False),
    "drop_low_frequencies": Case(lambda s: DropLowFrequencies(0.5), cut(2), scaled=False),
}
each = pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.oracle(name, "double loop")) for name in CASES]
)
SCALED = [name for name, case in CASES.items() if case.scaled]


def turned(a: Attention, theta: list[float], factor: float) -> Tensor:
    """The score c factor Re sum_m q_im conj(k_jm) e^{i (p_i - p_j) theta_m}."""
    q, k, p, pairs = a.q.tolist(), a.k.tolist(), a.q_pos.tolist(), len(theta)

    def score(b: int, h: int, i: int, j: int) -> float:
        total = 0j
        for m, t in enumerate(theta):
            one, other = (complex(x[m], x[m + pairs]) for x in (q[b][h][i], k[b][h][j]))
            total += one * other.conjugate() * cmath.exp(1j * (p[b][i] - p[b][j]) * t)
        return factor * a.scale * total.real

    return by_pairs(a, score)


@each
def test_scores_are_the_complex_form_at_the_published_frequencies(name: str) -> None:
    """At four times the training length, with one scale for each length; a factor enters query and
    key.
    """
    case, a = CASES[name], call(POSITIONS["with gaps"])
    new = case.make(None).apply(RoPE(WIDTH), L, 4 * L)
    same(
        scores(new, a), turned(a, case.table(grid(WIDTH // 2), L, 4.0), case.factor(4.0) ** 2), 1e-9
    )
    assert not torch.allclose(scores(new, a), scores(RoPE(WIDTH), a))


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
SIZED: dict[str, tuple[Callable[[], FrequencyExtension], Table]] = {
    "ntk_fixed": (lambda: NTKFixed(), mixed(1.0)),
    "ntk_mixed": (lambda: NTKMixed(), mixed(0.625)),
    "dynamic_ntk": (lambda: DynamicNTK(), new_base(2.0)),
    "by_parts": (lambda: ByParts(2.0, 1.0), in_index(2.0, 1.0)),
    "yarn_turns": (lambda: YaRNTurns(2.0, 1.0), in_turns(2.0, 1.0)),
    "llama3": (lambda: Llama3(), in_turns(4.0, 1.0)),
    "mrrope_uni": (lambda: MrRoPEUni(2.0, 1.0), radices(2.0, 1.0, False)),
    "mrrope_pro": (lambda: MrRoPEPro(2.0, 0.1), radices(2.0, 0.1, True)),
    "longrope": (lambda: LongRoPE(), starting_list),
    "abf": (lambda: ABF(), to_base(500_000.0)),
    "giraffe_power": (lambda: GiraffePower(), power(0.5)),
    "giraffe_truncated": (lambda: GiraffeTruncated(), truncated(1.0, 8.0, 16.0)),
    "resonance": (lambda: Resonance(), whole_waves),
    "resonance_yarn": (
        lambda: Both(YaRN(2.0, 1.0), Resonance()),
        then_whole(in_index(2.0, 1.0)),
    ),
}
sized = pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.oracle(name, "double loop")) for name in SIZED]
)


@sized
@pytest.mark.parametrize("s", [1, 2, 8])
@pytest.mark.parametrize(("pairs", "base", "train"), SIZES)
def test_frequencies_are_the_published_ones_at_other_sizes(
    pairs: int, base: float, train: int, s: int, name: str
) -> None:
    make, table = SIZED[name]
    found = extended(make(), RoPE(2 * pairs, base), train, s * train)
    assert found == pytest.approx(table(grid(pairs, base), train, float(s)), rel=1e-10)


def hosts() -> dict[str, PositionEncoding]:
    return {
        "partial_rope": PartialRoPE(WIDTH, 0.75),
        "p_rope": PRoPE(16, 0.75),
        "pope": PoPE(3, WIDTH),
        "sinusoidal": Sinusoidal(24),
        "rope after pi": PI(2.0).apply(RoPE(WIDTH), L, L),
        "rope after abf": ABF(300.0).apply(RoPE(WIDTH), L, L),
    }


@pytest.mark.parametrize("host", hosts())
@pytest.mark.parametrize(
    "name", [name for name in SIZED if name not in ("by_parts", "resonance_yarn", "abf")]
)
def test_tables_are_of_the_grid_in_use(name: str, host: str) -> None:
    """As many frequencies as the host has, and wavelengths as they are after an earlier
    extension.
    """
    make, table = SIZED[name]
    encoding = hosts()[host]
    found = extended(make(), encoding, L, 4 * L)
    assert found == pytest.approx(table(theta_of(encoding), L, 4.0), rel=1e-10)


@pytest.mark.parametrize("name", SCALED)
@pytest.mark.parametrize(("test", "s"), [(84, 2.0), (63, 1.5)])
def test_without_a_scale_each_length_has_its_own_ratio(name: str, test: int, s: float) -> None:
    per_length, fixed = (CASES[name].make(scale).apply(RoPE(WIDTH), L, test) for scale in (None, s))
    assert theta_of(per_length) == pytest.approx(theta_of(fixed), rel=1e-14)
    assert per_length.frequencies.magnitude == pytest.approx(CASES[name].factor(s), rel=1e-14)


@pytest.mark.parametrize("name", [*SCALED, "dynamic_ntk"])
@pytest.mark.parametrize("test", [L, 20, 1])
def test_without_a_scale_nothing_changes_up_to_the_training_length(name: str, test: int) -> None:
    a, extension = call(), CASES[name].make(None)
    assert extension.is_identity
    assert torch.equal(scores(extension.apply(RoPE(WIDTH), L, test), a), scores(RoPE(WIDTH), a))
    assert not torch.equal(
        scores(extension.apply(RoPE(WIDTH), L, L + 1), a), scores(RoPE(WIDTH), a)
    )


@pytest.mark.parametrize("name", SCALED)
def test_a_fixed_scale_is_the_same_at_every_length(name: str) -> None:
    extension = CASES[name].make(4.0)
    ones = [extension.apply(RoPE(WIDTH), L, test).frequencies for test in (10, L, 336)]
    assert not extension.is_identity and all(one == ones[0] for one in ones)
    assert ones[0].theta()[1] < 10000 ** (-1 / 4)


@pytest.mark.parametrize(
    "name", [name for name, case in CASES.items() if not case.scaled and name != "dynamic_ntk"]
)
def test_extensions_without_a_scale_change_every_length(name: str) -> None:
    a, extension = call(POSITIONS["with gaps"]), CASES[name].make(None)
    assert not extension.is_identity
    assert not torch.allclose(scores(extension.apply(RoPE(WIDTH), L, L), a), scores(RoPE(WIDTH), a))
    if name != "resonance_yarn":
        assert extended(extension, RoPE(WIDTH), L, L) == extended(extension, RoPE(WIDTH), L, 8 * L)


# -- the NTK family --------------------------------------------------------------------------------


@pytest.mark.oracle("ntk", "identity: the derivation")
@pytest.mark.parametrize("d", [8, 64])
@pytest.mark.parametrize("k", [2.0, 8.0])
def test_ntk_extrapolates_high_frequencies_and_interpolates_low_ones(d: int, k: float) -> None:
    """The derivation: lambda = k^(2/(d-2)) is the ratio of neighbouring stretches, not a base. At k
    times the training length the fastest pair goes through k times as many angles as in training,
    the slowest through as many as then.
    """
    pairs, test = d // 2, round(k) * L
    before, after = grid(pairs), extended(NTK(k), RoPE(d), L, test)
    stretch = [old / new for old, new in zip(before, after, strict=True)]
    ratios = [slower / faster for faster, slower in itertools.pairwise(stretch)]
    assert ratios == pytest.approx([k ** (2 / (d - 2))] * (pairs - 1), rel=1e-10)
    assert test * after[0] == pytest.approx(k * L * before[0], rel=1e-10)
    assert test * after[-1] == pytest.approx(L * before[-1], rel=1e-10)
    passed = [test * new / (L * old) for old, new in zip(before, after, strict=True)]
    assert passed == sorted(passed, reverse=True) and all(
        1 - 1e-9 < ratio < k for ratio in passed[1:]
    )


@pytest.mark.oracle("abf", "identity: NTK is the base b s^(d/(d-2))")
@pytest.mark.oracle("ntk", "identity: a change of base")
@pytest.mark.parametrize("s", [1.5, 4.0, 32.0])
@pytest.mark.parametrize(("d", "base"), [(8, 10000.0), (64, 10000.0), (128, 500_000.0)])
def test_ntk_is_a_change_of_base(d: int, base: float, s: float) -> None:
    by_base = extended(ABF(base * s ** (d / (d - 2))), RoPE(d, base), L, L)
    assert extended(NTK(s), RoPE(d, base), L, L) == pytest.approx(by_base, rel=1e-10)


@pytest.mark.oracle("abf", "identity: RoPE built with the base")
def test_a_changed_base_is_rope_with_that_base() -> None:
    a = call(POSITIONS["with gaps"])
    same(scores(ABF(500.0).apply(RoPE(WIDTH), L, L), a), scores(RoPE(WIDTH, 500.0), a))


@pytest.mark.oracle("ntk_fixed", "identity: NTK of digits counted from 1")
def test_ntk_fixed_stretches_every_digit_alike() -> None:
    """The ratio of neighbouring frequencies becomes (b s)^(1/K): the base b s, all slowed down once
    more.
    """
    s, pairs = 8.0, 16
    theta = extended(NTKFixed(s), RoPE(2 * pairs), L, L)
    assert theta == pytest.approx(
        [t / s ** (1 / pairs) for t in grid(pairs, 10000.0 * s)], rel=1e-10
    )
    assert theta[-1] == pytest.approx(grid(pairs)[-1] / s, rel=1e-12)


@pytest.mark.oracle("ntk_mixed", "identity: power 1 is NTK-fixed")
def test_ntk_mixed_lies_above_ntk_fixed_and_ends_with_it() -> None:
    a = call(POSITIONS["with gaps"])
    same(
        scores(NTKMixed(1.0, 4.0).apply(RoPE(WIDTH), L, L), a),
        scores(NTKFixed(4.0).apply(RoPE(WIDTH), L, L), a),
    )
    mixed_radix, fixed = (extended(kind, RoPE(32), L, 8 * L) for kind in (NTKMixed(), NTKFixed()))
    assert all(m < f for m, f in zip(mixed_radix[:-1], fixed[:-1], strict=True))
    assert mixed_radix[-1] == pytest.approx(fixed[-1], rel=1e-12)


@pytest.mark.oracle("dynamic_ntk", "identity: factor 1 is NTK with one scale a length")
@pytest.mark.parametrize("test", [20, L, 60, 8 * L])
def test_dynamic_ntk_with_factor_one_is_ntk(test: int) -> None:
    assert extended(DynamicNTK(1.0), RoPE(32), L, test) == extended(NTK(), RoPE(32), L, test)


@pytest.mark.oracle("dynamic_ntk", "identity: alpha is s^2 - s + 1 at s times the training length")
def test_dynamic_ntk_at_its_own_factor_stretches_by_more_than_that() -> None:
    """And not by s, as its name may suggest."""
    for s in (2.0, 4.0):
        alpha = NTK(s * s - s + 1)
        assert extended(DynamicNTK(s), RoPE(32), L, round(s * L)) == pytest.approx(
            extended(alpha, RoPE(32), L, L), rel=1e-12
        )


# -- by parts --------------------------------------------------------------------------------------


@pytest.mark.oracle("by_parts", "identity: YaRN without its factor")
@pytest.mark.parametrize(("ramp", "kind"), [("index", YaRN), ("turns", YaRNTurns)])
def test_by_parts_is_yarn_without_a_temperature(ramp: str, kind: type[YaRN]) -> None:
    ours, theirs = ByParts(3.0, 0.5, ramp, 4.0), kind(3.0, 0.5, 4.0)
    assert extended(ours, RoPE(64), L, L) == extended(theirs, RoPE(64), L, L)
    assert ours.apply(RoPE(64), L, 4 * L).frequencies.magnitude == 1.0
    assert theirs.apply(RoPE(64), L, 4 * L).frequencies.magnitude == pytest.approx(warm(4.0))


@pytest.mark.oracle("yarn_turns", "published numbers")
def test_the_two_ramps_of_yarn_differ_by_up_to_a_factor_of_three() -> None:
    """At the paper's sizes, d = 128, L = 4096 and s = 16: the ends agree, 25 of 64 frequencies
    differ by over 1 %.
    """
    index, turns = (
        extended(kind(32.0, 1.0, 16.0), RoPE(128), 4096, 4096) for kind in (YaRN, YaRNTurns)
    )
    ratio = [i / t for i, t in zip(index, turns, strict=True)]
    assert ratio[0] == ratio[-1] == 1 and 2.8 < max(ratio) < 3.2
    assert sum(abs(r - 1) > 0.01 for r in ratio) == 25


@pytest.mark.oracle("llama3", "identity: by parts in turns")
def test_llama3_is_by_parts_in_turns() -> None:
    for s in (2.0, 8.0):
        found = extended(Llama3(1.0, 4.0, s), RoPE(64), 256, 256)
        assert found == extended(ByParts(4.0, 1.0, "turns", s), RoPE(64), 256, 256)


# -- MrRoPE ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [MrRoPEUni, MrRoPEPro])
def test_mrrope_extrapolates_above_the_middle_and_interpolates_below(kind: type[MrRoPEUni]) -> None:
    stretch = [
        t / n
        for t, n in zip(
            grid(64), extended(kind(32.0, 1.0, 8.0), RoPE(128), 4096, 4096), strict=True
        )
    ]
    turns = [4096 * t / TURN for t in grid(64)]
    assert all(x == pytest.approx(1) for x, r in zip(stretch, turns, strict=True) if r >= 32)
    assert all(x == pytest.approx(8) for x, r in zip(stretch, turns, strict=True) if r <= 1)
    assert all(1.0001 < x < 7.9999 for x, r in zip(stretch, turns, strict=True) if 1.2 < r < 26)


@pytest.mark.oracle("mrrope_uni", "identity: edges by the authors' logarithms")
@pytest.mark.oracle("mrrope_pro", "identity: edges by the authors' logarithms")
@pytest.mark.parametrize(
    ("pairs", "base", "train"), [(64, 10000.0, 4096), (64, 500_000.0, 8192), (32, 10000.0, 2048)]
)
def test_mrrope_begins_and_ends_where_the_authors_code_does(
    pairs: int, base: float, train: int
) -> None:
    def index(turns: float) -> float:
        return 2 * pairs * math.log(train / (turns * TURN)) / (2 * math.log(base))

    low, high = math.floor(index(32)), math.ceil(index(1))
    for kind in (MrRoPEUni, MrRoPEPro):
        found = extended(kind(scale=16.0), RoPE(2 * pairs, base), train, train)
        stretch = [t / n for t, n in zip(grid(pairs, base), found, strict=True)]
        assert max(m for m in range(pairs) if stretch[m] < 1.000001) == low
        assert min(m for m in range(pairs) if stretch[m] > 15.99999) == high


@pytest.mark.oracle("mrrope_pro", "identity: radices grow with m where YaRN's fall")
def test_mrrope_pro_gives_slower_digits_larger_radices() -> None:
    def ratios(extension: FrequencyExtension) -> list[float]:
        theta = extended(extension, RoPE(128), 4096, 4096)[21:45]  # l and h are 20 and 46
        return [a / b for a, b in itertools.pairwise(theta)]

    rising, level = ratios(MrRoPEPro(scale=16.0)), ratios(MrRoPEUni(scale=16.0))
    falling = ratios(YaRNTurns(scale=16.0))
    assert rising == sorted(rising) and rising[-1] > 1.05 * rising[0]
    assert level == pytest.approx([level[0]] * len(level), rel=1e-12)
    assert falling == sorted(falling, reverse=True) and falling[0] > 1.05 * falling[-1]


@pytest.mark.parametrize("kind", [MrRoPEUni, MrRoPEPro])
def test_mrrope_without_a_middle(kind: type[MrRoPEUni]) -> None:
    """Five positions: not one pair turns once, and the fastest alone is kept. A small base: h is
    one past the last.
    """
    assert extended(kind(2.0, 1.0, 4.0), RoPE(8), 5, 5) == pytest.approx(
        [1.0, *(t / 4 for t in grid(4)[1:])]
    )
    assert extended(kind(2.0, 1.0, 4.0), RoPE(8, 1.5), L, L) == grid(
        4, 1.5
    )  # all of them turn more than twice
    exponents = (0, 0, 1 / 3, 2 / 3) if kind is MrRoPEUni else (0, 0, 1 / 6, 1 / 2)
    some = extended(kind(5.0, 1.0, 4.0), RoPE(8, 1.8), L, L)  # 6.7, 5.8, 4.98 and 4.3 turns
    assert some == pytest.approx([t / 4**e for t, e in zip(grid(4, 1.8), exponents, strict=True)])


# -- LongRoPE --------------------------------------------------------------------------------------


@pytest.mark.oracle("longrope", "double loop")
def test_longrope_divides_by_the_list_it_is_given() -> None:
    """As a search would set it: beyond the training length one list, up to it the other."""
    a, short = call(POSITIONS["with gaps"]), (1.0, 1.0, 1.1, 1.2)
    extension = LongRoPE(LIST, short, 8.0)
    factor = 1 + math.log(8.0) / math.log(L)
    for test, factors in ((L + 1, LIST), (8 * L, LIST), (L, short), (10, short)):
        theta = [t / f for t, f in zip(grid(4), factors, strict=True)]
        same(scores(extension.apply(RoPE(WIDTH), L, test), a), turned(a, theta, factor), 1e-9)


def test_longrope_is_the_identity_at_the_training_length_where_it_says_so() -> None:
    for extension, identity in (
        (LongRoPE(), True),
        (LongRoPE(LIST), True),
        (LongRoPE(LIST, (1.0,) * 4), True),
        (LongRoPE(LIST, (1.0, 1.0, 1.0, 1.01)), False),
        (LongRoPE(LIST, scale=4.0), False),  # the factor on cosine and sine
        (LongRoPE(scale=4.0), False),
        (LongRoPE(LIST, scale=1.0), True),
    ):
        assert extension.is_identity == identity
        same_as_base = extension.apply(RoPE(WIDTH), L, L).frequencies == RoPE(
            WIDTH
        ).frequencies.stretched((1.0,) * 4)
        assert same_as_base == identity


def test_longropes_starting_list_never_decreases_and_stays_within_the_papers_range() -> None:
    for s in (1.0, 1.5, 8.0):
        for pairs, base, train in SIZES:
            frequencies = RoPE(2 * pairs, base).frequencies
            factors = LongRoPE().stretch(frequencies, train, s)
            assert list(factors) == sorted(factors) and factors[0] == 1 and max(factors) <= s
            assert [f == s for f in factors] == [
                s == 1 or train * t < TURN for t in grid(pairs, base)
            ]


def test_a_list_of_another_length_is_refused_when_it_is_used() -> None:
    with pytest.raises(ConfigError, match=r"one factor for each frequency: give 8, got 4"):
        LongRoPE(LIST).apply(RoPE(16), L, 2 * L)
    with pytest.raises(ConfigError, match=r"one factor for each frequency: give 4, got 2"):
        LongRoPE(LIST, (1.0, 1.0)).apply(RoPE(8), L, L)


# -- Giraffe, resonance, low frequencies -----------------------------------------------------------


def test_giraffes_truncated_basis_has_three_parts() -> None:
    """At L = 4096, d = 128: whole turns, one slow frequency of wavelength 16 L, and none."""
    found = extended(GiraffeTruncated(), RoPE(128), 4096, 4096)
    assert found[:45] == pytest.approx(
        grid(64)[:45], rel=1e-12
    )  # 2 pi 10000^(45/64) = 4089 is the last below 4096
    assert [round(TURN / t) for t in found[46:60]] == [16 * 4096] * 14
    assert found[61:] == [0.0] * 3


@pytest.mark.oracle("resonance", "identity: angles of training repeat exactly")
def test_resonance_meets_the_angles_of_training_again() -> None:
    """At any position a pair that turned in training is where it was one whole wavelength
    before.
    """
    for extension in (
        Resonance(),
        Both(NTK(), Resonance()),
        Both(YaRN(2.0, 1.0), Resonance()),
    ):
        theta = extension.apply(RoPE(32), L, 8 * L).frequencies.theta()
        waves = (TURN / theta).round().long()
        pos = torch.arange(8 * L)
        for t, wave in zip(theta, waves.tolist(), strict=True):
            if wave <= L:
                same((t * pos).cos(), (t * (pos % wave)).cos(), 1e-9)
                same((t * pos).sin(), (t * (pos % wave)).sin(), 1e-9)


@pytest.mark.oracle("resonance_yarn", "identity: one extension after another")
def test_resonance_after_an_extension_is_that_extension_and_then_resonance() -> None:
    a = call(POSITIONS["with gaps"])
    for first in (YaRN(2.0, 1.0), NTK(4.0), GiraffeTruncated(2.0)):
        in_turn = Resonance().apply(first.apply(RoPE(WIDTH), L, 4 * L), L, 4 * L)
        same(scores(Both(first, Resonance()).apply(RoPE(WIDTH), L, 4 * L), a), scores(in_turn, a))


@pytest.mark.oracle("resonance_yarn", "published numbers")
def test_wavelengths_of_resonance_yarn() -> None:
    """By hand at K = 4, b = 10,000, L = 42, s = 4: 6.28 is kept, the others are four times 62.8,
    628.3 and 6283.2.
    """
    new = Both(YaRN(2.0, 1.0), Resonance()).apply(RoPE(WIDTH), L, 4 * L)
    assert [round(TURN / t, 9) for t in theta_of(new)] == [6, 251, 2513, 25133]
    assert [round(TURN / t, 9) for t in extended(Resonance(), RoPE(WIDTH), L, L)] == [
        6,
        63,
        628,
        6283,
    ]


@pytest.mark.parametrize(
    ("pairs", "share", "n"), [(64, 0.3125, 20), (16, 0.5, 8), (4, 0.75, 3), (4, 0.01, 2), (2, 1, 2)]
)
@pytest.mark.oracle("clipped_rope", "double loop")
def test_clipped_rope_tapers_the_slowest_pairs(pairs: int, share: float, n: int) -> None:
    found = extended(ClippedRoPE(share), RoPE(2 * pairs), L, L)
    assert found == pytest.approx(tapered(n)(grid(pairs), L, 1.0), rel=1e-10, abs=1e-300)
    assert found[-1] == 0 and found[-n] == grid(pairs)[-n] and found == sorted(found, reverse=True)


@pytest.mark.parametrize(
    ("pairs", "share", "n"),
    [(64, 0.3125, 20), (16, 0.25, 4), (16, 0.5, 8), (4, 0.01, 1), (2, 1, 2)],
)
@pytest.mark.oracle("drop_low_frequencies", "double loop")
def test_dropped_frequencies_are_the_slowest(pairs: int, share: float, n: int) -> None:
    assert extended(DropLowFrequencies(share), RoPE(2 * pairs), L, L) == cut(n)(grid(pairs), L, 1.0)


@pytest.mark.oracle("drop_low_frequencies", "identity: p-RoPE with the other share")
def test_dropping_a_quarter_is_p_rope_with_three_quarters() -> None:
    a = call(POSITIONS["with gaps"])
    same(
        scores(DropLowFrequencies(0.25).apply(RoPE(WIDTH), L, L), a), scores(PRoPE(WIDTH, 0.75), a)
    )


@pytest.mark.oracle("drop_low_frequencies", "identity: all dropped is NoPE")
def test_dropping_all_leaves_content_alone() -> None:
    a = call(POSITIONS["with gaps"])
    same(scores(DropLowFrequencies(1.0).apply(RoPE(WIDTH), L, L), a), scores(NoPE(), a))


def test_one_pair_alone_can_be_cut() -> None:
    for extension in (ClippedRoPE(0.5), DropLowFrequencies(0.5)):
        assert extended(extension, RoPE(2), L, L) == [0.0]


# -- transformers ----------------------------------------------------------------------------------


def theirs(
    kind: str, d: int, base: float, train: int, test: int | None, **more: object
) -> tuple[Tensor, float]:
    pytest.importorskip("transformers")
    from transformers import LlamaConfig
    from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS

    parameters = {
        "rope_type": kind,
        "rope_theta": base,
        "original_max_position_embeddings": train,
        **more,
    }
    config = LlamaConfig(
        hidden_size=d,
        num_attention_heads=1,
        head_dim=d,
        max_position_embeddings=train,
        rope_parameters=parameters,
    )
    return ROPE_INIT_FUNCTIONS[kind](config, device="cpu", seq_len=test)


def agree(
    extension: FrequencyExtension,
    d: int,
    base: float,
    train: int,
    test: int,
    other: tuple[Tensor, float],
) -> None:
    frequencies = extension.apply(RoPE(d, base), train, test).frequencies
    torch.testing.assert_close(frequencies.theta().float(), other[0], rtol=5e-6, atol=0)
    assert frequencies.magnitude == pytest.approx(other[1], rel=1e-12)


LIBRARY = [(16, 10000.0, 42), (64, 10000.0, 2048), (128, 500_000.0, 8192)]
library = pytest.mark.parametrize(("d", "base", "train"), LIBRARY)


@pytest.mark.oracle("dynamic_ntk", "library: transformers dynamic")
@library
@pytest.mark.parametrize("factor", [1.0, 2.0, 3.5, 8.0])
def test_dynamic_ntk_is_theirs(d: int, base: float, train: int, factor: float) -> None:
    for test in (10, train, train + 1, 2 * train, 9 * train):
        other = theirs("dynamic", d, base, train, test, factor=factor)
        agree(DynamicNTK(factor), d, base, train, test, other)


@pytest.mark.oracle("llama3", "library: transformers llama3")
@library
@pytest.mark.parametrize(("low", "high"), [(1.0, 4.0), (0.5, 8.0), (0.01, 100.0)])
@pytest.mark.parametrize("s", [1.0, 8.0, 32.0])
def test_llama3_is_theirs(
    d: int, base: float, train: int, low: float, high: float, s: float
) -> None:
    other = theirs(
        "llama3", d, base, train, None, factor=s, low_freq_factor=low, high_freq_factor=high
    )
    agree(Llama3(low, high, s), d, base, train, train, other)
    agree(Llama3(low, high), d, base, train, round(s * train), other)


@pytest.mark.oracle("by_parts", "library: transformers yarn")
@library
@pytest.mark.parametrize(("fast", "slow"), [(32.0, 1.0), (2.0, 1.0), (8.0, 0.5)])
def test_by_parts_by_index_is_theirs_without_the_factor(
    d: int, base: float, train: int, fast: float, slow: float
) -> None:
    other = theirs(
        "yarn",
        d,
        base,
        train,
        None,
        factor=8.0,
        beta_fast=fast,
        beta_slow=slow,
        attention_factor=1.0,
    )
    agree(ByParts(fast, slow, scale=8.0), d, base, train, train, other)


@pytest.mark.oracle("longrope", "library: transformers longrope")
@library
@pytest.mark.parametrize("s", [1.0, 4.0, 32.0])
def test_longrope_is_theirs(d: int, base: float, train: int, s: float) -> None:
    short = [1 + 0.01 * m for m in range(d // 2)]
    long = [1 + 0.3 * m**1.5 for m in range(d // 2)]
    for test in (10, train, train + 1, 8 * train):
        other = theirs(
            "longrope", d, base, train, test, factor=s, long_factor=long, short_factor=short
        )
        agree(LongRoPE(long, short, s), d, base, train, test, other)


@pytest.mark.oracle("drop_low_frequencies", "library: transformers proportional")
@pytest.mark.parametrize("share", [0.25, 0.5, 0.75])
def test_dropped_frequencies_are_theirs_of_the_proportional_kind(share: float) -> None:
    for d, base, train in LIBRARY:
        other = theirs("proportional", d, base, train, None, partial_rotary_factor=1 - share)
        agree(DropLowFrequencies(share), d, base, train, train, other)


@pytest.mark.oracle("abf", "library: transformers linear at another base")
def test_a_changed_base_is_theirs() -> None:
    for d, base, train in LIBRARY:
        agree(ABF(1e6), d, base, train, train, theirs("linear", d, 1e6, train, None, factor=1.0))


# -- defaults --------------------------------------------------------------------------------------


def test_published_defaults() -> None:
    """Of the classes; the YAML files have those that suit short training lengths."""
    assert NTKMixed().power == 0.625
    assert (MrRoPEUni().beta_fast, MrRoPEPro().beta_slow) == (32.0, 1.0)
    assert ABF().base == 500_000.0
    assert (ClippedRoPE().share, DropLowFrequencies().share) == (20 / 64, 0.25)
