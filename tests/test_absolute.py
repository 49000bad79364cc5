"""Absolute encodings besides learned rows and the paper's sinusoids compute their published
formulas.
"""

from __future__ import annotations

import math

import pytest
import torch
from loops import BATCH, HEADS, WIDTH, N, by_pairs, call, everywhere, given, product, same, scores
from torch import Tensor
from vectors import plus

from posbench.core.encoding import PositionEncoding
from posbench.encodings.learned import Learned
from posbench.encodings.multiplicative import Multiplicative
from posbench.encodings.nope import NoPE
from posbench.encodings.scaled_sinusoidal import ScaledSinusoidal
from posbench.encodings.sinusoidal import Sinusoidal
from posbench.extensions.ntk import NTK
from posbench.extensions.pi import PI
from posbench.extensions.yarn import YaRN

D = HEADS * WIDTH
FLOAT32 = 1e-5  # of libraries that keep their tables in float32
DOUBLE_LOOP = "double loop"


# -- absolute --------------------------------------------------------------------------------------


@pytest.mark.oracle("multiplicative", DOUBLE_LOOP)
def test_multiplicative_multiplies_each_channel_by_one_plus_the_entry_of_its_row() -> None:
    a = call([0, 3, 4, 9, 1, 1, 29])
    encoding = Multiplicative(D, 32).double()
    x, table, p = a.x.tolist(), encoding.table.tolist(), a.q_pos.tolist()
    expected = [
        [[x[b][i][c] * (1 + table[p[b][i]][c]) for c in range(D)] for i in range(N)]
        for b in range(BATCH)
    ]
    same(encoding.embed(a.x, a.q_pos), torch.tensor(expected, dtype=torch.float64), 1e-14)
    same(scores(encoding, a), by_pairs(a, product(a)))


@pytest.mark.oracle("multiplicative", "identity: zero rows are NoPE")
def test_multiplicative_with_zero_rows_leaves_tokens_as_they_are() -> None:
    a = call()
    assert torch.equal(
        given(Multiplicative(D, 9), table=torch.zeros(9, D)).embed(a.x, a.q_pos), a.x
    )


@pytest.mark.oracle("multiplicative", "identity: on tokens of ones it is learned rows")
def test_multiplicative_on_ones_is_learned_rows() -> None:
    ones, pos = torch.ones(1, 9, D, dtype=torch.float64), torch.arange(9)[None]
    encoding = Multiplicative(D, 9, init_std=0.3).double()
    same(encoding.embed(ones, pos), given(Learned(D, 9), table=encoding.table).embed(ones, pos))
    with pytest.raises(IndexError):
        encoding.embed(ones[:, :1], torch.tensor([[9]]))


def sinusoid(width: int, position: float, base: float, layout: str, spacing: str) -> list[float]:
    """Channel by channel; the last frequency of tensor2tensor is exactly 1 / base."""
    pairs = width // 2
    row = [0.0] * width
    for m in range(pairs):
        angle = position / base ** (m / pairs if spacing == "paper" else m / (pairs - 1))
        sine, cosine = (2 * m, 2 * m + 1) if layout == "interleaved" else (m, m + pairs)
        row[sine], row[cosine] = math.sin(angle), math.cos(angle)
    return row


VARIANTS = [
    (layout, spacing)
    for layout in ("interleaved", "half")
    for spacing in ("paper", "tensor2tensor")
]
every_variant = pytest.mark.parametrize(("layout", "spacing"), VARIANTS)


@pytest.mark.oracle("sinusoidal", DOUBLE_LOOP)
@pytest.mark.oracle("scaled_sinusoidal", DOUBLE_LOOP)
@every_variant
@pytest.mark.parametrize(("base", "scale"), [(10000.0, 1.0), (50.0, 0.3)])
@everywhere
def test_sinusoidal_variants_add_their_rows(
    positions: list[float], base: float, scale: float, layout: str, spacing: str
) -> None:
    a = call(positions)
    x, p = a.x.tolist(), a.q_pos.tolist()
    expected = [
        [
            plus(x[b][i], [scale * s for s in sinusoid(D, p[b][i], base, layout, spacing)])
            for i in range(N)
        ]
        for b in range(BATCH)
    ]
    learned = given(ScaledSinusoidal(D, base, 5.0, layout, spacing), scale=scale)
    for encoding in (Sinusoidal(D, base, scale, layout, spacing), learned):
        same(encoding.embed(a.x, a.q_pos), torch.tensor(expected, dtype=torch.float64))
        same(scores(encoding, a), scores(NoPE(), a))


def table(encoding: PositionEncoding, n: int, width: int) -> Tensor:
    return encoding.embed(torch.zeros(1, n, width, dtype=torch.float64), torch.arange(n)[None])[
        0
    ].detach()


@pytest.mark.oracle("sinusoidal", "library: transformers M2M-100")
@pytest.mark.parametrize("width", [4, 24, 64, 512])
def test_tensor2tensor_sinusoids_in_halves_are_m2m100s(width: int) -> None:
    modeling = pytest.importorskip("transformers.models.m2m_100.modeling_m2m_100")
    rows = modeling.M2M100SinusoidalPositionalEmbedding.get_embedding(60, width).double()
    same(
        table(Sinusoidal(width, layout="half", spacing="tensor2tensor"), 60, width),
        rows,
        2 * FLOAT32,
    )


@pytest.mark.oracle("sinusoidal", "library: transformers Marian")
@pytest.mark.parametrize("width", [4, 24, 64, 512])
def test_paper_sinusoids_in_halves_are_marians(width: int) -> None:
    modeling = pytest.importorskip("transformers.models.marian.modeling_marian")
    rows = modeling.MarianSinusoidalPositionalEmbedding(60, width).create_weight().double()
    same(table(Sinusoidal(width, layout="half"), 60, width), rows, FLOAT32)


@pytest.mark.oracle("scaled_sinusoidal", "library: x-transformers ScaledSinusoidalEmbedding")
@pytest.mark.parametrize("width", [4, 24, 64])
def test_scaled_sinusoidal_is_x_transformers(width: int) -> None:
    library = pytest.importorskip("x_transformers.x_transformers")
    rows = library.ScaledSinusoidalEmbedding(width)(torch.zeros(1, 60, width)).reshape(60, width)
    same(
        table(ScaledSinusoidal(width, init_scale=width**-0.5, layout="half").double(), 60, width),
        rows.double(),
        FLOAT32,
    )


@pytest.mark.oracle("scaled_sinusoidal", "identity: at its start it is sinusoidal")
def test_scaled_sinusoidal_starts_as_sinusoidal_and_learns_one_number() -> None:
    encoding = ScaledSinusoidal(D, init_scale=0.4)
    assert [(name, p.shape, p.item()) for name, p in encoding.named_parameters()] == [
        ("scale", (), pytest.approx(0.4))
    ]
    same(table(encoding.double(), 30, D), table(Sinusoidal(D, scale=encoding.scale.item()), 30, D))
    out = encoding.embed(torch.zeros(1, 5, D, dtype=torch.float64), torch.arange(5)[None])
    out.sum().backward()
    expected = sum(sum(sinusoid(D, p, 10000.0, "interleaved", "paper")) for p in range(5))
    assert encoding.scale.grad.item() == pytest.approx(expected, abs=1e-9)


@pytest.mark.oracle("learned", "library: x-transformers AbsolutePositionalEmbedding")
def test_learned_rows_are_x_transformers_but_for_their_scale() -> None:
    """Theirs multiplies rows by 1 / sqrt(width) when they are looked up."""
    library = pytest.importorskip("x_transformers.x_transformers")
    module = library.AbsolutePositionalEmbedding(D, 30).double()
    encoding = given(Learned(D, 30), table=module.emb.weight * D**-0.5)
    a = call(range(12))
    same(encoding.embed(a.x, a.q_pos[:1]), a.x + module(a.x))


@every_variant
@pytest.mark.parametrize("s", [1.0, 4.0])
def test_frequency_extensions_act_on_either_spacing(s: float, layout: str, spacing: str) -> None:
    """PI divides positions. NTK divides the slowest by s and leaves the fastest; on tensor2tensor's
    grid that is the base b s.
    """
    encoding, n = Sinusoidal(D, layout=layout, spacing=spacing), 20
    stretched = (
        PI(s).apply(encoding, 42, 42).embed(torch.zeros(1, n, D).double(), torch.arange(n)[None])
    )
    divided = encoding.embed(torch.zeros(1, n, D).double(), torch.arange(n)[None] / s)
    same(stretched, divided)
    pairs = D // 2
    theta = NTK(s).apply(encoding, 42, 42).frequencies.theta().tolist()
    last = pairs - 1 if spacing == "tensor2tensor" else pairs
    assert theta == pytest.approx(
        [10000.0 ** (-m / last) * s ** (-m / (pairs - 1)) for m in range(pairs)], rel=1e-12
    )
    if spacing == "tensor2tensor":
        assert theta == pytest.approx(
            [(10000.0 * s) ** (-m / (pairs - 1)) for m in range(pairs)], rel=1e-12
        )


def test_yarn_counts_turns_on_the_spacing_in_use() -> None:
    """Pairs that turn more than twice in training are kept, those that turn less than half a time
    interpolated.
    """
    train, s, width = 500, 4.0, 128
    encoding = Sinusoidal(width, spacing="tensor2tensor")
    before = encoding.frequencies.theta().tolist()
    after = YaRN(2.0, 0.5, s).apply(encoding, train, train).frequencies.theta().tolist()
    kept = [m for m, t in enumerate(before) if train * t / (2 * math.pi) > 2]
    slow = [m for m, t in enumerate(before) if train * t / (2 * math.pi) < 0.5]
    stretch = [b / a for b, a in zip(before, after, strict=True)]
    assert [m for m, x in enumerate(stretch) if abs(x - 1) < 1e-9] == kept
    assert [m for m, x in enumerate(stretch) if abs(x - s) < 1e-9] == slow
    assert 0 < len(kept) < len(before) - len(slow) < len(before)
