"""RoPE by a part of the pairs, by the imaginary part and by sums over tokens: HoPE, RoPE-ID,
RoPE++, accumulated rotations, CARoPE and hyperbolic HoPE compute their published formulas.
"""

from __future__ import annotations

import cmath
import math
from collections.abc import Callable
from dataclasses import replace

import pytest
import torch
from loops import HEADS, POSITIONS, WIDTH, N, by_pairs, call, everywhere, same, scores
from rotations import BASE, MODEL, PAIRS, apart, by_complex_pairs, grid, stretched, wave, with_waves
from torch import Tensor

from posbench.base.errors import ConfigError
from posbench.conf.reference import settings
from posbench.core.attention import Attention, attend
from posbench.core.encoding import PositionEncoding
from posbench.encodings.accumulated_rotations import AccumulatedRotations
from posbench.encodings.carope import CARoPE
from posbench.encodings.fope import FoPE
from posbench.encodings.hope import HoPE
from posbench.encodings.hyperbolic_hope import HyperbolicHoPE
from posbench.encodings.p_rope import PRoPE
from posbench.encodings.partial_rope import PartialRoPE
from posbench.encodings.rope import RoPE
from posbench.encodings.rope_pp import RoPEPP
from posbench.encodings.vo_rope import VORoPE
from posbench.extensions.ntk import NTK
from posbench.extensions.pi import PI
from posbench.extensions.yarn import YaRN

oracle = pytest.mark.oracle
FLOAT32 = 1e-4  # tables of libraries are float32


# -- HoPE ------------------------------------------------------------------------------------------

KEPT = [(7, 1), (19, 1), (20, 2), (62, 2), (63, 3), (198, 3), (199, 4)]
"""With base 100 pairs turn once in 6.3, 19.9, 62.8 and 198.7 positions."""


@oracle("hope", "double loop")
@everywhere
@pytest.mark.parametrize(("train_positions", "kept"), KEPT)
def test_hope_turns_the_pairs_that_complete_a_turn_in_training(
    train_positions: int, kept: int, positions: list[float]
) -> None:
    theta = [t if t * train_positions >= 2 * math.pi else 0.0 for t in grid(PAIRS, BASE)]
    assert sum(t > 0 for t in theta) == kept
    for a in (call(positions), apart(call(positions))):
        expected = by_complex_pairs(a, lambda h, m, i, j: cmath.exp(1j * (i - j) * theta[m]))
        same(scores(HoPE(WIDTH, train_positions, BASE), a), expected)


@oracle("hope", "identity: FoPE without spread, p-RoPE with the share of the length")
@pytest.mark.parametrize(("train_positions", "kept"), KEPT)
def test_hope_is_fope_without_spread_and_p_rope_with_its_share(
    train_positions: int, kept: int
) -> None:
    a = call(POSITIONS["with gaps"])
    ours = scores(HoPE(WIDTH, train_positions, BASE), a)
    same(ours, scores(FoPE(HEADS, WIDTH, train_positions, BASE, 0.0).double(), a))
    same(ours, scores(PRoPE(WIDTH, kept / PAIRS, BASE), a))


def test_hope_refuses_a_training_in_which_nothing_turns() -> None:
    with pytest.raises(ConfigError, match="train_positions=6 must be 7 or more for one frequency"):
        HoPE(WIDTH, 6)
    with pytest.raises(ConfigError, match="head_width must be even, got 7"):
        HoPE(7, 40)


# -- RoPE-ID ---------------------------------------------------------------------------------------


@oracle("rope_id", "double loop")
@everywhere
@pytest.mark.parametrize("length", [40, 512])
def test_rope_id_turns_half_of_a_head_by_fast_frequencies(
    length: int, positions: list[float]
) -> None:
    """Channel by channel: two pairs turn, four channels stand."""
    made = settings("encoding/rope_id", length)
    assert made["base"] == pytest.approx(length / (2 * math.pi), rel=1e-3)
    theta = [1.0, made["base"] ** -0.5]
    a = call(positions)
    q, k, p = a.q.tolist(), a.k.tolist(), a.q_pos.tolist()

    def score(b: int, h: int, i: int, j: int) -> float:
        one, other, total = q[b][h][i], k[b][h][j], 0.0
        for m, t in enumerate(theta):
            angle = (p[b][i] - p[b][j]) * t
            total += (one[m] * other[m] + one[m + 2] * other[m + 2]) * math.cos(angle)
            total += (one[m] * other[m + 2] - one[m + 2] * other[m]) * math.sin(angle)
        return a.scale * (total + sum(one[c] * other[c] for c in range(4, 8)))

    ours = PartialRoPE(WIDTH, made["share"], made["base"])
    same(scores(ours, a), by_pairs(a, score), 1e-9)


@oracle("rope_id", "enumeration: every pair completes a turn in training")
@pytest.mark.parametrize("length", [20, 40, 160, 512, 4096])
def test_all_pairs_of_rope_id_complete_a_turn_in_training(length: int) -> None:
    """And with one pair more of the same grid, the last would just do."""
    made = settings("encoding/rope_id", length)
    for width in (8, 32, 128):
        frequencies = PartialRoPE(width, made["share"], made["base"]).frequencies
        turns = [t * length / (2 * math.pi) for t in frequencies.theta().tolist()]
        assert len(turns) == width // 4 and min(turns) > 1 and turns == sorted(turns)[::-1]
        assert turns[-1] * turns[1] / turns[0] == pytest.approx(1, rel=0.01)


# -- RoPE++ ----------------------------------------------------------------------------------------

TWOS = 4  # heads


def two_parts(a: Attention, theta: list[float], factor: float = 1.0) -> Tensor:
    """Heads 2h and 2h + 1: the real and the imaginary part of one sum, of head 2h."""
    q, k, i_pos, j_pos = a.q.tolist(), a.k.tolist(), a.q_pos.tolist(), a.k_pos.tolist()

    def score(b: int, h: int, i: int, j: int) -> float:
        total, d = 0j, i_pos[b][i] - j_pos[b][j]
        one, other = q[b][h - h % 2][i], k[b][h - h % 2][j]
        for m, t in enumerate(theta):
            pair = complex(one[m], one[m + PAIRS]) * complex(other[m], -other[m + PAIRS])
            total += pair * cmath.exp(1j * d * t)
        return factor * a.scale * (total.imag if h % 2 else total.real)

    return by_pairs(a, score)


@oracle("rope_pp", "double loop")
@everywhere
def test_rope_pp_takes_the_real_and_the_imaginary_part(positions: list[float]) -> None:
    a = call(positions, heads=TWOS)
    for each in (a, apart(a)):
        expected = two_parts(each, grid(PAIRS, BASE))
        same(scores(RoPEPP(TWOS, WIDTH, BASE), each), expected)
    values = RoPEPP(TWOS, WIDTH, BASE).encode(a).v
    for h in range(TWOS):
        assert torch.equal(values[:, h], a.v[:, h - h % 2])


@oracle("rope_pp", "double loop")
def test_rope_pp_honours_stretches_and_their_factor() -> None:
    stretch, a = (1.0, 2.0, 3.5, math.inf), call(POSITIONS["with gaps"], heads=TWOS)
    theta = [t / s for t, s in zip(grid(PAIRS, BASE), stretch, strict=True)]
    ours = stretched(RoPEPP(TWOS, WIDTH, BASE), stretch, 1.3)
    same(scores(ours, a), two_parts(a, theta, 1.3**2))


@oracle("rope_pp", "library: transformers Llama, queries turned by sine and minus cosine")
def test_rope_pp_is_llamas_rotation_with_sine_and_cosine_exchanged() -> None:
    """The authors' imaginary query is q sin - rotate_half(q) cos, in their copy of Llama."""
    pytest.importorskip("transformers")
    from transformers import LlamaConfig
    from transformers.models.llama import modeling_llama as llama

    parameters = {"rope_type": "default", "rope_theta": BASE}
    config = LlamaConfig(
        hidden_size=WIDTH, num_attention_heads=1, head_dim=WIDTH, rope_parameters=parameters
    )
    a = call(range(24), heads=TWOS)
    q, k = a.q[:, ::2], a.k[:, ::2]
    cos, sin = llama.LlamaRotaryEmbedding(config)(q, a.q_pos)
    real, turned_k = llama.apply_rotary_pos_emb(q, k, cos, sin)
    imaginary = q * sin[:, None] - llama.rotate_half(q) * cos[:, None]
    ours = scores(RoPEPP(TWOS, WIDTH, BASE), a)
    same(ours[:, ::2], a.scale * real @ turned_k.mT, FLOAT32)
    same(ours[:, 1::2], a.scale * imaginary @ turned_k.mT, FLOAT32)


@oracle("rope_pp", "identity: real heads are RoPE")
def test_the_real_heads_of_rope_pp_are_rope() -> None:
    a = call(POSITIONS["with gaps"], heads=TWOS)
    same(scores(RoPEPP(TWOS, WIDTH, BASE), a)[:, ::2], scores(RoPE(WIDTH, BASE), a)[:, ::2])


@pytest.mark.parametrize("heads", [1, 3])
def test_rope_pp_refuses_heads_that_do_not_come_in_twos(heads: int) -> None:
    with pytest.raises(ConfigError, match=f"num_heads must be even, got {heads}"):
        RoPEPP(heads, WIDTH)


# -- accumulated rotations -------------------------------------------------------------------------


def accumulated(**values: object) -> AccumulatedRotations:
    return with_waves(AccumulatedRotations(HEADS, WIDTH, MODEL, base=BASE), **values)


Between = Callable[[int, int, int, int, int], float]
"""(batch, head, pair, i, j) -> the angle from key j to query i"""


def by_angles(a: Attention, between: Between, factor: float = 1.0) -> Tensor:
    q, k = a.q.tolist(), a.k.tolist()

    def score(b: int, h: int, i: int, j: int) -> float:
        total = 0j
        for m in range(PAIRS):
            one, other = (complex(x[m], x[m + PAIRS]) for x in (q[b][h][i], k[b][h][j]))
            total += one * other.conjugate() * cmath.exp(1j * between(b, h, m, i, j))
        return factor * a.scale * total.real

    return by_pairs(a, score)


def values_by_angles(a: Attention, weights: Tensor, between: Between) -> Tensor:
    v, w, expected = a.v.tolist(), weights.tolist(), torch.zeros_like(a.v)
    for b in range(a.v.shape[0]):
        for h in range(a.num_heads):
            for i in range(a.num_queries):
                for m in range(PAIRS):
                    total = sum(
                        w[b][h][i][j]
                        * complex(v[b][h][j][m], v[b][h][j][m + PAIRS])
                        * cmath.exp(-1j * between(b, h, m, i, j))
                        for j in range(i + 1)
                    )
                    expected[b, h, i, m], expected[b, h, i, m + PAIRS] = total.real, total.imag
    return expected


def along(a: Attention, turn: Callable[[int, int, int, int], float]) -> Between:
    """The sum of turns a position of the tokens after the earlier of the two, up to the later."""
    p = a.q_pos.tolist()

    def between(b: int, h: int, m: int, i: int, j: int) -> float:
        sign, low, high = (1, j, i) if j <= i else (-1, i, j)
        steps = (turn(b, h, m, s) * (p[b][s] - p[b][s - 1]) for s in range(low + 1, high + 1))
        return sign * sum(steps)

    return between


def read(x: list[float], weight: list[float], bias: float) -> float:
    return bias + sum(w * e for w, e in zip(weight, x, strict=True))


def softmaxed(z: Tensor) -> Tensor:
    return z.masked_fill(torch.ones_like(z).triu(1).bool(), -torch.inf).softmax(-1)


def accumulated_between(
    a: Attention, encoding: AccumulatedRotations, theta: list[float]
) -> Between:
    x, w, b0 = a.x.tolist(), encoding.step.weight.tolist(), encoding.step.bias.tolist()
    return along(a, lambda b, h, m, s: theta[m] * read(x[b][s], w[h], b0[h]))


@oracle("accumulated_rotations", "double loop")
@everywhere
def test_accumulated_rotations_turn_by_the_sum_of_steps_read_from_tokens(
    positions: list[float],
) -> None:
    a, encoding = call(positions), accumulated()
    between = accumulated_between(a, encoding, grid(PAIRS, BASE))
    expected = by_angles(a, between)
    same(scores(encoding, a), expected, 1e-8)
    out = values_by_angles(a, softmaxed(expected), between)
    same(attend(encoding.encode(a)), out, 1e-8)
    allowed = torch.ones(1, 1, N, N, dtype=torch.bool)  # a mask, so that blocks of rows are made
    by_rows = replace(encoding.encode(a), masks=(lambda rows: allowed[:, :, rows],))
    for block in (1, 3, N):
        same(attend(by_rows, block), out, 1e-8)


@oracle("accumulated_rotations", "double loop")
def test_accumulated_rotations_keep_the_length_of_values_under_a_factor() -> None:
    stretch, a, encoding = (1.0, 2.0, 3.5, math.inf), call(POSITIONS["with gaps"]), accumulated()
    theta = [t / s for t, s in zip(grid(PAIRS, BASE), stretch, strict=True)]
    between = accumulated_between(a, encoding, theta)
    ours, expected = stretched(encoding, stretch, 1.3), by_angles(a, between, 1.3**2)
    same(scores(ours, a), expected, 1e-9)
    same(attend(ours.encode(a)), values_by_angles(a, softmaxed(expected), between), 1e-9)


@oracle("accumulated_rotations", "identity: products of matrices along the path")
def test_accumulated_rotations_are_products_of_matrices_along_the_path() -> None:
    """As the paper has it, and JoFormer's code: each token has a matrix of rotations."""
    a, encoding = call(), accumulated()
    steps, theta = (
        encoding.steps(a.x).detach(),
        torch.tensor(grid(PAIRS, BASE), dtype=torch.float64),
    )
    angle = steps * theta  # [batch, heads, n, pairs]
    cos, sin = torch.diag_embed(angle.cos()), torch.diag_embed(angle.sin())
    matrix = torch.cat((torch.cat((cos, -sin), -1), torch.cat((sin, cos), -1)), -2)
    z = torch.zeros(*a.q.shape[:2], N, N, dtype=torch.float64)
    out = torch.zeros_like(a.v)
    for i in range(N):
        path, carried = torch.eye(WIDTH, dtype=torch.float64).expand_as(matrix[:, :, 0]), []
        for j in range(i, -1, -1):  # path is R_i ... R_{j+1}
            z[:, :, i, j] = a.scale * (path @ a.q[:, :, i, :, None] * a.k[:, :, j, :, None]).sum(
                (-2, -1)
            )
            carried.insert(0, path.mT @ a.v[:, :, j, :, None])
            path = path @ matrix[:, :, j]
        weights = z[:, :, i, : i + 1].softmax(-1)
        for j, value in enumerate(carried):
            out[:, :, i] += weights[:, :, j, None] * value[..., 0]
    lower = torch.ones(N, N).tril().bool()
    same(scores(encoding, a)[..., lower], z[..., lower], 1e-9)
    same(attend(encoding.encode(a)), out, 1e-9)


@oracle("accumulated_rotations", "identity: steps of 1 are vo_rope")
@everywhere
def test_accumulated_rotations_with_steps_of_one_are_vo_rope(positions: list[float]) -> None:
    encoding = accumulated(**{"step.weight": torch.zeros(HEADS, MODEL), "step.bias": [1.0] * HEADS})
    for a in (
        call(positions),
        call(positions).at(call(positions).q_pos + 5, call(positions).k_pos),
    ):
        same(scores(encoding, a), scores(VORoPE(WIDTH, BASE), a))
        same(attend(encoding.encode(a)), attend(VORoPE(WIDTH, BASE).encode(a)))


def test_accumulated_steps_start_as_standard_normal_numbers_around_the_drift() -> None:
    with torch.random.fork_rng():
        torch.manual_seed(0)
        x = torch.randn(4, 50, 64)
        for drift in (0.0, 1.0):
            steps = AccumulatedRotations(40, 8, 64, drift).steps(x)
            assert steps.shape == (4, 40, 50, 1)
            assert steps.mean().item() == pytest.approx(drift, abs=0.05)
            assert steps.std().item() == pytest.approx(1, rel=0.1)


# -- CARoPE ----------------------------------------------------------------------------------------


def carope(**values: object) -> CARoPE:
    encoding = CARoPE(HEADS, WIDTH, MODEL, BASE).double()
    values = {"gate.weight": wave(HEADS, MODEL, start=0.0), "gate.bias": [0.4, -0.9, 1.7]} | values
    with torch.no_grad():
        for name, value in values.items():
            encoding.get_parameter(name).copy_(torch.as_tensor(value, dtype=torch.float64))
    return encoding


def carope_between(a: Attention, encoding: CARoPE, stretch: list[float]) -> Between:
    x, w, b0 = a.x.tolist(), encoding.gate.weight.tolist(), encoding.gate.bias.tolist()

    def turn(b: int, h: int, m: int, s: int) -> float:
        first = 1 / (math.log(1 + math.exp(read(x[b][s], w[h], b0[h]))) + 1)
        return first**m / stretch[m]

    return along(a, turn)


@oracle("carope", "double loop")
@everywhere
def test_carope_adds_up_powers_of_a_frequency_read_from_tokens(positions: list[float]) -> None:
    a, encoding = call(positions), carope()
    same(scores(encoding, a), by_angles(a, carope_between(a, encoding, [1.0] * PAIRS)), 1e-8)


@oracle("carope", "double loop")
def test_carope_honours_stretches_and_their_factor() -> None:
    stretch, a, encoding = [1.0, 2.0, 3.5, math.inf], call(POSITIONS["with gaps"]), carope()
    expected = by_angles(a, carope_between(a, encoding, stretch), 1.3**2)
    same(scores(stretched(encoding, stretch, 1.3), a), expected, 1e-9)


@oracle("carope", "identity: it starts as RoPE")
@pytest.mark.parametrize("base", [1.5, 100.0, 10_000.0, 1e9])
@everywhere
def test_carope_starts_as_rope(base: float, positions: list[float]) -> None:
    """The start is rounded to float32."""
    a, encoding = call(positions), CARoPE(HEADS, WIDTH, MODEL, base).double()
    if max(positions) < 1000:
        same(scores(encoding, a), scores(RoPE(WIDTH, base), a), 3e-4)
    steps = encoding.steps(a.x)
    assert (steps - 1).abs().max() < 1e-5 and steps.shape == (2, HEADS, N, PAIRS)


@oracle("carope", "identity: one frequency for all tokens is RoPE with its base")
@pytest.mark.parametrize("gate", [-3.0, 0.0, 4.0])
def test_carope_with_one_frequency_is_rope_at_another_base(gate: float) -> None:
    first = 1 / (1 + math.log(1 + math.exp(gate)))
    encoding = carope(**{"gate.weight": torch.zeros(HEADS, MODEL), "gate.bias": [gate] * HEADS})
    a = call(POSITIONS["with gaps"])
    same(scores(encoding, a), scores(RoPE(WIDTH, first**-PAIRS), a), 1e-9)


# -- all of them -----------------------------------------------------------------------------------

MADE: dict[str, tuple[Callable[[], PositionEncoding], int, int]] = {
    "hope": (lambda: HoPE(WIDTH, 63, BASE), HEADS, 3),
    "rope_pp": (lambda: RoPEPP(TWOS, WIDTH, BASE), TWOS, PAIRS),
    "accumulated_rotations": (accumulated, HEADS, PAIRS),
    "carope": (carope, HEADS, PAIRS),
}
each_method = pytest.mark.parametrize(
    ("name", "make", "heads", "count"),
    [
        pytest.param(
            name, *case, id=name,
            marks=oracle(name, "identity: interpolated is at interpolated positions"),
        )
        for name, case in MADE.items()
    ],
)  # fmt: skip


@each_method
def test_extensions_of_frequencies_are_stretches(
    name: str, make: Callable[[], PositionEncoding], heads: int, count: int
) -> None:
    """PI by 4 is positions divided by 4, NTK keeps the fastest of the method's own grid, YaRN has
    its factor.
    """
    encoding, a = make(), call(POSITIONS["with gaps"], heads=heads)
    a = replace(a, x=a.x[..., :MODEL])
    extended, quartered = PI(4.0).apply(encoding, 42, 42), a.at(a.q_pos / 4, a.k_pos / 4)
    same(scores(extended, a), scores(encoding, quartered), 1e-9)
    same(attend(extended.encode(a)), attend(encoding.encode(quartered)), 1e-9)
    ratio = encoding.frequencies.theta() / NTK(8.0).apply(encoding, 42, 42).frequencies.theta()
    assert len(ratio) == count and ratio[0] == 1 and ratio[-1].item() == pytest.approx(8)
    yarn = YaRN(2.0, 0.2, 4.0)
    stretch = yarn.stretch(encoding.frequencies, 42, 4.0)
    same(
        scores(yarn.apply(encoding, 42, 42), a),
        scores(stretched(encoding, stretch, 0.1 * math.log(4) + 1), a),
        1e-9,
    )
    moved = a.at(a.q_pos + 1001, a.k_pos + 1001)
    same(scores(encoding, moved), scores(encoding, a), 1e-8)
    assert isinstance(encoding.encode(a), Attention) and encoding.encode(a).path == "fused"


@pytest.mark.parametrize("make", [AccumulatedRotations, CARoPE])
def test_sums_over_tokens_are_formed_in_full_precision(
    make: type[AccumulatedRotations] | type[CARoPE],
) -> None:
    a, encoding = call(range(400)), make(HEADS, WIDTH, MODEL)
    half = replace(a, q=a.q.bfloat16(), k=a.k.bfloat16(), v=a.v.bfloat16(), x=a.x.bfloat16())
    with torch.autocast("cpu", torch.bfloat16):
        steps, rounded = encoding.steps(half.x), scores(encoding, half)
    assert steps.dtype == torch.float32 and rounded.dtype == torch.bfloat16
    whole = replace(a, q=half.q.double(), k=half.k.double(), x=half.x.double())
    assert (rounded.double() - scores(encoding.double(), whole)).abs().max() < 0.05


@pytest.mark.parametrize("make", [AccumulatedRotations, CARoPE])
def test_sums_over_tokens_refuse_odd_widths_and_no_heads(
    make: type[AccumulatedRotations] | type[CARoPE],
) -> None:
    with pytest.raises(ConfigError, match="head_width must be even, got 7"):
        make(HEADS, 7, MODEL)
    with pytest.raises(ConfigError, match="at least one, got 0"):
        make(0, WIDTH, MODEL)


# -- hyperbolic HoPE -------------------------------------------------------------------------------


def boosted(
    a: Attention, decay: float, theta: list[float], stretch: list[float], factor: float = 1.0
) -> Tensor:
    """By hyperbolic cosine and sine, as published; a later key at distance 0."""
    q, k, i_pos, j_pos = a.q.tolist(), a.k.tolist(), a.q_pos.tolist(), a.k_pos.tolist()

    def score(b: int, h: int, i: int, j: int) -> float:
        total, one, other = 0.0, q[b][h][i], k[b][h][j]
        for m, (t, s) in enumerate(zip(theta, stretch, strict=True)):
            d = max(i_pos[b][i] - j_pos[b][j], 0) / s
            if d > 300:  # the cosine leaves the range, the product is 0
                continue
            even = one[m] * other[m] + one[m + PAIRS] * other[m + PAIRS]
            odd = one[m] * other[m + PAIRS] + one[m + PAIRS] * other[m]
            total += math.exp(-decay * d) * (even * math.cosh(d * t) + odd * math.sinh(d * t))
        return factor * a.scale * total

    return by_pairs(a, score)


@oracle("hyperbolic_hope", "double loop")
@everywhere
@pytest.mark.parametrize("decay", [1.1, 1.7])
def test_hyperbolic_hope_boosts_pairs_by_the_distance(decay: float, positions: list[float]) -> None:
    for a in (call(positions), call(positions).at(call(positions).q_pos + 5, call().k_pos)):
        expected = boosted(a, decay, grid(PAIRS, BASE), [1.0] * PAIRS)
        same(scores(HyperbolicHoPE(WIDTH, decay, BASE), a), expected)


@oracle("hyperbolic_hope", "double loop")
def test_hyperbolic_hope_decays_as_slowly_as_it_is_boosted_under_an_extension() -> None:
    stretch, a = [1.0, 2.0, 3.5, math.inf], call(POSITIONS["with gaps"])
    ours = stretched(HyperbolicHoPE(WIDTH, 1.3, BASE), stretch, 1.3)
    same(scores(ours, a), boosted(a, 1.3, grid(PAIRS, BASE), stretch, 1.3**2))


@oracle("hyperbolic_hope", "identity: products of matrices of positions")
def test_hyperbolic_hope_is_a_product_of_lorentz_matrices() -> None:
    """Queries by B(i), keys by B(-j), as published, and the decay by the distance."""
    a, theta = call(), torch.tensor(grid(PAIRS, BASE), dtype=torch.float64)

    def by_position(x: Tensor, sign: int) -> Tensor:
        phi = sign * a.q_pos[:, None, :, None] * theta
        one, other = x.chunk(2, -1)
        return torch.cat(
            (one * phi.cosh() + other * phi.sinh(), one * phi.sinh() + other * phi.cosh()), -1
        )

    z = a.scale * by_position(a.q, 1) @ by_position(a.k, -1).mT
    z = z * (-1.2 * a.distance(slice(0, N))[:, None].double()).exp()
    lower = torch.ones(N, N).tril().bool()
    same(scores(HyperbolicHoPE(WIDTH, 1.2, BASE), a)[..., lower], z[..., lower], 1e-9)


def test_hyperbolic_scores_of_like_tokens_fall_and_keep_their_sign() -> None:
    a = call(range(40))
    for sign in (1, -1):
        alike = replace(a, q=a.q[:, :, :1].expand_as(a.q), k=sign * a.q[:, :, :1].expand_as(a.k))
        curve = sign * scores(HyperbolicHoPE(WIDTH, base=BASE), alike)[:, :, -1]
        assert (curve > 0).all() and (curve.diff() > 0).all()  # the last key is the nearest
    assert torch.isfinite(scores(HyperbolicHoPE(WIDTH), call(range(0, 700_000, 100_000)))).all()


@pytest.mark.parametrize("decay", [1.0, 0.2])
def test_hyperbolic_hope_refuses_a_decay_that_growth_outweighs(decay: float) -> None:
    with pytest.raises(ConfigError, match=f"decay must exceed 1, .* got {decay}"):
        HyperbolicHoPE(WIDTH, decay)
    with pytest.raises(ConfigError, match="head_width must be even, got 7"):
        HyperbolicHoPE(7)
