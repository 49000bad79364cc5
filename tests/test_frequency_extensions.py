"""Every extension of frequencies beyond PI, NTK and YaRN computes its published table.

The oracle of a table is a loop over pairs in Python floats, written from the paper and in another
form than the library's: wavelengths instead of turns, products of radices instead of exponents, a
new base instead of stretches. Scores are the complex form in i - j with that table; where
transformers has the method, its table is compared too.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import pytest
import torch
from frequencies import SIZES, TURN, L, Table, cut, extended, tapered, theta_of, warm
from loops import POSITIONS, WIDTH, by_pairs, call, same, scores
from rotations import grid, turned
from torch import Tensor

from posbench.core.encoding import PositionEncoding
from posbench.core.extension import FrequencyExtension
from posbench.encodings.p_rope import PRoPE
from posbench.encodings.partial_rope import PartialRoPE
from posbench.encodings.pope import PoPE
from posbench.encodings.rope import RoPE
from posbench.encodings.sinusoidal import Sinusoidal
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
from posbench.extensions.ntk_fixed import NTKFixed
from posbench.extensions.ntk_mixed import NTKMixed
from posbench.extensions.pi import PI
from posbench.extensions.resonance import Resonance
from posbench.extensions.yarn import YaRN
from posbench.extensions.yarn_turns import YaRNTurns

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


def grown(growth: float) -> Table:
    """At another base of the geometric grid in use."""

    def table(theta: list[float], train: int, s: float) -> list[float]:
        base = (theta[0] / theta[1]) ** len(theta)
        return [t * theta[0] for t in grid(len(theta), growth * base)]

    return table


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


@dataclass(frozen=True)
class Case:
    make: Callable[[float | None], FrequencyExtension]  # at a scale, where it has one
    table: Table
    factor: Callable[[float], float] = lambda s: 1.0
    scaled: bool = True  # has `scale`


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
    "abf": Case(lambda s: ABF(4.0), grown(4.0), scaled=False),
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


@each
def test_scores_are_the_complex_form_at_the_published_frequencies(name: str) -> None:
    """At four times the training length, with one scale for each length; a factor enters query and
    key.
    """
    case, a = CASES[name], call(POSITIONS["with gaps"])
    new = case.make(None).apply(RoPE(WIDTH), L, 4 * L)
    theta = case.table(grid(WIDTH // 2), L, 4.0)
    same(scores(new, a), by_pairs(a, turned(a, theta, "half", case.factor(4.0) ** 2)), 1e-9)
    assert not torch.allclose(scores(new, a), scores(RoPE(WIDTH), a))


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
    "abf": (lambda: ABF(), grown(50.0)),
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
        "rope after abf": ABF(0.03).apply(RoPE(WIDTH), L, L),
    }


@pytest.mark.parametrize("host", hosts())
@pytest.mark.parametrize(
    "name", [name for name in SIZED if name not in ("by_parts", "resonance_yarn")]
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
        agree(
            ABF(1e6 / base),
            d,
            base,
            train,
            train,
            theirs("linear", d, 1e6, train, None, factor=1.0),
        )


# -- defaults --------------------------------------------------------------------------------------


def test_published_defaults() -> None:
    """Of the classes; the YAML files have those that suit short training lengths."""
    assert NTKMixed().power == 0.625
    assert (MrRoPEUni().beta_fast, MrRoPEPro().beta_slow) == (32.0, 1.0)
    assert ABF().growth == 500_000 / 10_000
    assert (ClippedRoPE().share, DropLowFrequencies().share) == (20 / 64, 0.25)
