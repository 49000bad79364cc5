"""Biases that are functions of the distance compute their published formulas: KERPLE, FIRE, dynamic
bias, Sandwich.

As in `test_closed_forms`, the oracle is a double loop over (i, j) in Python floats, and scores are
compared for all pairs, those hidden by the causal mask included.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

import pytest
import torch
from loops import HEADS, POSITIONS, N, call, everywhere, given, loop, same, scores, shaken
from torch import Tensor, nn

from posbench.core.attention import Attention, attend, dense
from posbench.core.encoding import EncodingStack, PositionEncoding
from posbench.encodings.alibi import ALiBi, alibi_slopes
from posbench.encodings.dynamic_bias import DynamicBias
from posbench.encodings.fire import FIRE
from posbench.encodings.kerple_log import KerpleLog
from posbench.encodings.kerple_power import KerplePower
from posbench.encodings.sandwich import Sandwich


def bias_of(encoding: PositionEncoding, a: Attention) -> Tensor:
    return scores(encoding, replace(a, q=torch.zeros_like(a.q)))


def network(
    mlp: nn.Sequential, activation: Callable[[float], float]
) -> Callable[[float], list[float]]:
    """The layers of a network as sums over lists; the last has no activation."""
    layers = [(m.weight.tolist(), m.bias.tolist()) for m in mlp if isinstance(m, nn.Linear)]

    def run(x: float) -> list[float]:
        values = [x]
        for index, (weight, offset) in enumerate(layers):
            sums = [
                sum(w * u for w, u in zip(row, values, strict=True)) + b
                for row, b in zip(weight, offset, strict=True)
            ]
            values = sums if index == len(layers) - 1 else [activation(s) for s in sums]
        return values

    return run


# -- KERPLE ----------------------------------------------------------------------------------------


@pytest.mark.oracle("kerple_log", "double loop")
@everywhere
def test_kerple_log_subtracts_r1_times_the_logarithm(positions: list[float]) -> None:
    """After the scale; a later key counts as distance 0."""
    r1, r2 = [0.3, 1.7, 0.9], [0.8, 0.05, 2.6]
    a = call(positions)

    def bias(h: int, i: float, j: float) -> float:
        return -r1[h] * math.log(1 + r2[h] * max(i - j, 0))

    same(scores(given(KerpleLog(HEADS), r1=r1, r2=r2), a), loop(a, bias))


@pytest.mark.oracle("kerple_power", "double loop")
@everywhere
def test_kerple_power_subtracts_r1_times_the_power(positions: list[float]) -> None:
    r1, r2 = [0.3, 1.7, 0.02], [0.5, 0.05, 1.9]
    a = call(positions)

    def bias(h: int, i: float, j: float) -> float:
        return -r1[h] * max(i - j, 0) ** r2[h]

    same(scores(given(KerplePower(HEADS), r1=r1, r2=r2), a), loop(a, bias))


@pytest.mark.oracle("kerple_power", "identity: exponent 1 is ALiBi")
@pytest.mark.parametrize(
    "positions", [POSITIONS["counted"], POSITIONS["with gaps"]], ids=["counted", "with gaps"]
)
def test_kerple_power_with_exponent_one_is_alibi(positions: list[float]) -> None:
    """On every pair that causality shows; steepness 4, because 8 has slopes below KERPLE's bound of
    0.01.
    """
    a = call(positions)
    kerple = given(KerplePower(HEADS), r1=alibi_slopes(HEADS, 4.0), r2=[1.0] * HEADS)
    same(scores(kerple, a).tril(), scores(ALiBi(HEADS, 4.0), a).tril())
    same(attend(kerple.encode(a)), attend(ALiBi(HEADS, 4.0).encode(a)))


@pytest.mark.oracle("kerple_log", "identity: weights fall as a power")
def test_kerple_log_weights_fall_as_a_power_of_the_distance() -> None:
    """With no content a key at distance d weighs (1 + r2 d)^-r1, over the sum of all."""
    r1, r2, n = [0.5, 1.0, 3.0], [2.0, 0.7, 0.1], 20
    a = call(range(n))
    plan = given(KerpleLog(HEADS), r1=r1, r2=r2).encode(replace(a, q=torch.zeros_like(a.q)))
    last = plan.weights(plan.logits(slice(n - 1, n)), slice(n - 1, n))[0, :, 0].tolist()
    for h in range(HEADS):
        shares = [(1 + r2[h] * (n - 1 - j)) ** -r1[h] for j in range(n)]
        assert last[h] == pytest.approx([share / sum(shares) for share in shares], abs=1e-12)


@pytest.mark.parametrize(
    ("make", "r1", "r2", "acts_as"),
    [
        (KerpleLog, [-3.0, 0.001, 5.0], [0.002, -1.0, 7.0], ([0.01, 0.01, 5.0], [0.01, 0.01, 7.0])),
        (
            KerplePower,
            [-3.0, 0.001, 5.0],
            [2.5, -1.0, 0.003],
            ([0.01, 0.01, 5.0], [2.0, 0.01, 0.01]),
        ),
    ],
    ids=["log", "power"],
)
def test_kerple_parameters_act_within_their_bounds(
    make: Callable[[int], PositionEncoding],
    r1: list[float],
    r2: list[float],
    acts_as: tuple[list[float], list[float]],
) -> None:
    """They keep their own values and a gradient, so that training can bring them back."""
    a = call(POSITIONS["with gaps"])
    outside, inside = (
        given(make(HEADS), r1=r1, r2=r2),
        given(make(HEADS), r1=acts_as[0], r2=acts_as[1]),
    )
    same(scores(outside, a), scores(inside, a))
    assert outside.r1.tolist() == r1 and outside.r2.tolist() == r2
    scores(outside, a).sum().backward()
    scores(inside, a).sum().backward()
    for name in ("r1", "r2"):
        there, here = getattr(outside, name).grad, getattr(inside, name).grad
        assert (there != 0).all()
        torch.testing.assert_close(there, here)


@pytest.mark.parametrize(
    ("make", "highs"), [(KerpleLog, (2, 1)), (KerplePower, (1, 2))], ids=["log", "power"]
)
def test_kerple_starts_uniform_as_published(
    make: Callable[[int], PositionEncoding], highs: tuple[int, int]
) -> None:
    with torch.random.fork_rng():
        torch.manual_seed(0)
        encoding = make(4000)
    for parameter, high in zip((encoding.r1, encoding.r2), highs, strict=True):
        assert 0 <= parameter.min() < 0.01 * high and 0.99 * high < parameter.max() <= high
        assert parameter.mean().item() == pytest.approx(high / 2, rel=0.05)


# -- FIRE ------------------------------------------------------------------------------------------


def share(i: float, j: float, c: float, threshold: float) -> float:
    """psi(i - j) / psi(max(T, i)), the input of FIRE's network."""
    return math.log(abs(c) * max(i - j, 0) + 1) / (
        math.log(abs(c) * max(abs(threshold), i) + 1) + 1e-6
    )


@pytest.mark.oracle("fire", "double loop")
@everywhere
@pytest.mark.parametrize(("c", "multiplier"), [(0.1, 1.0), (0.7, 1.9), (-0.4, -0.6)])
def test_fire_is_a_network_of_the_share_of_the_distance(
    c: float, multiplier: float, positions: list[float]
) -> None:
    """Both c and the threshold act by their absolute values; thresholds lie among the positions."""
    a = call(positions)
    encoding = given(shaken(FIRE(HEADS, 5, threshold=4.0)), c=c, multiplier=multiplier)
    run = network(encoding.mlp, lambda s: max(s, 0.0))

    def bias(h: int, i: float, j: float) -> float:
        return run(share(i, j, c, 4.0 * multiplier))[h]

    same(scores(encoding, a), loop(a, bias))


@pytest.mark.oracle("fire", "identity: input 1 at the first key beyond the threshold")
def test_fire_input_grows_to_the_threshold_and_is_rescaled_beyond_it() -> None:
    """Up to T a distance has one input whatever the query; beyond T the first key has input 1 for
    every query.
    """
    n, threshold = 40, 10.0
    fire = given(FIRE(2, 4, threshold), c=0.1)
    x = fire.share(call(range(n), 2), slice(0, n))[0].detach()
    assert x.min() >= 0 and x.max() <= 1
    for d in range(11):
        expected = math.log(0.1 * d + 1) / (math.log(0.1 * 10 + 1) + 1e-6)
        assert x.diagonal(-d)[: 11 - d].tolist() == pytest.approx([expected] * (11 - d), abs=1e-12)
    assert x[10:, 0].tolist() == pytest.approx([1.0] * 30, abs=1e-5)
    assert (x[:10, 0] < 0.97).all()
    distance_five = x.diagonal(-5)[
        5:
    ]  # queries 10 and on: the same distance is an ever smaller share
    assert (distance_five.diff() < 0).all()


@pytest.mark.parametrize("length", [2, 100, 100_000])
def test_fire_input_stays_between_0_and_1_at_any_length(length: int) -> None:
    a = call([0, length // 3, length // 2, length - 1])
    x = given(FIRE(HEADS, 4, 12.0)).share(a.at(a.q_pos[:1], a.k_pos[:1]), slice(0, 4)).detach()
    assert x.min() == 0 and 0.1 < x.max() <= 1


def test_fire_starts_with_the_published_c_and_the_threshold_given() -> None:
    encoding = FIRE(HEADS, 32, 21.0)
    assert encoding.c.item() == pytest.approx(0.1) and encoding.multiplier.item() == 1.0
    assert [p.shape for p in encoding.mlp.parameters()] == [(32, 1), (32,), (HEADS, 32), (HEADS,)]


# -- dynamic bias ----------------------------------------------------------------------------------


def silu(s: float) -> float:
    return s / (1 + math.exp(-s))


@pytest.mark.oracle("dynamic_bias", "double loop")
@everywhere
@pytest.mark.parametrize(("depth", "model_width"), [(1, 20), (2, 20), (3, 9)])
def test_dynamic_bias_is_a_network_of_the_signed_logarithm(
    depth: int, model_width: int, positions: list[float]
) -> None:
    """`depth` hidden layers of a quarter of the model width; a later key has a negative input."""
    a = call(positions)
    encoding = shaken(DynamicBias(HEADS, model_width, depth))
    run = network(encoding.mlp, silu)
    quarter = model_width // 4
    assert [len(p) for p in encoding.mlp.parameters()] == [quarter, quarter] * depth + [
        HEADS,
        HEADS,
    ]

    def bias(h: int, i: float, j: float) -> float:
        return run(math.copysign(math.log(abs(i - j) + 1), i - j))[h]

    same(scores(encoding, a), loop(a, bias))


@pytest.mark.oracle("dynamic_bias", "identity: the network at 0 and ln 2")
def test_dynamic_bias_at_distance_0_is_the_network_at_0() -> None:
    a = call(POSITIONS["with gaps"])
    encoding = shaken(DynamicBias(HEADS, 20))
    diagonal = bias_of(encoding, a).diagonal(dim1=-2, dim2=-1)
    expected = encoding.mlp(torch.zeros(1, dtype=torch.float64))
    same(diagonal, expected[None, :, None].expand(diagonal.shape))
    neighbour = bias_of(encoding, call(POSITIONS["counted"]))[0, :, 1, 0]
    same(neighbour, encoding.mlp(torch.tensor([math.log(2)], dtype=torch.float64)))


# -- Sandwich --------------------------------------------------------------------------------------


def cosines(d: float, width: int, base: float) -> float:
    """The sum over m = 1..W/2 of cos(d / b^(2m/W))."""
    return sum(math.cos(d / base ** (2 * m / width)) for m in range(1, width // 2 + 1))


@pytest.mark.oracle("sandwich", "double loop")
@everywhere
@pytest.mark.parametrize(
    ("heads", "width", "base", "compression"),
    [(3, 128, 10000.0, 8.0), (2, 2, 10000.0, 8.0), (4, 12, 50.0, 1.5)],
)
def test_sandwich_adds_the_sum_of_cosines_by_head(
    heads: int, width: int, base: float, compression: float, positions: list[float]
) -> None:
    """Times H / (8 h), h from 1; frequencies from m = 1, so that the fastest turns less than a
    radian a token.
    """
    a = call(positions, heads)

    def bias(h: int, i: float, j: float) -> float:
        return cosines(i - j, width, base) * heads / (compression * (h + 1))

    same(scores(Sandwich(heads, width, base, compression), a), loop(a, bias))


@pytest.mark.oracle("sandwich", "identity: the constant of the paper changes nothing")
def test_the_constant_of_the_paper_changes_no_output() -> None:
    """The paper subtracts W/2, which makes the bias 0 at distance 0."""
    a = call(POSITIONS["with gaps"])

    def as_published(rows: slice) -> Tensor:
        d = a.distance(rows).double()
        sums = sum(torch.cos(d / 10000 ** (2 * m / 128)) for m in range(1, 65)) - 64
        return torch.stack([sums * HEADS / (8 * h) for h in range(1, HEADS + 1)], 1)

    published = a.plus(as_published)
    same(bias_of(Sandwich(HEADS), a)[:, 1] - 64 * HEADS / 16, as_published(slice(0, N))[:, 1])
    same(dense(Sandwich(HEADS).encode(a)), dense(published))
    assert as_published(slice(0, N)).diagonal(dim1=-2, dim2=-1).abs().max() == 0


def test_sandwich_needs_no_score_matrix() -> None:
    plan = Sandwich(HEADS).encode(call(range(N)))
    assert plan.path == "fused" and plan.bias_q is not None and plan.bias_q.shape[-1] == 128


# -- all of them -----------------------------------------------------------------------------------

MADE: dict[str, Callable[[], PositionEncoding]] = {
    "kerple_log": lambda: KerpleLog(HEADS),
    "kerple_power": lambda: KerplePower(HEADS),
    "fire": lambda: FIRE(HEADS, 32, 4.0),
    "dynamic_bias": lambda: DynamicBias(HEADS, 16),
    "sandwich": lambda: Sandwich(HEADS),
}


@pytest.mark.parametrize("name", MADE)
def test_queries_and_keys_keep_positions_of_their_own(name: str) -> None:
    """Region methods move only one of the two: D is taken between them, and no position is
    rebuilt.
    """
    encoding, a = shaken(MADE[name]()), call(POSITIONS["with gaps"])
    moved = bias_of(encoding, a.at(a.q_pos + 5, a.k_pos))
    by_hand = [
        [bias_of(encoding, call([j, i + 5]))[:, :, 1, 0] for j in POSITIONS["with gaps"]]
        for i in (0, 40)
    ]
    for row, expected in zip((0, 4), by_hand, strict=True):
        same(moved[:, :, row], torch.stack(expected, -1))


@pytest.mark.parametrize("name", MADE)
def test_a_constant_added_to_every_bias_changes_no_output(name: str) -> None:
    encoding, a = shaken(MADE[name]()), call(POSITIONS["counted"])
    plan = encoding.encode(a)
    same(
        dense(plan.plus(lambda rows: torch.full((1, 1, 1, 1), 12.5, dtype=torch.float64))),
        dense(plan),
    )


@pytest.mark.parametrize("name", ["kerple_log", "kerple_power", "fire", "dynamic_bias"])
def test_layers_share_every_parameter(name: str) -> None:
    alone, stack = MADE[name](), EncodingStack([MADE[name]() for _ in range(3)])
    assert len(list(stack.parameters())) == len(list(alone.parameters())) > 0
    assert all(set(layer.parameters()) == set(stack.layers[0].parameters()) for layer in stack)


@pytest.mark.parametrize("name", ["fire", "dynamic_bias"])
def test_networks_run_in_full_precision_whatever_the_precision_of_training(name: str) -> None:
    encoding, a = MADE[name](), call(POSITIONS["with gaps"])
    term = encoding.encode(a).terms[0]
    with torch.autocast("cpu", torch.bfloat16):
        inside = term(slice(0, N))
    assert torch.equal(inside, term(slice(0, N))) and inside.dtype == torch.float32
