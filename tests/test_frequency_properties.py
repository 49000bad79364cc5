"""Extensions of frequencies have the properties that their papers derive, beside their tables."""

from __future__ import annotations

import itertools
import math

import pytest
import torch
from frequencies import SIZES, TURN, L, cut, extended, tapered, theta_of, warm
from loops import POSITIONS, WIDTH, by_pairs, call, same, scores
from rotations import grid, turned

from posbench.base.errors import ConfigError
from posbench.core.extension import FrequencyExtension
from posbench.encodings.nope import NoPE
from posbench.encodings.p_rope import PRoPE
from posbench.encodings.rope import RoPE
from posbench.extensions.abf import ABF
from posbench.extensions.both import Both
from posbench.extensions.by_parts import ByParts
from posbench.extensions.clipped_rope import ClippedRoPE
from posbench.extensions.drop_low_frequencies import DropLowFrequencies
from posbench.extensions.dynamic_ntk import DynamicNTK
from posbench.extensions.giraffe_truncated import GiraffeTruncated
from posbench.extensions.llama3 import Llama3
from posbench.extensions.longrope import LongRoPE
from posbench.extensions.mrrope_pro import MrRoPEPro
from posbench.extensions.mrrope_uni import MrRoPEUni
from posbench.extensions.ntk import NTK
from posbench.extensions.ntk_fixed import NTKFixed
from posbench.extensions.ntk_mixed import NTKMixed
from posbench.extensions.resonance import Resonance
from posbench.extensions.yarn import YaRN
from posbench.extensions.yarn_turns import YaRNTurns

LIST = (1.0, 1.5, 3.0, 7.25)


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
    by_base = extended(ABF(s ** (d / (d - 2))), RoPE(d, base), L, L)
    assert extended(NTK(s), RoPE(d, base), L, L) == pytest.approx(by_base, rel=1e-10)


@pytest.mark.oracle("abf", "identity: RoPE built with the base")
def test_a_changed_base_is_rope_with_that_base() -> None:
    a = call(POSITIONS["with gaps"])
    same(scores(ABF(0.05).apply(RoPE(WIDTH), L, L), a), scores(RoPE(WIDTH, 500.0), a))


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
        new = extension.apply(RoPE(WIDTH), L, test)
        same(scores(new, a), by_pairs(a, turned(a, theta, "half", factor)), 1e-9)


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
