"""PI, NTK and YaRN stretch frequencies as published, at the scale they should, one after another,
and refuse a host without any.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable

import pytest
import torch
from loops import EXACT, POSITIONS, WIDTH, by_pairs, call, same, scores
from rotations import published, turned

from posbench.base.errors import IllegalExtension
from posbench.core.encoding import EncodingStack, PositionEncoding
from posbench.core.extension import Extension
from posbench.encodings.alibi import ALiBi
from posbench.encodings.learned import Learned
from posbench.encodings.nope import NoPE
from posbench.encodings.partial_rope import PartialRoPE
from posbench.encodings.rope import RoPE
from posbench.encodings.sinusoidal import Sinusoidal
from posbench.encodings.t5 import T5
from posbench.extensions.direct import Direct
from posbench.extensions.ntk import NTK
from posbench.extensions.pi import PI
from posbench.extensions.yarn import YaRN

# -- frequency extensions: the tables --------------------------------------------------------------


def stretches(
    extension: Extension, head_width: int, train: int, test: int, base: float = 10000.0
) -> list[float]:
    """lambda_m, read off the frequencies of an extended RoPE: theta_m of the formula over theta'_m
    in use.
    """
    new = extension.apply(RoPE(head_width, base), train, test)
    return [
        b / t
        for b, t in zip(published(base, head_width), new.frequencies.theta().tolist(), strict=True)
    ]


def yarn_stretch(
    d: int, base: float, train: int, s: float, fast: float, slow: float
) -> list[float]:
    """By counting turns, without logarithms: pair m turns L theta_m / 2 pi times in training. The
    ramp runs from the last index with at least `fast` turns to the first with at most `slow`.
    """
    pairs = d // 2

    def turns(m: int) -> float:
        return train * base ** (-m / pairs) / (2 * math.pi)

    wide = range(-200, 400)
    low = max(0, max(m for m in wide if turns(m) >= fast))
    high = min(d - 1, min(m for m in wide if turns(m) <= slow))
    found = []
    for m in range(pairs):
        if m <= low:
            interpolated = 0.0
        elif m >= high:
            interpolated = 1.0
        else:
            interpolated = (m - low) / (high - low)
        found.append(1 / ((1 - interpolated) + interpolated / s))
    return found


SCALES = [1.0, 1.5, 4.0, 8.0, 32.0]


@pytest.mark.oracle("pi", "double loop")
@pytest.mark.parametrize("s", SCALES)
def test_pi_stretches_every_pair_by_s(s: float) -> None:
    assert stretches(PI(s), 16, 42, 42) == pytest.approx([s] * 8, rel=1e-12)


@pytest.mark.oracle("pi", "identity: positions over s")
@pytest.mark.parametrize("s", SCALES)
def test_pi_is_dividing_positions_by_s(s: float) -> None:
    a = call(POSITIONS["with gaps"])
    divided = a.at(a.q_pos.double() / s, a.k_pos.double() / s)
    same(scores(PI(s).apply(RoPE(WIDTH), 42, 42), a), scores(RoPE(WIDTH), divided), 1e-12)


@pytest.mark.oracle("ntk", "double loop")
@pytest.mark.parametrize("s", SCALES)
@pytest.mark.parametrize("d", [4, 16, 64, 128])
def test_ntk_stretches_pair_m_by_s_to_the_m_over_last(d: int, s: float) -> None:
    expected = [s ** (m / (d // 2 - 1)) for m in range(d // 2)]
    assert stretches(NTK(s), d, 42, 42) == pytest.approx(expected, rel=1e-12)


@pytest.mark.oracle("ntk", "identity: a change of base")
@pytest.mark.parametrize("s", SCALES)
@pytest.mark.parametrize(("d", "base"), [(4, 10000.0), (64, 10000.0), (128, 500_000.0)])
def test_ntk_is_the_larger_base(d: int, base: float, s: float) -> None:
    """The base b' = b s^(d/(d-2))."""
    theta = NTK(s).apply(RoPE(d, base), 42, 42).frequencies.theta().tolist()
    assert theta == pytest.approx(published(base * s ** (d / (d - 2)), d), rel=1e-12)


@pytest.mark.oracle("ntk", "identity: the derivation")
@pytest.mark.parametrize("s", SCALES)
@pytest.mark.parametrize("d", [4, 64])
def test_ntk_multiplies_the_ratio_of_neighbours_by_s_to_the_2_over_d_minus_2(
    d: int, s: float
) -> None:
    """The derivation: theta_m = beta^-m with beta = b^(2/d). Of all beta' = beta k, the one whose
    slowest pair is interpolated, beta'^-(K-1) = beta^-(K-1) / s, has k = s^(2/(d-2)); the fastest
    stays.
    """
    base = 10000.0
    before = published(base, d)
    theta = NTK(s).apply(RoPE(d, base), 42, 42).frequencies.theta().tolist()
    ratios = [fast / slow for fast, slow in itertools.pairwise(theta)]
    assert ratios == pytest.approx([base ** (2 / d) * s ** (2 / (d - 2))] * (d // 2 - 1), rel=1e-12)
    assert theta[0] == before[0] == 1.0
    assert theta[-1] == pytest.approx(before[-1] / s, rel=1e-12)


YARN = [  # head width, base, L, beta_fast, beta_slow
    (64, 10000.0, 2048, 32.0, 1.0),
    (128, 10000.0, 4096, 32.0, 1.0),
    (128, 500_000.0, 8192, 32.0, 1.0),
    (16, 10000.0, 42, 2.0, 1.0),
    (32, 10000.0, 42, 4.0, 0.25),
    (16, 100.0, 42, 5.0, 0.01),  # the end of the ramp lies beyond the last pair
    (16, 10000.0, 4096, 32.0, 1e-6),  # it would lie beyond the last channel
    (32, 10000.0, 42, 32.0, 1.0),  # no pair turns 32 times
]


@pytest.mark.oracle("yarn", "double loop")
@pytest.mark.parametrize("s", SCALES)
@pytest.mark.parametrize(("d", "base", "train", "fast", "slow"), YARN)
def test_yarn_interpolates_by_parts(
    d: int, base: float, train: int, fast: float, slow: float, s: float
) -> None:
    """1/lambda = g + (1-g)/s, with the ramp of g over whole indices."""
    expected = yarn_stretch(d, base, train, s, fast, slow)
    assert stretches(YaRN(fast, slow, s), d, train, train, base) == pytest.approx(
        expected, rel=1e-12
    )


def test_yarn_keeps_fast_pairs_and_interpolates_slow_ones() -> None:
    found = stretches(YaRN(32.0, 1.0, 4.0), 128, 4096, 4096)
    turns = [4096 * theta / (2 * math.pi) for theta in published(10000.0, 128)]
    assert all(value == pytest.approx(1) for value, n in zip(found, turns, strict=True) if n >= 32)
    assert all(
        value == pytest.approx(4) for value, n in zip(found, turns, strict=True) if n <= 0.86
    )
    assert any(1.01 < value < 3.99 for value in found)
    assert found == sorted(found)


def test_no_pair_turns_32_times_below_201_positions() -> None:
    """Why the default beta_fast must shrink with L: pair 0 turns L / 2 pi times."""
    assert 201 / (2 * math.pi) < 32 < 202 / (2 * math.pi)
    assert stretches(YaRN(32.0, 1.0, 4.0), 16, 201, 201)[1] > 1.01


@pytest.mark.oracle("yarn", "double loop")
@pytest.mark.parametrize("s", SCALES)
def test_yarn_scales_logits_by_the_square_of_its_attention_factor(s: float) -> None:
    a = call(POSITIONS["with gaps"])
    factor = 0.1 * math.log(s) + 1
    stretch = yarn_stretch(WIDTH, 10000.0, 42, s, 2.0, 1.0)
    theta = [t / r for t, r in zip(published(10000.0, WIDTH), stretch, strict=True)]
    new = YaRN(2.0, 1.0, s).apply(RoPE(WIDTH), 42, 42)
    assert new.frequencies.magnitude == pytest.approx(factor, rel=1e-12)
    same(scores(new, a), by_pairs(a, turned(a, theta, "half", factor**2)))


@pytest.mark.oracle("yarn", "double loop")
@pytest.mark.parametrize(
    ("mscale", "all_dim"), [(0.707, 0.707), (1.0, 0.0), (0.0, 0.0), (0.4, 2.0)]
)
def test_a_split_temperature_is_one_of_all_scores_and_one_of_those_that_turn(
    mscale: float, all_dim: float
) -> None:
    """On a head of which a half turns: q k is the sum of both halves, turned and not."""
    a, s = call(POSITIONS["with gaps"]), 4.0
    stretch = yarn_stretch(WIDTH // 2, 100.0, 42, s, 2.0, 1.0)
    theta = [t / r for t, r in zip(published(100.0, WIDTH // 2), stretch, strict=True)]
    still, part = WIDTH // 2, range(WIDTH // 4)
    q, k, i_pos, j_pos = (each.tolist() for each in (a.q, a.k, a.q_pos, a.k_pos))
    total, everywhere = 0.1 * mscale * math.log(s) + 1, 0.1 * all_dim * math.log(s) + 1

    def score(b: int, h: int, i: int, j: int) -> float:
        x, y, turning = q[b][h][i], k[b][h][j], 0.0
        for m in part:
            angle = (i_pos[b][i] - j_pos[b][j]) * theta[m]
            n = m + WIDTH // 4
            turning += math.cos(angle) * (x[m] * y[m] + x[n] * y[n])
            turning += math.sin(angle) * (x[m] * y[n] - x[n] * y[m])
        content = sum(x[c] * y[c] for c in range(still, WIDTH))
        return a.scale * (total**2 * turning + everywhere**2 * content)

    extension = YaRN(2.0, 1.0, s, mscale, all_dim)
    same(scores(extension.apply(PartialRoPE(WIDTH, 0.5, 100.0), 42, 42), a), by_pairs(a, score))


@pytest.mark.oracle("yarn", "identity: mscale 1 for all dimensions where all turn")
def test_a_split_temperature_is_whole_where_every_channel_turns() -> None:
    a = call(POSITIONS["with gaps"])
    split, whole = (YaRN(2.0, 1.0, 4.0, 1.0, nu).apply(RoPE(WIDTH), 42, 42) for nu in (1.0, 0.0))
    assert split.frequencies.magnitude == 1.0
    same(scores(split, a), scores(whole, a), 1e-12)


def test_the_defaults_of_yarn_compute_what_they_did_before_it_had_more_settings() -> None:
    a = call(POSITIONS["with gaps"])
    plan = YaRN(2.0, 1.0, 5.5).apply(RoPE(WIDTH), 42, 42)
    assert type(plan) is RoPE and plan.frequencies.magnitude == 0.1 * math.log(5.5) + 1
    explicit = YaRN(2.0, 1.0, 5.5, 1, 0, True).apply(RoPE(WIDTH), 42, 42)
    assert torch.equal(scores(plan, a), scores(explicit, a))
    assert YaRN(2.0, 1.0, truncate=False).is_identity


@pytest.mark.parametrize("extension", [PI(3.0), NTK(3.0)], ids=["pi", "ntk"])
def test_pi_and_ntk_leave_the_size_of_logits_alone(extension: Extension) -> None:
    assert extension.apply(RoPE(WIDTH), 42, 336).frequencies.magnitude == 1.0


@pytest.mark.oracle("ntk", "double loop")
@pytest.mark.parametrize("layout", ["half", "interleaved"])
def test_extended_rope_is_the_complex_form_with_divided_angles(layout: str) -> None:
    a = call(POSITIONS["shifted"])
    theta = [t / 4 ** (m / 3) for m, t in enumerate(published(10000.0, WIDTH))]
    same(
        scores(NTK().apply(RoPE(WIDTH, layout=layout), 42, 168), a),
        by_pairs(a, turned(a, theta, layout)),
    )


@pytest.mark.oracle("yarn", "double loop")
def test_yarn_scales_sinusoidal_rows_once() -> None:
    s, width = 4.0, 24
    factor, stretch = 0.1 * math.log(s) + 1, yarn_stretch(width, 10000.0, 42, s, 2.0, 1.0)
    new = YaRN(2.0, 1.0, s).apply(Sinusoidal(width), 42, 42)
    found = new.embed(torch.zeros(1, 1, width, dtype=torch.float64), torch.tensor([[29]]))[
        0, 0
    ].tolist()
    expected = []
    for m, theta in enumerate(published(10000.0, width)):
        expected += [
            factor * math.sin(29 * theta / stretch[m]),
            factor * math.cos(29 * theta / stretch[m]),
        ]
    assert found == pytest.approx(expected, abs=EXACT)


# -- frequency extensions: which scale -------------------------------------------------------------

KINDS: dict[str, Callable[[float | None], Extension]] = {
    "pi": lambda s: PI(s),
    "ntk": lambda s: NTK(s),
    "yarn": lambda s: YaRN(2.0, 1.0, s),
}
every_kind = pytest.mark.parametrize("kind", KINDS.values(), ids=list(KINDS))


@every_kind
@pytest.mark.parametrize(("test", "s"), [(84, 2.0), (336, 8.0), (63, 1.5)])
def test_without_a_scale_each_length_has_its_own_ratio(
    kind: Callable[[float | None], Extension], test: int, s: float
) -> None:
    """The ratio s = L'/L, read as counts of positions: no + 1 anywhere."""
    per_length, fixed = (
        kind(None).apply(RoPE(WIDTH), 42, test),
        kind(s).apply(RoPE(WIDTH), 42, test),
    )
    assert per_length.frequencies.theta().tolist() == pytest.approx(
        fixed.frequencies.theta().tolist(), rel=1e-14
    )
    assert per_length.frequencies.magnitude == pytest.approx(fixed.frequencies.magnitude, rel=1e-14)


@every_kind
def test_a_fixed_scale_is_the_same_at_every_length(
    kind: Callable[[float | None], Extension],
) -> None:
    ones = [kind(4.0).apply(RoPE(WIDTH), 42, test).frequencies for test in (10, 42, 84, 336)]
    assert all(one == ones[0] for one in ones)
    assert ones[0].theta()[-1].item() == pytest.approx(published(10000.0, WIDTH)[-1] / 4, rel=1e-12)


@every_kind
@pytest.mark.parametrize("test", [42, 20, 1])
def test_without_a_scale_nothing_changes_up_to_the_training_length(
    kind: Callable[[float | None], Extension], test: int
) -> None:
    """Bit for bit: a ratio below 1 would compress."""
    a = call()
    assert kind(None).is_identity
    assert torch.equal(scores(kind(None).apply(RoPE(WIDTH), 42, test), a), scores(RoPE(WIDTH), a))


@every_kind
def test_a_fixed_scale_changes_the_training_length_too(
    kind: Callable[[float | None], Extension],
) -> None:
    a = call()
    assert not kind(4.0).is_identity
    assert not torch.allclose(
        scores(kind(4.0).apply(RoPE(WIDTH), 42, 42), a), scores(RoPE(WIDTH), a)
    )


@every_kind
def test_a_fixed_scale_of_one_is_the_identity(kind: Callable[[float | None], Extension]) -> None:
    a = call()
    assert kind(1.0).is_identity
    assert torch.equal(scores(kind(1.0).apply(RoPE(WIDTH), 42, 336), a), scores(RoPE(WIDTH), a))


def test_direct_changes_nothing() -> None:
    encoding = RoPE(WIDTH)
    assert Direct().apply(encoding, 42, 336) is encoding


@every_kind
def test_an_extension_does_not_touch_the_encoding_it_was_given(
    kind: Callable[[float | None], Extension],
) -> None:
    encoding = RoPE(WIDTH)
    before = encoding.frequencies
    new = kind(4.0).apply(encoding, 42, 336)
    assert encoding.frequencies is before and new.frequencies != before


# -- frequency extensions: one after another -------------------------------------------------------


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_two_extensions_multiply_their_stretches(order: tuple[int, int]) -> None:
    """PI by 2 and NTK by 3: lambda_m = 2 * 3^(m/(K-1)), in either order."""
    a, encoding = call(POSITIONS["with gaps"]), RoPE(WIDTH)
    for index in order:
        encoding = (PI(2.0), NTK(3.0))[index].apply(encoding, 42, 336)
    theta = [t / (2 * 3 ** (m / 3)) for m, t in enumerate(published(10000.0, WIDTH))]
    same(scores(encoding, a), by_pairs(a, turned(a, theta, "half")))


def test_two_yarns_multiply_stretches_and_attention_factors() -> None:
    a, encoding = call(POSITIONS["with gaps"]), RoPE(WIDTH)
    factor, theta = 1.0, published(10000.0, WIDTH)
    for s in (2.0, 4.0):
        encoding = YaRN(2.0, 1.0, s).apply(encoding, 42, 42)
        factor *= 0.1 * math.log(s) + 1
        theta = [
            t / r for t, r in zip(theta, yarn_stretch(WIDTH, 10000.0, 42, s, 2.0, 1.0), strict=True)
        ]
    same(scores(encoding, a), by_pairs(a, turned(a, theta, "half", factor**2)))


def test_two_halves_of_pi_are_one_whole() -> None:
    a = call()
    twice = PI(2.0).apply(PI(2.0).apply(RoPE(WIDTH), 42, 42), 42, 42)
    same(scores(twice, a), scores(PI(4.0).apply(RoPE(WIDTH), 42, 42), a), 1e-12)


@pytest.mark.oracle("rope", "double loop")
def test_an_infinite_stretch_switches_a_pair_off() -> None:
    """With lambda = inf: that pair contributes Re q conj(k), at any distance."""
    a = call(POSITIONS["with gaps"])
    encoding = RoPE(WIDTH)
    off = encoding.variant(
        frequencies=encoding.frequencies.stretched((1.0, math.inf, 1.0, math.inf))
    )
    theta = [0.0 if m % 2 else t for m, t in enumerate(published(10000.0, WIDTH))]
    same(scores(off, a), by_pairs(a, turned(a, theta, "half")))


# -- hosts without frequencies ---------------------------------------------------------------------


@pytest.mark.parametrize(
    "encoding", [NoPE(), ALiBi(2), T5(2, 8, 4, 9), Learned(8, 9)], ids=lambda e: type(e).__name__
)
def test_stretching_frequencies_that_are_not_there_is_refused(encoding: PositionEncoding) -> None:
    with pytest.raises(IllegalExtension, match="PI needs frequencies"):
        PI(2.0).extend(EncodingStack([encoding]), 42, 84)
