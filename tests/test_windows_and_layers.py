"""Extensions of chosen windows and layers: wider windows, and a factor for each layer."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial

import numpy as np
import pytest
import torch
from extending import L
from loops import HEADS, WIDTH, N, call, every_way, loop, outputs, same, shaken
from rotations import grid

from posbench.base.errors import ConfigError, IllegalExtension
from posbench.core.attention import attend_from, dense
from posbench.core.encoding import EncodingStack, PositionEncoding
from posbench.core.extension import Extension
from posbench.encodings.alibi import ALiBi
from posbench.encodings.chunked import Chunked
from posbench.encodings.nope import NoPE
from posbench.encodings.rope import RoPE
from posbench.encodings.sink import Sink
from posbench.encodings.sliding_window import SlidingWindow
from posbench.extensions.both import Both
from posbench.extensions.direct import Direct
from posbench.extensions.dynamic_ntk import DynamicNTK
from posbench.extensions.layer_factors import LayerFactors, LayerFactorsSearch
from posbench.extensions.log_n import LogN
from posbench.extensions.ntk import NTK
from posbench.extensions.only import Only
from posbench.extensions.pi import PI
from posbench.extensions.rerope import ReRoPE
from posbench.extensions.sliding_window import SlidingWindow as WindowAtTest
from posbench.extensions.widen import Widen
from posbench.extensions.yarn import YaRN

oracle = pytest.mark.oracle

# -- windows ---------------------------------------------------------------------------------------


@oracle("widen", "double loop")
@pytest.mark.parametrize(
    ("window", "scale", "wide"),
    [(2, None, 4), (1, None, 2), (2, 1.0, 2), (2, 1.3, 3), (2, 1.2, 2), (3, 2.0, 6), (2, 99.0, N)],
)
def test_a_window_becomes_wider_by_the_factor(window: int, scale: float | None, wide: int) -> None:
    """7 of 4 positions are a factor of 1.75."""
    slopes = ALiBi(HEADS).slopes
    for positions in (range(N), [0, 3, 4, 9, 40, 41, 300], [12, 11, 7, 7, 5, 2, 0]):
        a = call(list(positions))
        extended = Widen(scale).apply(SlidingWindow(ALiBi(HEADS), window), L, N)
        z = loop(a, lambda h, i, j: -slopes[h] * (i - j))
        every_way(extended, a, outputs(a, z, lambda h, i, j: i - wide < j))


@oracle("widen", "identity: the encoding with that window")
@pytest.mark.parametrize(
    "around",
    [
        lambda window: SlidingWindow(RoPE(WIDTH), window),
        lambda window: Sink(SlidingWindow(RoPE(WIDTH), window), HEADS),
        lambda window: SlidingWindow(Sink(RoPE(WIDTH), HEADS), window),
        lambda window: SlidingWindow(SlidingWindow(NoPE(), window), 2 * window),
    ],
    ids=["window", "inside a sink", "around a sink", "in a window"],
)
def test_what_is_widened_is_the_encoding_with_that_window(
    around: Callable[[int], PositionEncoding],
) -> None:
    a, narrow, wide = call(range(N)), shaken(around(2)), shaken(around(4))
    extended = Widen(2.0).apply(narrow, L, N)
    same(dense(extended.encode(a)), dense(wide.encode(a)), 1e-12)
    assert [*extended.parameters()] == [*narrow.parameters()]
    assert not torch.allclose(dense(narrow.encode(a)), dense(wide.encode(a)))


def test_at_the_training_length_windows_stay_as_they_were() -> None:
    a, base = call(range(N)), SlidingWindow(RoPE(WIDTH), 3)
    for test in (L, 2):
        assert torch.equal(dense(Widen().apply(base, L, test).encode(a)), dense(base.encode(a)))
    assert Widen().is_identity and Widen(1.0).is_identity and not Widen(2.0).is_identity
    assert (Widen().scale_policy, Widen(2.0).scale_policy) == ("per test length", "fixed")


def test_layers_without_a_window_stay_and_others_are_chosen() -> None:
    layers = [SlidingWindow(RoPE(WIDTH), 2), NoPE(), SlidingWindow(NoPE(), 3), Chunked(NoPE(), 2)]
    stack = EncodingStack(layers, 4)
    a, b, c, d = Widen(2.0).extend(stack, L, N)
    assert (a.window, c.window) == (4, 6) and b is layers[1] and d is layers[3]
    a, _, c, _ = Only(Widen(2.0), [2]).extend(stack, L, N)
    assert a is layers[0] and c.window == 6
    assert list(Widen().part(stack)) == [layers[0], layers[2]]


@pytest.mark.parametrize(
    "layer",
    [RoPE(WIDTH), NoPE(), Chunked(RoPE(WIDTH), 2), WindowAtTest().apply(RoPE(WIDTH), L, N)],
    ids=["rope", "nope", "chunks", "a window of an extension"],
)
def test_an_encoding_without_windows_is_refused(layer: PositionEncoding) -> None:
    with pytest.raises(IllegalExtension, match="needs a layer with a sliding window"):
        Widen().extend(EncodingStack([layer]), L, N)


@pytest.mark.parametrize("other", [YaRN(1.2, 0.05), LogN(), ReRoPE(3)], ids=["yarn", "log_n", "re"])
def test_windows_widen_before_and_after_another_extension(other: Extension) -> None:
    a, stack = call(range(N)), EncodingStack([SlidingWindow(RoPE(WIDTH), 2)])
    [one], [two] = (
        Both(*parts).extend(stack, L, N) for parts in ((Widen(), other), (other, Widen()))
    )
    [wide] = other.extend(EncodingStack([SlidingWindow(RoPE(WIDTH), 4)]), L, N)
    for extended in (one, two):
        same(dense(extended.encode(a)), dense(wide.encode(a)), 1e-12)


def test_one_query_of_many_keys_sees_its_window() -> None:
    a = call(range(N))
    plan = Widen().apply(SlidingWindow(RoPE(WIDTH), 2), L, N).encode(a)
    same(attend_from(plan, N - 1), dense(plan)[..., -1:, :], 1e-12)


# -- layers ----------------------------------------------------------------------------------------

CURVE = (0.0, 0.5, 1.2)


def point(t: float) -> float:
    """The curve by de Casteljau: between the ends of the two lines, and between those."""
    low, middle, high = CURVE
    first, second = low + t * (middle - low), middle + t * (high - middle)
    return first + t * (second - first)


@oracle("pi_by_layer_search", "double loop")
@pytest.mark.parametrize("layers", [1, 2, 3, 5])
def test_every_layer_turns_at_the_factor_of_its_place_on_the_curve(layers: int) -> None:
    stack, a = EncodingStack([RoPE(WIDTH, 100.0) for _ in range(layers)]), call(range(N))
    extended = LayerFactors(PI, CURVE).extend(stack, L, N)
    q, k = a.q.tolist(), a.k.tolist()
    for index, layer in enumerate(extended):
        s = (N / L) ** point(index / (layers - 1) if layers > 1 else 0.0)
        actual = layer.encode(a).logits(slice(0, N))
        for b, h, i, j in ((0, 0, 6, 1), (1, 2, 5, 0), (0, 1, 3, 3)):
            expected = 0.0
            for m, theta in enumerate(grid(4, 100.0)):
                x, y = (complex(each[m], each[m + 4]) for each in (q[b][h][i], k[b][h][j]))
                turn = (i - j) / s * theta
                expected += (x * y.conjugate() * complex(math.cos(turn), math.sin(turn))).real
            assert actual[b, h, i, j].item() == pytest.approx(a.scale * expected, abs=1e-9)


@oracle("pi_by_layer_search", "identity: pi where the curve is flat")
@oracle("ntk_by_layer_search", "identity: ntk where the curve is flat")
@pytest.mark.parametrize("make", [PI, NTK])
def test_a_flat_curve_is_the_extension_itself(make: type[PI] | type[NTK]) -> None:
    stack, a = EncodingStack([RoPE(WIDTH), NoPE(), RoPE(WIDTH)], 3), call(range(N))
    for scale in (None, 3.0):
        ours = LayerFactors(make, scale=scale).extend(stack, L, N)
        theirs = make(scale).extend(stack, L, N)
        for one, other in zip(ours, theirs, strict=True):
            same(dense(one.encode(a)), dense(other.encode(a)), 1e-12)
    assert list(ours)[1] is stack.layers[1]


def test_a_layer_with_the_exponent_zero_stays_as_it_was() -> None:
    stack, a = EncodingStack([RoPE(WIDTH), RoPE(WIDTH)]), call(range(N))
    first, last = LayerFactors(NTK, (0.0, 3.0, 1.0)).extend(stack, L, N)
    same(dense(first.encode(a)), dense(stack.layers[0].encode(a)), 1e-12)
    same(dense(last.encode(a)), dense(NTK().apply(RoPE(WIDTH), L, N).encode(a)), 1e-12)
    for layer, base in zip(LayerFactors(NTK, CURVE).extend(stack, L, L), stack, strict=True):
        same(dense(layer.encode(a)), dense(base.encode(a)), 1e-12)
    assert LayerFactors(NTK, CURVE).is_identity


def test_curves_and_extensions_that_make_no_sense_are_refused() -> None:
    for exponents in ((1.0, 1.0), (1.0,) * 4, (1.0, -0.1, 1.0), (1.0, math.inf, 1.0)):
        with pytest.raises(ConfigError, match="exponents are three numbers"):
            LayerFactors(PI, exponents)
    for make in (DynamicNTK, Direct, LogN):
        with pytest.raises(ConfigError, match="has no scale"):
            LayerFactors(make)
    with pytest.raises(IllegalExtension, match="needs frequencies"):
        LayerFactors(PI).extend(EncodingStack([ALiBi(HEADS)]), L, N)


def test_the_search_draws_curves_and_keeps_the_best() -> None:
    stack = EncodingStack([RoPE(WIDTH)] * 2)
    made = partial(YaRN, 1.2, 0.05)

    def loss(extension: Extension) -> float:
        assert isinstance(extension, LayerFactors)
        assert extension.make is made
        return abs(extension.exponents[0] - 0.3)

    for budget in (1, 2, 24):
        found = LayerFactorsSearch(made, budget).trials(stack, L, np.random.default_rng(0), loss)
        assert len(found) == budget and [t.loss for t in found] == sorted(t.loss for t in found)
    drawn = np.array([trial.settings["exponents"] for trial in found if trial.settings])
    assert drawn.shape == (23, 3) and drawn.min() >= 0 and drawn.max() <= 1.25
    assert drawn.min() < 0.2 and drawn.max() > 1.1
    [flat] = [trial for trial in found if not trial.settings]
    assert isinstance(flat.extension, LayerFactors) and flat.extension.exponents == (1, 1, 1)
    assert found[0].loss < 0.2
