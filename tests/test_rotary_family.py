"""Descendants of RoPE that turn by positions compute their published formulas, for all pairs:
partial and p-RoPE, xPos, PoPE, LeRoPE and FoPE; and all of them take stretched frequencies.
"""

from __future__ import annotations

import cmath
import math
from collections.abc import Callable
from dataclasses import replace

import pytest
import torch
from loops import HEADS, POSITIONS, WIDTH, N, by_pairs, call, everywhere, given, same, scores
from rotations import BASE, PAIRS, apart, by_complex_pairs, grid, selective, stretched, wave
from torch import Tensor
from vectors import softplus

from posbench.core.attention import Attention, attend
from posbench.core.encoding import EncodingStack, PositionEncoding
from posbench.encodings.fope import FoPE
from posbench.encodings.lerope import LeRoPE
from posbench.encodings.p_rope import PRoPE
from posbench.encodings.partial_rope import PartialRoPE
from posbench.encodings.pope import PoPE
from posbench.encodings.rope import RoPE
from posbench.encodings.vo_rope import VORoPE
from posbench.encodings.xpos import XPos
from posbench.extensions.ntk import NTK
from posbench.extensions.pi import PI
from posbench.extensions.yarn import YaRN

FLOAT32 = 1e-4  # tables of libraries are float32


# -- partial RoPE ----------------------------------------------------------------------------------


def partial_score(a: Attention, theta: list[float], factor: float = 1.0) -> Tensor:
    """The first 2 len(theta) channels turned, in pairs half of these apart; the rest multiplied as
    it is.
    """
    q, k, i_pos, j_pos = a.q.tolist(), a.k.tolist(), a.q_pos.tolist(), a.k_pos.tolist()
    count = len(theta)

    def score(b: int, h: int, i: int, j: int) -> float:
        total, d = 0.0, i_pos[b][i] - j_pos[b][j]
        for m, t in enumerate(theta):
            one, other = (complex(x[m], x[m + count]) for x in (q[b][h][i], k[b][h][j]))
            total += factor * (one * other.conjugate() * cmath.exp(1j * d * t)).real
        for c in range(2 * count, a.q.shape[-1]):
            total += q[b][h][i][c] * k[b][h][j][c]
        return a.scale * total

    return by_pairs(a, score)


@pytest.mark.oracle("partial_rope", "double loop")
@everywhere
@pytest.mark.parametrize(("share", "count"), [(0.25, 1), (0.5, 2), (0.99, 3), (1.0, 4)])
def test_partial_rope_turns_the_first_channels_by_frequencies_of_their_own(
    share: float, count: int, positions: list[float]
) -> None:
    for a in (call(positions), apart(call(positions))):
        same(scores(PartialRoPE(WIDTH, share, BASE), a), partial_score(a, grid(count, BASE)))


@pytest.mark.oracle("partial_rope", "double loop")
def test_partial_rope_scales_only_what_turns() -> None:
    a = call(POSITIONS["with gaps"])
    encoding = stretched(PartialRoPE(WIDTH, 0.75, BASE), (1.0, 2.5, math.inf), 1.3)
    one, two, _ = grid(3, BASE)
    same(scores(encoding, a), partial_score(a, [one, two / 2.5, 0.0], 1.3**2))


@pytest.mark.oracle("partial_rope", "identity: share 1 is RoPE")
@pytest.mark.oracle("p_rope", "identity: share 1 is RoPE")
def test_all_channels_turned_are_rope() -> None:
    a = call(POSITIONS["with gaps"])
    for encoding in (PartialRoPE(WIDTH, 1.0, BASE), PRoPE(WIDTH, 1.0, BASE)):
        assert torch.equal(scores(encoding, a), scores(RoPE(WIDTH, BASE), a))


@pytest.mark.oracle("partial_rope", "library: transformers GPT-NeoX")
@pytest.mark.parametrize("kind", ["default", "linear", "yarn"])
@pytest.mark.parametrize("share", [0.25, 0.5])
def test_partial_rope_is_gpt_neoxs(share: float, kind: str) -> None:
    pytest.importorskip("transformers")
    from transformers import GPTNeoXConfig
    from transformers.models.gpt_neox import modeling_gpt_neox as neox

    width, train = 32, 24
    extra = {"default": {}, "linear": {"factor": 4.0}, "yarn": {"factor": 4.0, "beta_fast": 2.0}}[
        kind
    ]
    if kind == "yarn":
        extra["original_max_position_embeddings"] = train
    parameters = {"rope_type": kind, "rope_theta": BASE, "partial_rotary_factor": share, **extra}
    config = GPTNeoXConfig(
        hidden_size=width,
        num_attention_heads=1,
        rope_parameters=parameters,
        max_position_embeddings=4 * train,
    )
    a = call(range(24), width=width)
    q, k = neox.apply_rotary_pos_emb(a.q, a.k, *neox.GPTNeoXRotaryEmbedding(config)(a.q, a.q_pos))
    ours: PositionEncoding = PartialRoPE(width, share, BASE)
    if kind != "default":
        ours = {"linear": PI(4.0), "yarn": YaRN(2.0, 1.0, 4.0)}[kind].apply(ours, train, train)
    same(scores(ours, a), a.scale * q @ k.mT, FLOAT32)


# -- p-RoPE ----------------------------------------------------------------------------------------


@pytest.mark.oracle("p_rope", "double loop")
@everywhere
@pytest.mark.parametrize(("share", "count"), [(0.25, 1), (0.5, 2), (0.75, 3), (0.99, 3)])
def test_p_rope_keeps_the_fastest_frequencies_of_the_full_width(
    share: float, count: int, positions: list[float]
) -> None:
    theta = [*grid(count, BASE, PAIRS), *[0.0] * (PAIRS - count)]
    for a in (call(positions), apart(call(positions))):
        expected = by_complex_pairs(a, lambda h, m, i, j: cmath.exp(1j * (i - j) * theta[m]))
        same(scores(PRoPE(WIDTH, share, BASE), a), expected)


@pytest.mark.oracle("p_rope", "identity: the rest at infinite stretch is RoPE")
@pytest.mark.parametrize("magnitude", [1.0, 1.3])
def test_p_rope_is_rope_with_the_slow_pairs_switched_off(magnitude: float) -> None:
    """With a factor on cosine and sine too: the cosine of a pair that stands is 1."""
    a = call(POSITIONS["with gaps"])
    ours = stretched(PRoPE(WIDTH, 0.75, BASE), (1.0, 2.0, 5.0), magnitude)
    same(
        scores(ours, a),
        scores(stretched(RoPE(WIDTH, BASE), (1.0, 2.0, 5.0, math.inf), magnitude), a),
    )


@pytest.mark.oracle("p_rope", "library: transformers proportional")
@pytest.mark.parametrize(("width", "share"), [(16, 0.75), (64, 0.25), (20, 0.3)])
def test_p_rope_is_proportional_rope_of_transformers(width: int, share: float) -> None:
    pytest.importorskip("transformers")
    from transformers import LlamaConfig
    from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS
    from transformers.models.llama import modeling_llama as llama

    parameters = {"rope_type": "proportional", "rope_theta": BASE, "partial_rotary_factor": share}
    config = LlamaConfig(
        hidden_size=width, num_attention_heads=1, head_dim=width, rope_parameters=parameters
    )
    theta, _ = ROPE_INIT_FUNCTIONS["proportional"](config, device="cpu")
    a = call(range(24), width=width)
    angles = torch.cat((theta, theta)).double() * a.q_pos[..., None]
    q, k = llama.apply_rotary_pos_emb(a.q, a.k, angles.cos(), angles.sin())
    same(scores(PRoPE(width, share, BASE), a), a.scale * q @ k.mT, FLOAT32)


def test_the_two_ways_of_turning_a_part_differ() -> None:
    a = call()
    assert not torch.allclose(
        scores(PRoPE(WIDTH, 0.5, BASE), a), scores(PartialRoPE(WIDTH, 0.5, BASE), a)
    )


# -- xPos ------------------------------------------------------------------------------------------


def zeta(m: int, width: int, gamma: float) -> float:
    return (2 * m + gamma * width) / ((1 + gamma) * width)


def close(actual: Tensor, expected: Tensor) -> None:
    """Relative to the size of the score: that of a far later key, which is never shown, is huge."""
    torch.testing.assert_close(actual, expected, rtol=1e-8, atol=1e-10)


@pytest.mark.oracle("xpos", "double loop")
@everywhere
@pytest.mark.parametrize(("scale_base", "gamma"), [(512.0, 0.4), (40.0, 0.4), (60.0, 1.7)])
def test_xpos_multiplies_each_pair_by_a_power_of_its_zeta(
    scale_base: float, gamma: float, positions: list[float]
) -> None:
    theta = grid(PAIRS, BASE)

    def factor(h: int, m: int, i: float, j: float) -> complex:
        return zeta(m, WIDTH, gamma) ** ((i - j) / scale_base) * cmath.exp(1j * (i - j) * theta[m])

    for a in (
        call(positions),
        call(positions).at(call(positions).q_pos + 5, call(positions).k_pos),
    ):
        close(scores(XPos(WIDTH, scale_base, gamma, BASE), a), by_complex_pairs(a, factor))


@pytest.mark.oracle("xpos", "double loop")
def test_xpos_decays_as_slowly_as_it_turns_under_an_extension() -> None:
    """Pair m sees positions divided by lambda_m, in its rotation and in its decay; infinity stops
    both.
    """
    stretch, theta = (1.0, 2.0, 3.5, math.inf), grid(PAIRS, BASE)
    a = call(POSITIONS["with gaps"])

    def factor(h: int, m: int, i: float, j: float) -> complex:
        d = (i - j) / stretch[m]
        return 1.3**2 * zeta(m, WIDTH, 0.4) ** (d / 40) * cmath.exp(1j * d * theta[m])

    close(
        scores(stretched(XPos(WIDTH, 40.0, base=BASE), stretch, 1.3), a),
        by_complex_pairs(a, factor),
    )


@pytest.mark.oracle("xpos", "identity: no decay over the sequence is RoPE")
def test_xpos_with_a_huge_scale_base_is_rope() -> None:
    a = call(POSITIONS["with gaps"])
    same(scores(XPos(WIDTH, 1e14, base=BASE), a), scores(RoPE(WIDTH, BASE), a))


@pytest.mark.oracle("xpos", "library: x-transformers RotaryEmbedding")
@pytest.mark.parametrize("scale_base", [12, 512])
def test_xpos_is_that_of_x_transformers(scale_base: int) -> None:
    """Its pairs are neighbours, so its channels are put in that order; decay centred elsewhere,
    which cancels.
    """
    library = pytest.importorskip("x_transformers.x_transformers")
    width = 16
    a = call(range(24), width=width)
    order = torch.arange(width).reshape(2, -1).T.flatten()  # 0, 8, 1, 9, ...
    angles, size = library.RotaryEmbedding(width, use_xpos=True, scale_base=scale_base)(
        torch.arange(24)
    )
    q = library.apply_rotary_pos_emb(a.q[..., order], angles, size)
    k = library.apply_rotary_pos_emb(a.k[..., order], angles, size**-1)
    torch.testing.assert_close(
        scores(XPos(width, scale_base), a), a.scale * q @ k.mT, rtol=1e-4, atol=1e-4
    )


@pytest.mark.parametrize("start", [0, 1_000_000])
def test_xpos_keeps_its_precision_wherever_the_positions_begin(start: int) -> None:
    """In float32, over 16 scale bases: split about the middle, no power leaves the range."""
    a = call(range(start, start + 320))
    small = replace(a, q=a.q.float(), k=a.k.float(), v=a.v.float(), x=a.x.float())
    exact, rounded = (attend(XPos(WIDTH, 20.0).encode(each)) for each in (a, small))
    same(rounded.double(), exact, 1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("positions", [range(600), [(i // 50) * 700 + i for i in range(300)]])
def test_xpos_keeps_its_precision_where_powers_leave_the_range(positions: list[int]) -> None:
    """In float32, over hundreds of scale bases: scores in parts, and the reference in float64,
    where all powers fit.
    """
    a, encoding = call(positions), XPos(WIDTH, 2.0 if len(positions) == 600 else 20.0)
    small = replace(a, q=a.q.float(), k=a.k.float(), v=a.v.float(), x=a.x.float())
    parts = encoding.encode(small)
    assert parts.path == "dense" and encoding.encode(a).path == "fused"
    same(attend(parts).double(), attend(encoding.encode(a)), 1e-5)
    for block in (1, 77, 300):
        same(attend(parts, block).double(), attend(encoding.encode(a)), 1e-5)


# -- PoPE ------------------------------------------------------------------------------------------


def polar_scores(
    a: Attention, theta: list[float], delta: list[list[float]], factor: float = 1.0
) -> Tensor:
    q, k, i_pos, j_pos = a.q.tolist(), a.k.tolist(), a.q_pos.tolist(), a.k_pos.tolist()

    def score(b: int, h: int, i: int, j: int) -> float:
        d = i_pos[b][i] - j_pos[b][j]
        return a.scale * sum(
            factor * softplus(x) * softplus(y) * math.cos(d * t - e)
            for x, y, t, e in zip(q[b][h][i], k[b][h][j], theta, delta[h], strict=True)
        )

    return by_pairs(a, score)


def deltas() -> list[list[float]]:
    return [[-0.4 * (c + 1) - h / 3 for c in range(WIDTH)] for h in range(HEADS)]


@pytest.mark.oracle("pope", "double loop")
@everywhere
def test_pope_multiplies_magnitudes_by_the_cosine_of_a_frequency_a_channel(
    positions: list[float],
) -> None:
    encoding = given(PoPE(HEADS, WIDTH, BASE), delta=deltas())
    for a in (call(positions), apart(call(positions))):
        same(scores(encoding, a), polar_scores(a, grid(WIDTH, BASE), deltas()))


@pytest.mark.oracle("pope", "double loop")
def test_pope_honours_stretches_and_their_factor() -> None:
    a = call(POSITIONS["with gaps"])
    stretch = (1.0, 1.5, 2.0, 2.5, 3.0, 4.0, 5.0, math.inf)
    theta = [t / s for t, s in zip(grid(WIDTH, BASE), stretch, strict=True)]
    encoding = stretched(given(PoPE(HEADS, WIDTH, BASE), delta=deltas()), stretch, 1.3)
    same(scores(encoding, a), polar_scores(a, theta, deltas(), 1.3**2))


@pytest.mark.oracle("pope", "library: x-transformers PolarEmbedding")
def test_pope_is_that_of_x_transformers() -> None:
    """Beyond its bounds delta acts as the bound, there and here."""
    library = pytest.importorskip("x_transformers.x_transformers")
    width = 16
    a = call(range(24), width=width)
    values = 4 * wave(HEADS, 1, width, start=1.0) - 3
    theirs, ours = (
        library.PolarEmbedding(width, HEADS),
        given(PoPE(HEADS, width), delta=values[:, 0]),
    )
    with torch.no_grad():
        theirs.learned_bias.copy_(values)
    assert values.max() > 0 and values.min() < -2 * math.pi
    angles, delta = theirs(torch.arange(24))
    q, k = (
        library.apply_polar_pos_emb(a.q, angles),
        library.apply_polar_pos_emb(a.k, angles + delta),
    )
    same(scores(ours, a), a.scale * q @ k.mT, FLOAT32)


def test_pope_angles_start_at_zero_and_keep_a_gradient_beyond_their_bounds() -> None:
    a, encoding = call(), PoPE(HEADS, WIDTH, BASE).double()
    assert not encoding.delta.any()
    for value in (0.0, 0.7, -2 * math.pi, -9.0):
        encoding.delta.grad = None
        scores(
            given(encoding, delta=torch.full((HEADS, WIDTH), value)), a
        ).square().sum().backward()
        assert (encoding.delta.grad != 0).all()


def test_pope_without_frequencies_matches_content_alone() -> None:
    """Every pair off: the product of magnitudes, at any distance; none can be negative."""
    a = call(POSITIONS["running back"])
    still = stretched(PoPE(HEADS, WIDTH), [math.inf] * WIDTH)
    magnitudes = [torch.nn.functional.softplus(t) for t in (a.q, a.k)]
    same(scores(still.double(), a), a.scale * magnitudes[0] @ magnitudes[1].mT)
    assert still.encode(a).q.shape[-1] == 2 * WIDTH and torch.equal(still.encode(a).v, a.v)


# -- LeRoPE ----------------------------------------------------------------------------------------

ALPHA = [0.3, -0.5, 1.2, -2.0]


@pytest.mark.oracle("lerope", "double loop")
@everywhere
def test_lerope_multiplies_frequencies_by_the_exponential(positions: list[float]) -> None:
    theta = [t * math.exp(alpha) for t, alpha in zip(grid(PAIRS, BASE), ALPHA, strict=True)]
    encoding = given(LeRoPE(WIDTH, BASE), alpha=ALPHA)
    for a in (call(positions), apart(call(positions))):
        same(
            scores(encoding, a),
            by_complex_pairs(a, lambda h, m, i, j: cmath.exp(1j * (i - j) * theta[m])),
            1e-9,
        )


@pytest.mark.oracle("lerope", "double loop")
def test_lerope_honours_stretches_and_their_factor() -> None:
    """On top of what was learned."""
    stretch, a = (1.0, 2.0, 3.5, math.inf), call(POSITIONS["with gaps"])
    theta = [t * math.exp(e) / s for t, e, s in zip(grid(PAIRS, BASE), ALPHA, stretch, strict=True)]
    encoding = stretched(given(LeRoPE(WIDTH, BASE), alpha=ALPHA), stretch, 1.3)
    same(
        scores(encoding, a),
        by_complex_pairs(a, lambda h, m, i, j: 1.69 * cmath.exp(1j * (i - j) * theta[m])),
    )


@pytest.mark.oracle("lerope", "identity: alpha 0 is RoPE")
@everywhere
def test_lerope_starts_as_rope(positions: list[float]) -> None:
    a = call(positions)
    same(scores(LeRoPE(WIDTH, BASE), a), scores(RoPE(WIDTH, BASE), a))


@pytest.mark.oracle("lerope", "library: transformers Mistral Large 4")
def test_lerope_is_that_of_mistral_large_4() -> None:
    pytest.importorskip("transformers")
    mistral = pytest.importorskip("transformers.models.mistral_large4.modeling_mistral_large4")
    from transformers import LlamaConfig
    from transformers.models.llama import modeling_llama as llama

    parameters = {"rope_type": "default", "rope_theta": BASE}
    config = LlamaConfig(
        hidden_size=WIDTH, num_attention_heads=1, head_dim=WIDTH, rope_parameters=parameters
    )
    theirs, a = mistral.MistralLarge4TextRotaryEmbedding(config), call(range(24))
    theirs.alpha.copy_(torch.tensor(ALPHA))
    q, k = llama.apply_rotary_pos_emb(a.q, a.k, *theirs(a.q, a.q_pos))
    same(scores(given(LeRoPE(WIDTH, BASE), alpha=ALPHA), a), a.scale * q @ k.mT, FLOAT32)


def test_lerope_gradient_is_the_slope_of_the_scores() -> None:
    """Through float64 tables into a float32 parameter, by central differences."""
    a = call()
    weight = wave(*scores(LeRoPE(WIDTH), a).shape, start=2.0)
    encoding = LeRoPE(WIDTH, BASE)
    (scores(encoding, a) * weight).sum().backward()
    assert encoding.alpha.grad is not None and encoding.alpha.grad.dtype == torch.float32
    for m in range(PAIRS):
        moved = [
            given(LeRoPE(WIDTH, BASE), alpha=torch.eye(PAIRS)[m] * step) for step in (1e-5, -1e-5)
        ]
        slope = [(scores(each, a) * weight).sum().item() for each in moved]
        assert encoding.alpha.grad[m].item() == pytest.approx(
            (slope[0] - slope[1]) / 2e-5, rel=1e-4
        )


def test_layers_share_lerope_frequencies() -> None:
    stack = EncodingStack([LeRoPE(WIDTH) for _ in range(3)])
    assert len(list(stack.parameters())) == 1 and stack.layers[2].alpha is stack.layers[0].alpha


# -- FoPE ------------------------------------------------------------------------------------------


def fope(train_positions: int = 12, sigma: float = 0.9) -> FoPE:
    """With base 100 pairs turn at 1, 0.32, 0.1 and 0.03 radians a position."""
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return FoPE(HEADS, WIDTH, train_positions, BASE, sigma).double()


def fourier_scores(a: Attention, encoding: FoPE, theta: list[float], factor: float = 1.0) -> Tensor:
    """Equation 13, with the coefficients that were drawn; theta holds the frequencies kept."""
    cos_mix, sin_mix = encoding.cos_mix.tolist(), encoding.sin_mix.tolist()

    def series(h: int, m: int, p: float) -> complex:
        if m >= len(theta):
            return 1 + 0j
        total = cmath.exp(1j * p * theta[m])
        for n, t in enumerate(theta):
            own = float(n == m)
            total += (cos_mix[h][n][m] - own) * math.cos(p * t) + 1j * (
                sin_mix[h][n][m] - own
            ) * math.sin(p * t)
        return total

    return by_complex_pairs(
        a, lambda h, m, i, j: factor * series(h, m, i) * series(h, m, j).conjugate()
    )


@pytest.mark.oracle("fope", "double loop")
@everywhere
@pytest.mark.parametrize(
    ("train_positions", "kept"), [(7, 1), (19, 1), (20, 2), (62, 2), (63, 3), (1000, 4)]
)
def test_fope_mixes_the_frequencies_that_complete_a_turn(
    train_positions: int, kept: int, positions: list[float]
) -> None:
    """2 pi / 0.316 is 19.9, 2 pi / 0.1 is 62.8."""
    encoding = fope(train_positions)
    for a in (call(positions), apart(call(positions))):
        same(scores(encoding, a), fourier_scores(a, encoding, grid(kept, BASE, PAIRS)))


@pytest.mark.oracle("fope", "double loop")
def test_fope_stretches_before_it_mixes() -> None:
    a, encoding = call(POSITIONS["with gaps"]), fope(63)
    theta = [t / s for t, s in zip(grid(3, BASE, PAIRS), (1.0, 2.0, 3.5), strict=True)]
    same(
        scores(stretched(encoding, (1.0, 2.0, 3.5), 1.3), a),
        fourier_scores(a, encoding, theta, 1.3**2),
    )


@pytest.mark.oracle("fope", "identity: sigma 0 is p-RoPE")
@pytest.mark.parametrize(
    ("train_positions", "share"), [(7, 0.25), (20, 0.5), (63, 0.75), (1000, 1.0)]
)
def test_fope_without_spread_is_p_rope(train_positions: int, share: float) -> None:
    a = call(POSITIONS["with gaps"])
    same(scores(fope(train_positions, 0.0), a), scores(PRoPE(WIDTH, share, BASE), a))


def test_fope_draws_coefficients_of_its_own_for_cosine_sine_heads_and_layers() -> None:
    with torch.random.fork_rng():
        torch.manual_seed(0)
        one, other = (FoPE(40, 32, 10_000, BASE, 0.3) for _ in range(2))
    noise = [mix - torch.eye(16) for each in (one, other) for mix in (each.cos_mix, each.sin_mix)]
    for each in noise:
        assert (
            each.std().item() == pytest.approx(0.3 / 4, rel=0.05)
            and abs(each.mean().item()) < 0.005
        )
        assert not torch.equal(each[0], each[1])
    assert all(not torch.equal(noise[i], noise[j]) for i in range(4) for j in range(i))
    assert set(one.state_dict()) == {"cos_mix", "sin_mix"} and not list(one.parameters())
    few = fope(20, 0.9)  # two of four pairs: nothing is mixed into or out of the rest
    for mix in (few.cos_mix, few.sin_mix):
        assert torch.equal(mix[:, 2:], torch.eye(PAIRS)[2:].double().expand(HEADS, -1, -1))
        assert torch.equal(mix[:, :, 2:], torch.eye(PAIRS)[:, 2:].double().expand(HEADS, -1, -1))


def test_fope_is_not_relative() -> None:
    encoding = fope(63)
    assert not encoding.relative
    assert not torch.allclose(
        scores(encoding, call()), scores(encoding, call([p + 5 for p in range(N)])), atol=1e-3
    )


# -- all of them -----------------------------------------------------------------------------------

MADE: dict[str, Callable[[], PositionEncoding]] = {
    "partial_rope": lambda: PartialRoPE(WIDTH, 0.75, BASE),
    "p_rope": lambda: PRoPE(WIDTH, 0.75, BASE),
    "xpos": lambda: XPos(WIDTH, 60.0, base=BASE),
    "pope": lambda: given(PoPE(HEADS, WIDTH, BASE), delta=deltas()),
    "lerope": lambda: given(LeRoPE(WIDTH, BASE), alpha=ALPHA),
    "fope": lambda: fope(63),
    "selective_rope": lambda: selective(),
    "vo_rope": lambda: VORoPE(WIDTH, BASE),
}
each_method = pytest.mark.parametrize(
    "name",
    [
        pytest.param(
            name,
            marks=pytest.mark.oracle(name, "identity: interpolated is at interpolated positions"),
        )
        for name in MADE
    ],
)


@each_method
def test_interpolation_is_interpolation_of_positions(name: str) -> None:
    """PI by 4 gives what positions divided by 4 give."""
    encoding, a = MADE[name](), call(POSITIONS["with gaps"])
    extended, quartered = PI(4.0).apply(encoding, 42, 42), a.at(a.q_pos / 4, a.k_pos / 4)
    close(scores(extended, a), scores(encoding, quartered))
    same(attend(extended.encode(a)), attend(encoding.encode(quartered)), 1e-9)


@pytest.mark.parametrize("name", MADE)
def test_ntk_keeps_the_fastest_and_stretches_the_slowest_of_the_methods_own_grid(name: str) -> None:
    encoding = MADE[name]()
    ratio = encoding.frequencies.theta() / NTK(8.0).apply(encoding, 42, 42).frequencies.theta()
    assert ratio[0] == 1 and ratio[-1].item() == pytest.approx(8, rel=1e-12)
    assert len(ratio) == {"partial_rope": 3, "p_rope": 3, "fope": 3, "pope": WIDTH}.get(name, PAIRS)


@pytest.mark.parametrize("name", MADE)
def test_yarn_is_a_stretch_and_a_factor(name: str) -> None:
    encoding, a = MADE[name](), call(POSITIONS["with gaps"])
    yarn = YaRN(2.0, 0.2, 4.0)
    by_hand = stretched(
        encoding, yarn.stretch(encoding.frequencies, 42, 4.0), 0.1 * math.log(4) + 1
    )
    close(scores(yarn.apply(encoding, 42, 42), a), scores(by_hand, a))
    assert not torch.allclose(scores(by_hand, a), scores(encoding, a))


@pytest.mark.parametrize("name", MADE)
def test_no_score_matrix_is_built(name: str) -> None:
    plan = MADE[name]().encode(call())
    assert isinstance(plan, Attention) and plan.path == "fused" and not plan.terms


@pytest.mark.parametrize("name", [name for name in MADE if name != "fope"])
def test_a_shift_of_all_positions_changes_nothing(name: str) -> None:
    encoding = MADE[name]()
    for n in (call(), call(POSITIONS["with gaps"])):
        same(scores(encoding, n.at(n.q_pos + 1001, n.k_pos + 1001)), scores(encoding, n), 1e-8)
