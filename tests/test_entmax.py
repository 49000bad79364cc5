"""Weights that can be zero: 1.5-entmax, its temperature from query and length, and top-k."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

import pytest
import torch
from authors import MODEL
from loops import (
    HEADS,
    POSITIONS,
    SCALE,
    WIDTH,
    N,
    by_pairs,
    call,
    every_way,
    everywhere,
    product,
    same,
    scores,
    shaken,
)
from torch import Tensor
from vectors import linear

from posbench.base.errors import ConfigError
from posbench.core.attention import Attention, Heads, attend
from posbench.core.encoding import PositionEncoding
from posbench.core.selection import best
from posbench.encodings.alibi import ALiBi, alibi_slopes
from posbench.encodings.asentmax import ASEntmax
from posbench.encodings.entmax import Entmax, entmax
from posbench.encodings.nape import NAPE
from posbench.encodings.nope import NoPE
from posbench.encodings.rope import RoPE
from posbench.encodings.sliding_window import SlidingWindow
from posbench.encodings.softmax_off_by_one import OffByOne
from posbench.encodings.stick_breaking import StickBreaking
from posbench.encodings.top_k import TopK
from posbench.extensions.rerope import ReRoPE
from posbench.extensions.sliding_window import SlidingWindow as Window
from posbench.extensions.top_k import TopK as Selection

oracle = pytest.mark.oracle


def threshold(z: list[float]) -> float:
    """The tau with sum of (z / 2 - tau)^2 = 1 over the keys above it, by halving an interval."""
    low, high = max(z) / 2 - 1, max(z) / 2
    for _ in range(200):
        middle = (low + high) / 2
        if sum(max(x / 2 - middle, 0) ** 2 for x in z) > 1:
            low = middle
        else:
            high = middle
    return low


def weighted(
    a: Attention, z: Tensor, seen: Callable[[int, int], bool] = lambda i, j: True
) -> Tensor:
    """Outputs from scores [batch, heads, n, n], key by key."""
    out = torch.zeros_like(a.v)
    for b in range(a.v.shape[0]):
        for h in range(a.num_heads):
            for i in range(a.num_queries):
                keys = [j for j in range(i + 1) if seen(i, j)]
                row = [z[b, h, i, j].item() for j in keys]
                tau = threshold(row)
                for j, x in zip(keys, row, strict=True):
                    out[b, h, i] += max(x / 2 - tau, 0) ** 2 * a.v[b, h, j]
    return out


# -- entmax ----------------------------------------------------------------------------------------


@oracle("entmax", "double loop")
@everywhere
def test_entmax_gives_weights_above_a_threshold(positions: list[float]) -> None:
    a, host = replace(call(positions), scale=2.0), RoPE(WIDTH)
    z = scores(host, a)
    same(scores(Entmax(host), a), z)
    every_way(Entmax(host), a, weighted(a, z))


@oracle("entmax", "double loop: inside a window, and biased heads")
def test_entmax_counts_the_bias_and_no_hidden_keys() -> None:
    a = call(heads=4)
    assert isinstance(Entmax(NAPE(4)).encode(a), Heads)
    every_way(Entmax(NAPE(4)), a, weighted(a, scores(NAPE(4), a)))
    windowed = Entmax(SlidingWindow(NoPE(), 2))
    every_way(windowed, a, weighted(a, scores(NoPE(), a), lambda i, j: i - j < 2))


@oracle("entmax", "library: entmax entmax15")
@pytest.mark.parametrize("size", [0.1, 1.0, 5.0, 1e3])
def test_entmax_is_that_of_the_authors_with_its_gradients(size: float) -> None:
    library = pytest.importorskip("entmax")
    generator = torch.Generator().manual_seed(1)
    z = (size * torch.randn(3, 40, 40, generator=generator, dtype=torch.float64)).requires_grad_()
    allowed = torch.ones(40, 40).tril().bool().expand(3, -1, -1)
    goal = torch.randn(3, 40, 40, generator=generator, dtype=torch.float64)
    theirs = library.entmax15(z.masked_fill(~allowed, -1e9), dim=-1)
    ours = entmax(z, allowed)
    same(ours, theirs, 1e-6 if size > 100 else 1e-9)  # theirs loses digits to large squares
    (expected,) = torch.autograd.grad((theirs * goal).sum(), z)
    (found,) = torch.autograd.grad((ours * goal).sum(), z)
    same(found, expected, 1e-5)


@oracle("entmax", "identity: of two keys, of equal keys")
def test_entmax_of_two_and_of_equal_keys() -> None:
    """For two keys d apart the weights are (1 +- (d / 4) root(8 - d^2)) / 2 below d = 2."""
    for d in (0.0, 0.3, 1.9, 2.0, 50.0):
        first = (1 + d / 4 * math.sqrt(8 - d**2)) / 2 if d < 2 else 1.0
        row = torch.tensor([[[[d, 0.0]]]], dtype=torch.float64)
        found = entmax(row, torch.ones_like(row).bool())
        same(found, torch.tensor([[[[first, 1 - first]]]], dtype=torch.float64))
    equal = torch.zeros(1, 1, 1, 5000)
    same(entmax(equal, torch.ones_like(equal).bool()), equal + 1 / 5000, 1e-8)


@pytest.mark.parametrize("n", [1, 40, 4096])
@pytest.mark.parametrize("size", [1e-3, 1.0, 30.0, 1e4])
def test_entmax_weights_sum_to_one_and_have_finite_gradients(n: int, size: float) -> None:
    z = size * torch.randn(8, n, generator=torch.Generator().manual_seed(2))
    z.requires_grad_()
    weights = entmax(z, torch.ones(8, n).bool())
    same(weights.sum(-1), torch.ones(8), 2e-5)
    assert (weights >= 0).all() and (size < 30 or n == 1 or (weights == 0).any())
    (weights * torch.arange(n)).sum().backward()
    assert torch.isfinite(z.grad).all()


def test_entmax_of_bfloat16_scores_is_in_float32() -> None:
    z = torch.randn(4, 40, generator=torch.Generator().manual_seed(2)).bfloat16()
    weights = entmax(z, torch.ones(4, 40).bool())
    assert weights.dtype == torch.float32
    same(weights.double(), entmax(z.double(), torch.ones(4, 40).bool()), 1e-5)


@pytest.mark.slow
def test_entmax_has_the_gradient_of_its_threshold() -> None:
    z = call().q @ call().k.mT
    allowed = torch.ones(N, N).tril().bool()[None, None]
    assert torch.autograd.gradcheck(lambda z: entmax(z, allowed), z.requires_grad_(), atol=1e-6)


def test_entmax_refuses_a_host_with_weights_of_its_own() -> None:
    with pytest.raises(ConfigError, match=r"normalises its weights in its own way: choose a host"):
        Entmax(OffByOne(NoPE())).encode(call())


# -- adaptive-scalable entmax ----------------------------------------------------------------------


def adaptive(host: PositionEncoding, heads: int, **settings: float) -> ASEntmax:
    return shaken(ASEntmax(host, heads, heads * WIDTH, **settings))


def temperatures(encoding: ASEntmax, x: Tensor) -> list[list[list[float]]]:
    """The formula, [batch][token][head]."""
    pairs = zip(linear(encoding.beta, x), linear(encoding.gamma, x), strict=True)
    return [
        [
            [
                encoding.delta
                + math.log(1 + math.exp(u)) * math.log(i + 2) ** (encoding.reach * math.tanh(v))
                for u, v in zip(beta, gamma, strict=True)
            ]
            for i, (beta, gamma) in enumerate(zip(*tokens, strict=True))
        ]
        for tokens in pairs
    ]


@oracle("asentmax", "double loop")
@pytest.mark.parametrize(("delta", "reach"), [(1.0, 2.0), (0.3, 0.7)])
@everywhere
def test_asentmax_scales_by_a_power_of_the_log_that_the_query_chooses(
    positions: list[float], delta: float, reach: float
) -> None:
    a, encoding = call(positions), adaptive(NoPE(), HEADS, delta=delta, reach=reach)
    tau, content = temperatures(encoding, a.x), product(a)
    z = by_pairs(a, lambda b, h, i, j: tau[b][i][h] * content(b, h, i, j))
    same(scores(encoding, a), z, 1e-9)
    every_way(encoding, a, weighted(a, z))


@oracle("asentmax", "double loop: heads with a bias keep their scale")
def test_asentmax_leaves_heads_with_a_bias_as_they_are() -> None:
    a, encoding = call(heads=5), adaptive(NAPE(5), 5)
    tau, content, p = temperatures(encoding, a.x), product(a), a.q_pos.tolist()

    def score(b: int, h: int, i: int, j: int) -> float:
        if h < 2:
            return content(b, h, i, j) - (p[b][i] - p[b][j]) / (h + 1)
        return tau[b][i][h] * content(b, h, i, j)

    z = by_pairs(a, score)
    same(scores(encoding, a), z, 1e-9)
    every_way(encoding, a, weighted(a, z))


@oracle("asentmax", "library: entmax entmax15")
def test_asentmax_is_the_library_on_scaled_queries() -> None:
    """As the authors' code has it: queries times delta + beta log(2..)^gamma, then entmax."""
    library = pytest.importorskip("entmax")
    a, encoding = call(), adaptive(NoPE(), HEADS)
    tau = torch.tensor(temperatures(encoding, a.x), dtype=torch.float64).mT[..., None]
    z = SCALE * (tau * a.q) @ a.k.mT
    hidden = torch.ones(N, N).triu(1).bool()
    theirs = library.entmax15(z.masked_fill(hidden, -1e9), dim=-1) @ a.v
    same(attend(encoding.encode(a)), theirs, 1e-8)


@oracle("asentmax", "identity: without a length it is entmax of scaled scores")
def test_asentmax_with_weights_of_zero_is_entmax_at_one_temperature() -> None:
    a, encoding = call(POSITIONS["with gaps"]), ASEntmax(NoPE(), HEADS, MODEL).double()
    with torch.no_grad():
        encoding.beta.weight.zero_()
        encoding.gamma.weight.zero_()
    scaled = replace(a, scale=a.scale * (1 + math.log(2)))
    same(attend(encoding.encode(a)), attend(Entmax(NoPE()).encode(scaled)), 1e-6)


def test_asentmax_refuses_a_host_whose_heads_all_have_a_bias() -> None:
    assert len(alibi_slopes(HEADS)) == HEADS
    with pytest.raises(ConfigError, match=r"heads with a bias keep their scale.*choose a host"):
        adaptive(ALiBi(HEADS), HEADS).encode(call())
    with pytest.raises(ConfigError, match=r"there must be one, got 0"):
        ASEntmax(NoPE(), 0, MODEL)


def test_asentmax_temperatures_are_not_rounded_under_mixed_precision() -> None:
    encoding, x = ASEntmax(NoPE(), HEADS, MODEL), call(range(300)).x.float()
    exact = encoding.temperature(x)
    with torch.autocast("cpu", torch.bfloat16):
        assert torch.equal(encoding.temperature(x), exact)


# -- top-k -----------------------------------------------------------------------------------------


def chosen(row: list[float], keys: int) -> set[int]:
    """A query's own key, which is the last, and those that score best before it."""
    before = sorted(range(len(row) - 1), key=lambda j: -row[j])
    return {len(row) - 1, *before[: keys - 1]}


def of_the_best(a: Attention, z: Tensor, keys: int, first: int = 0) -> Tensor:
    """A softmax over the chosen of the keys that a query sees from i - `first` on (0: all)."""
    out = torch.zeros_like(a.v)
    for b in range(a.v.shape[0]):
        for h in range(a.num_heads):
            for i in range(a.num_queries):
                start = max(0, i - first) if first else 0
                row = [z[b, h, i, j].item() for j in range(start, i + 1)]
                powers = {start + c: math.exp(row[c]) for c in chosen(row, keys)}
                for j, power in powers.items():
                    out[b, h, i] += power / sum(powers.values()) * a.v[b, h, j]
    return out


@oracle("top_k", "double loop")
@everywhere
@pytest.mark.parametrize("keys", [1, 2, 3, N, 100])
def test_top_k_is_a_softmax_over_the_best_keys(keys: int, positions: list[float]) -> None:
    a, host = replace(call(positions), scale=2.0), RoPE(WIDTH)
    z = scores(host, a)
    same(scores(TopK(host, keys), a), z)
    every_way(TopK(host, keys), a, of_the_best(a, z, keys))


@oracle("top_k", "double loop: inside a window, and biased heads")
def test_top_k_counts_the_bias_and_no_hidden_keys() -> None:
    a = replace(call(heads=4), scale=2.0)
    z = scores(NAPE(4), a)
    every_way(TopK(NAPE(4), 2), a, of_the_best(a, z, 2))
    every_way(TopK(SlidingWindow(NoPE(), 4), 2), a, of_the_best(a, scores(NoPE(), a), 2, first=3))


@oracle("top_k", "identity: among k keys it is the softmax")
@pytest.mark.parametrize("n", [1, 4, 20])
def test_top_k_keeps_as_many_keys_as_it_says(n: int) -> None:
    a = call(range(n))
    same(attend(TopK(NoPE(), n).encode(a)), attend(NoPE().encode(a)))
    plan = TopK(RoPE(WIDTH), 4).encode(a)
    weights = plan.weights(plan.logits(slice(0, n)), slice(0, n))
    counts = (weights > 0).sum(-1)
    assert torch.equal(counts, torch.arange(1, n + 1).clamp(max=4).expand(counts.shape))


def test_top_k_keeps_what_ties_with_the_last() -> None:
    z = torch.tensor([[3.0, 1.0, 1.0, 0.0, -5.0]])
    allowed = torch.tensor([[True, True, True, True, True]])
    assert best(z, allowed, 3).tolist() == [[True, True, True, False, True]]
    hidden = torch.tensor([[False, True, False, True, False]])
    assert best(z, hidden, 1).tolist() == [[False, False, False, True, False]]


def test_top_k_gives_no_gradient_to_what_is_left_out() -> None:
    a = replace(call(), q=call().q.requires_grad_(), k=call().k.requires_grad_())
    plan = TopK(NoPE(), 2).encode(a)
    attend(plan)[..., -1, :].square().sum().backward()
    seen = plan.weights(plan.logits(slice(0, N)), slice(0, N))[..., -1, :] > 0
    assert torch.equal(a.k.grad.abs().sum(-1) > 0, seen) and a.q.grad.isfinite().all()


@oracle("top_k", "identity: other normalisers on the keys that are left")
@pytest.mark.parametrize("make", [StickBreaking, lambda: OffByOne(NoPE()), lambda: Entmax(NoPE())])
def test_top_k_leaves_the_normaliser_of_the_host(make: Callable[[], PositionEncoding]) -> None:
    a = call()
    z = scores(NoPE(), a)
    kept = torch.tensor(
        [
            [[[j in chosen(row[: i + 1], 3) for j in range(N)] for i, row in enumerate(rows)]
             for rows in heads]
            for heads in z.tolist()
        ]
    )  # fmt: skip
    masked = make().encode(a.where(lambda rows: kept[:, :, rows]))
    every_way(TopK(make(), 3), a, attend(masked))


@oracle("top_k", "double loop: the extension, from 4 positions")
@everywhere
def test_the_extension_attends_to_as_many_keys_as_training_had(positions: list[float]) -> None:
    a, host = replace(call(positions), scale=2.0), RoPE(WIDTH)
    z = scores(host, a)
    for keys in (None, 2):
        every_way(Selection(keys).apply(host, 4, N), a, of_the_best(a, z, keys or 4))
    assert Selection().is_identity and not Selection(2).is_identity


@oracle("top_k", "identity: regions are chosen from by their joined scores")
def test_top_k_chooses_among_regions() -> None:
    a = replace(call(), scale=2.0)
    host = ReRoPE(4).apply(RoPE(WIDTH), 4, N)
    expected = of_the_best(a, scores(host, a), 3)
    every_way(TopK(host, 3), a, expected)
    every_way(ReRoPE(4).apply(TopK(RoPE(WIDTH), 3), 4, N), a, expected)


def test_a_window_put_on_a_selection_comes_first() -> None:
    a = replace(call(), scale=2.0)
    windowed = Window(4).apply(TopK(NoPE(), 2), 4, N)
    every_way(windowed, a, of_the_best(a, scores(NoPE(), a), 2, first=3))
