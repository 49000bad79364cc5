"""RoPE whose frequencies or whose positions are learned in every head: AdaRoPE and RePo."""

from __future__ import annotations

import cmath
import math
from dataclasses import replace

import pytest
import torch
from authors import MODEL, published, tensor
from loops import HEADS, POSITIONS, WIDTH, call, everywhere, given, same, scores, shaken
from rotations import BASE, PAIRS, apart, by_complex_pairs, grid, stretched, wave
from torch import Tensor, nn
from vectors import applied, dot, sigmoid

from posbench.base.errors import ConfigError
from posbench.config.compose import compose
from posbench.core.attention import Attention, attend, dense
from posbench.encodings.adarope import AdaRoPE
from posbench.encodings.lerope import LeRoPE
from posbench.encodings.nope import NoPE
from posbench.encodings.repo import RePo
from posbench.encodings.rope import RoPE

oracle = pytest.mark.oracle


# -- AdaRoPE ---------------------------------------------------------------------------------------


@oracle("adarope", "double loop")
@everywhere
def test_adarope_turns_each_head_at_its_own_frequencies(positions: list[float]) -> None:
    a, encoding = call(positions), shaken(AdaRoPE(HEADS, WIDTH, BASE), 0.4)
    theta, alpha = grid(PAIRS, BASE), encoding.alpha.tolist()

    def factor(h: int, m: int, i: float, j: float) -> complex:
        return cmath.exp(1j * (i - j) * theta[m] * math.exp(alpha[h][m]))

    same(scores(encoding, a), by_complex_pairs(a, factor), 1e-8)
    same(scores(encoding, apart(a)), by_complex_pairs(apart(a), factor), 1e-8)


@oracle("adarope", "double loop: stretched")
def test_adarope_divides_what_it_has_learned_by_the_stretch_of_an_extension() -> None:
    a, learned = call(POSITIONS["with gaps"]), shaken(AdaRoPE(HEADS, WIDTH, BASE), 0.4)
    stretch, alpha = [1.0, 2.0, 5.0, math.inf], learned.alpha.tolist()
    theta = grid(PAIRS, BASE)

    def factor(h: int, m: int, i: float, j: float) -> complex:
        return 1.44 * cmath.exp(1j * (i - j) * theta[m] / stretch[m] * math.exp(alpha[h][m]))

    same(scores(stretched(learned, stretch, 1.2), a), by_complex_pairs(a, factor), 1e-8)


@oracle("adarope", "identity: alpha 0 is RoPE, equal heads are LeRoPE")
@everywhere
def test_adarope_starts_as_rope_and_with_equal_heads_is_lerope(positions: list[float]) -> None:
    a, alpha = call(positions), wave(PAIRS, start=2.0)
    same(scores(AdaRoPE(HEADS, WIDTH, BASE), a), scores(RoPE(WIDTH, BASE), a))
    one = given(AdaRoPE(HEADS, WIDTH, BASE), alpha=alpha.expand(HEADS, -1))
    same(scores(one, a), scores(given(LeRoPE(WIDTH, BASE), alpha=alpha), a))


@oracle("adarope", "library: transformers Llama")
def test_adarope_is_the_rotation_of_llama_head_by_head() -> None:
    """Their functions take cosines and sines, which may differ from head to head."""
    module = pytest.importorskip("transformers.models.llama.modeling_llama")
    a, encoding = call(POSITIONS["with gaps"]), shaken(AdaRoPE(HEADS, WIDTH, BASE), 0.4)
    theta = torch.tensor(grid(PAIRS, BASE), dtype=torch.float64) * encoding.alpha.detach().exp()
    angles = (a.q_pos[:, None, :, None] * theta[:, None]).repeat(1, 1, 1, 2)
    q, k = module.apply_rotary_pos_emb(a.q, a.k, angles.cos(), angles.sin(), unsqueeze_dim=0)
    same(scores(encoding, a), a.scale * (q @ k.mT).reshape(scores(encoding, a).shape), 1e-9)


def test_every_frequency_of_adarope_is_trained() -> None:
    a, encoding = call(), AdaRoPE(HEADS, WIDTH, BASE).double()
    (attend(encoding.encode(a)) * wave(*a.v.shape, start=1)).sum().backward()
    assert (encoding.alpha.grad != 0).all()


def test_rotations_by_head_run_fused() -> None:
    for encoding in (AdaRoPE(HEADS, WIDTH), RePo(HEADS, WIDTH, MODEL)):
        plan = shaken(encoding, 0.4).encode(call(POSITIONS["with gaps"]))
        assert plan.path == "fused"
        same(attend(plan), dense(plan))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: AdaRoPE(0, 8), "there must be one, got 0"),
        (lambda: AdaRoPE(2, 7), "head_width must be even, got 7"),
        (lambda: RePo(0, 8, 16), "there must be one, got 0"),
        (lambda: RePo(2, 7, 16), "head_width must be even, got 7"),
        (lambda: RePo(2, 8, 16, 17), "from 1 to 16, got 17"),
    ],
)
def test_rotations_by_head_refuse_sizes_that_do_not_fit(make, message: str) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(ConfigError, match=message):
        make()


# -- RePo ------------------------------------------------------------------------------------------


def positions_of(encoding: RePo, x: Tensor) -> list[list[list[float]]]:
    """The formula, [batch][token][head]."""
    gate, content, position = (
        layer.weight.tolist() for layer in (encoding.gate, encoding.content, encoding.position)
    )

    def of(token: list[float]) -> list[float]:
        opened = [u * sigmoid(u) for u in applied(gate, token)]
        hidden = [u * v for u, v in zip(opened, applied(content, token), strict=True)]
        return [dot(row, hidden) for row in position]

    return [[of(token) for token in tokens] for tokens in x.tolist()]


def placed(a: Attention, read: list[list[list[float]]], head: int) -> Attention:
    """The call of one head at the positions that it reads."""
    pos = torch.tensor([[at[head] for at in tokens] for tokens in read], dtype=torch.float64)
    return a.heads(slice(head, head + 1)).at(pos, pos)


@oracle("repo", "double loop")
@everywhere
def test_repo_turns_by_positions_read_from_the_content(positions: list[float]) -> None:
    """Positions of the sequence do not matter."""
    a, encoding = call(positions), shaken(RePo(HEADS, WIDTH, MODEL, 4, BASE), 0.3)
    read, theta = positions_of(encoding, a.x), grid(PAIRS, BASE)

    def factor(h: int, m: int, i: float, j: float) -> complex:
        return cmath.exp(1j * (i - j) * theta[m])

    expected = [by_complex_pairs(placed(a, read, h), factor) for h in range(HEADS)]
    same(scores(encoding, a), torch.cat(expected, 1), 1e-9)


@oracle("repo", "published numbers")
def test_repo_reads_the_positions_that_the_authors_code_does() -> None:
    data = published("repo")
    width, hidden, heads, start = (
        data[name] for name in ("model_width", "hidden", "heads", "starts")
    )
    encoding = RePo(heads, 4, width, width // hidden).double()
    encoding.gate, encoding.content = (nn.Linear(width, hidden, bias=False) for _ in range(2))
    encoding.position = nn.Linear(hidden, heads, bias=False)
    for name, shape in {
        "gate": (hidden, width),
        "content": (hidden, width),
        "position": (heads, hidden),
    }.items():
        layer = getattr(encoding, name)
        layer.weight = nn.Parameter(wave(*shape, start=start[name]))
    x = 2 * wave(1, data["n"], width, start=start["x"])
    same(encoding.read(x), tensor(data["positions"])[None], 1e-9)


@oracle("repo", "identity: at the positions read it is RoPE")
def test_repo_is_rope_at_the_positions_that_it_reads() -> None:
    a, encoding = call(POSITIONS["running back"]), shaken(RePo(HEADS, WIDTH, MODEL, 4, BASE), 0.3)
    read = encoding.read(a.x)
    for h in range(HEADS):
        there = a.heads(slice(h, h + 1)).at(read[:, h], read[:, h])
        same(scores(encoding, a)[:, h : h + 1], scores(RoPE(WIDTH, BASE), there), 1e-9)


@oracle("repo", "identity: positions of 0 are NoPE")
def test_repo_with_positions_of_zero_is_nope() -> None:
    a = call(POSITIONS["with gaps"])
    encoding = RePo(HEADS, WIDTH, MODEL, 4, BASE).double()
    with torch.no_grad():
        encoding.position.weight.zero_()
    same(scores(encoding, a), scores(NoPE(), a))


def test_the_positions_of_repo_are_not_rounded_under_mixed_precision() -> None:
    encoding, x = RePo(HEADS, WIDTH, MODEL), call(range(300)).x.float()
    exact = encoding.read(x)
    with torch.autocast("cpu", torch.bfloat16):
        assert torch.equal(encoding.read(x), exact)
    assert encoding.read(x.bfloat16()).dtype == torch.float32


def test_tokens_with_like_content_are_near_wherever_they_stand() -> None:
    a, encoding = call(), shaken(RePo(HEADS, WIDTH, MODEL, 4, BASE), 0.3)
    x = a.x.clone()
    x[:, 6] = x[:, 0]
    read = encoding.read(replace(a, x=x).x)
    same(read[..., 6], read[..., 0], 0.0)
    assert (read[..., 6] - read[..., 5]).abs().min() > 1e-3


def test_the_lowest_third_of_the_layers_keeps_rope() -> None:
    for depth, expected in ((2, [RoPE, RePo]), (3, [RoPE, RePo, RePo])):
        layers = compose("encoding=repo").cfg().encoding.layers
        kinds = [layers[index % len(layers)]._target_.rsplit(".")[-1] for index in range(depth)]
        assert kinds == [each.__name__ for each in expected]
