"""Extensions that tell every pair of channels positions of its own, pair by pair in plain Python:
DPE, and dynamic NTK with a cache that is not turned again.
"""

from __future__ import annotations

import cmath
import math
from collections.abc import Callable, Sequence

import numpy as np
import pytest
import torch
from distances import POSITIONS, TESTED, TRAINED, causal
from loops import HEADS, WIDTH, by_pairs, call, same, shaken
from rotations import grid
from torch import Tensor

from posbench.base.errors import ConfigError, IllegalExtension
from posbench.core.attention import Attention, Regions, attend, attend_from, dense
from posbench.core.encoding import EncodingStack, PositionEncoding
from posbench.core.extension import Extension
from posbench.encodings.adarope import AdaRoPE
from posbench.encodings.alibi import ALiBi
from posbench.encodings.lerope import LeRoPE
from posbench.encodings.p_rope import PRoPE
from posbench.encodings.partial_rope import PartialRoPE
from posbench.encodings.rope import RoPE
from posbench.encodings.scale_invariant import ScaleInvariant
from posbench.encodings.sinusoidal import Sinusoidal
from posbench.encodings.ssmax import SSMax
from posbench.encodings.transformer_xl import TransformerXL
from posbench.encodings.xpos import XPos
from posbench.extensions.dpe import DPE
from posbench.extensions.dpe_search import DPESearch
from posbench.extensions.dynamic_ntk import DynamicNTK
from posbench.extensions.dynamic_ntk_stale import StaleDynamicNTK
from posbench.extensions.ntk import NTK
from posbench.extensions.rerope import ReRoPE
from posbench.extensions.self_extend import SelfExtend
from posbench.extensions.yarn import YaRN

oracle = pytest.mark.oracle
BASE, WINDOW = 100.0, 3
RATIOS = (0.4, 2.0, 0.8, 1.2)  # one a pair; at s = 2.5 groups of 1, 5, 2 and 3
SIZES = (1, 5, 2, 3)
positions = pytest.mark.parametrize("positions", POSITIONS.values(), ids=list(POSITIONS))


def turned_by(a: Attention, angle: Callable[[int, float, float, float], float]) -> Tensor:
    """Scores whose pair m turns by angle(m, first position, query's, key's)."""
    q, k, i_pos, j_pos = (each.tolist() for each in (a.q, a.k, a.q_pos, a.k_pos))

    def score(b: int, h: int, i: int, j: int) -> float:
        total = 0.0
        for m in range(WIDTH // 2):
            x, y = (complex(t[m], t[m + WIDTH // 2]) for t in (q[b][h][i], k[b][h][j]))
            phase = angle(m, j_pos[b][0], i_pos[b][i], j_pos[b][j])
            total += (x * y.conjugate() * cmath.exp(1j * phase)).real
        return a.scale * total

    return by_pairs(a, score)


def scores(encoding: PositionEncoding, a: Attention) -> Tensor:
    plan = encoding.encode(a)
    return torch.cat([plan.logits(slice(0, 9)), plan.logits(slice(9, a.num_queries))], -2)


def grouped_angle(m: int, first: float, i: float, j: float) -> float:
    size = SIZES[m]
    if i - j < WINDOW:
        return (i - j) * grid(4, BASE)[m]
    if size == 1:
        told = i - j
    else:
        told = (i - first) // size - (j - first) // size + WINDOW - WINDOW // size
    return told * grid(4, BASE)[m]


def stale_angle(m: int, first: float, i: float, j: float, factor: float = 2.0) -> float:
    def turned(p: float) -> float:
        alpha = factor * max(1.0, (p + 1) / TRAINED) - (factor - 1)
        return p * grid(4, BASE * alpha ** (4 / 3))[m]  # a larger base, as the blog has it

    return turned(i - first) - turned(j - first)


# -- pair by pair ----------------------------------------------------------------------------------


@oracle("dpe", "double loop")
@positions
def test_each_pair_turns_by_groups_of_its_band(positions: Sequence[float]) -> None:
    a = call(positions)
    extended = DPE(WINDOW, RATIOS).apply(RoPE(WIDTH, BASE), TRAINED, TESTED)
    same(scores(extended, a), turned_by(a, grouped_angle), 1e-9)


@oracle("dynamic_ntk_stale", "double loop")
@pytest.mark.parametrize("factor", [1.0, 2.0, 3.5])
@pytest.mark.parametrize("name", ["counted", "shifted", "with gaps", "fractional"])
def test_each_token_turns_at_the_base_of_its_own_length(name: str, factor: float) -> None:
    a = call(POSITIONS[name])
    extended = StaleDynamicNTK(factor).apply(RoPE(WIDTH, BASE), TRAINED, TESTED)
    expected = turned_by(a, lambda m, first, i, j: stale_angle(m, first, i, j, factor))
    same(scores(extended, a), expected, 1e-9)


# -- identities ------------------------------------------------------------------------------------

HOSTS: dict[str, Callable[[], PositionEncoding]] = {
    "rope": lambda: RoPE(WIDTH, BASE),
    "rope after ntk": lambda: NTK(2.0).apply(RoPE(WIDTH, BASE), TRAINED, TRAINED),
    "rope after yarn": lambda: YaRN(1.2, 0.05, 2.0).apply(RoPE(WIDTH, BASE), TRAINED, TRAINED),
    "p_rope": lambda: PRoPE(WIDTH, 0.75, BASE),
    "partial_rope": lambda: PartialRoPE(WIDTH, 0.5, BASE),
    "xpos": lambda: XPos(WIDTH, 30.0, base=BASE),
    "lerope": lambda: LeRoPE(WIDTH, BASE),
    "transformer_xl": lambda: TransformerXL(HEADS, WIDTH, HEADS * WIDTH),
    "ssmax": lambda: SSMax(RoPE(WIDTH, BASE), HEADS, TRAINED),
}
hosts = pytest.mark.parametrize("make", HOSTS.values(), ids=list(HOSTS))


@oracle("dpe", "identity: self_extend where all bands have its groups")
@hosts
def test_dpe_with_one_ratio_is_self_extend(make: Callable[[], PositionEncoding]) -> None:
    for name in ("counted", "with gaps", "running back"):
        a, host = call(POSITIONS[name]), shaken(make(), 0.3)
        ours = DPE(WINDOW, [1.6]).apply(host, TRAINED, TESTED)  # groups of 4 at s = 2.5
        theirs = SelfExtend(WINDOW, 4).apply(host, TRAINED, TESTED)
        same(scores(ours, a), scores(theirs, a), 1e-9)


@oracle("dynamic_ntk_stale", "identity: dynamic_ntk for the last token and itself")
@hosts
def test_the_last_base_is_that_of_dynamic_ntk(make: Callable[[], PositionEncoding]) -> None:
    """Two tokens at one position have the same base, whatever it is."""
    host, last = shaken(make(), 0.3), TESTED - 1
    a = call([0, 5, last, last])
    stale = StaleDynamicNTK().apply(host, TRAINED, TESTED).encode(a).logits(slice(0, 4))
    fresh = DynamicNTK().apply(host, TRAINED, TESTED).encode(a).logits(slice(0, 4))
    same(stale[0, :, 2:, 2:], fresh[0, :, 2:, 2:], 1e-9)
    assert not torch.allclose(stale[0, :, 2:, 1], fresh[0, :, 2:, 1])


@hosts
@pytest.mark.parametrize("extension", [DPE(WINDOW), StaleDynamicNTK()], ids=["dpe", "stale"])
def test_nothing_changes_at_the_training_length_and_weights_are_shared(
    extension: Extension, make: Callable[[], PositionEncoding]
) -> None:
    a, host = call(range(TRAINED)), shaken(make(), 0.3)
    for test in (TRAINED, 5):
        same(dense(extension.apply(host, TRAINED, test).encode(a)), dense(host.encode(a)), 1e-12)
    a, new = call(range(TESTED)), extension.apply(host, TRAINED, TESTED)
    assert {*new.parameters()} == {*host.parameters()}
    assert not torch.allclose(dense(new.encode(a)), dense(host.encode(a)))
    assert not {"frequencies", "distance"} & new.handles
    assert extension.is_identity


def test_published_groups_are_those_of_llama_3() -> None:
    """64 pairs in eight bands, from 8,192 positions to 131,072."""
    sizes = DPE(1024).sizes(64, 16.0)
    assert [sizes[m] for m in range(0, 64, 8)] == [4, 4, 2, 16, 32, 32, 16, 128]
    assert all(sizes[m] == sizes[m - m % 8] for m in range(64))
    assert DPE(4).sizes(4, 16.0) == (4, 2, 32, 16)  # of narrow heads the first pair of two bands
    assert DPE(4).sizes(4, 1.0) == (1, 1, 1, 1) and min(DPE(4).sizes(16, 1.1)) == 1


# -- one query of many keys, as a cache asks it ----------------------------------------------------


@pytest.mark.parametrize(
    "extension", [DPE(WINDOW, RATIOS), StaleDynamicNTK()], ids=["dpe", "stale"]
)
def test_the_last_query_alone_sees_what_it_sees_among_all(extension: Extension) -> None:
    a = call(range(TESTED))
    plan = extension.apply(RoPE(WIDTH, BASE), TRAINED, TESTED).encode(a)
    whole = dense(plan)
    same(attend_from(plan, TESTED - 1), whole[..., -1:, :], 1e-12)
    for block in (1, 7, TESTED):
        same(attend(plan, block), whole, 1e-12)


def test_a_stale_cache_is_what_decoding_token_by_token_leaves() -> None:
    """Keys are turned once, when their token comes, by `DynamicNTK` for that many positions."""
    a, host = call(range(TESTED)), RoPE(WIDTH, BASE)
    cache, rows = [], []
    for n in range(1, TESTED + 1):
        now = DynamicNTK().apply(host, TRAINED, n).encode(call(range(TESTED)))
        assert isinstance(now, Attention)
        cache.append(now.k[0, :, n - 1])
        rows.append([a.scale * (now.q[0, :, n - 1] * key).sum(-1) for key in cache])
    actual = scores(StaleDynamicNTK().apply(host, TRAINED, TESTED), a)[0]
    for i, j in causal(TESTED):
        same(actual[:, i, j], rows[i][j], 1e-9)


# -- refusals --------------------------------------------------------------------------------------


@pytest.mark.parametrize("extension", [DPE(WINDOW), StaleDynamicNTK()], ids=["dpe", "stale"])
def test_hosts_without_frequencies_that_heads_share_are_refused(extension: Extension) -> None:
    regional = ReRoPE(4).apply(RoPE(WIDTH), TRAINED, TESTED)
    for host in (ALiBi(HEADS), Sinusoidal(HEADS * WIDTH), AdaRoPE(HEADS, WIDTH), regional):
        with pytest.raises(IllegalExtension, match="frequencies that all heads share"):
            extension.extend(EncodingStack([host]), TRAINED, TESTED)
    mixed = EncodingStack([ALiBi(HEADS), RoPE(WIDTH)], 2)
    first, second = extension.extend(mixed, TRAINED, TESTED)
    assert first is mixed.layers[0] and second is not mixed.layers[1]


def test_settings_are_refused_that_mean_nothing() -> None:
    for ratios in ([], [0.0], [-1.0, 2.0], [math.inf]):
        with pytest.raises(ConfigError, match="ratios are group sizes"):
            DPE(WINDOW, ratios)
    with pytest.raises(ConfigError, match="window=8 leaves no trained distance"):
        DPE(TRAINED).apply(RoPE(WIDTH), TRAINED, TESTED)
    with pytest.raises(ConfigError, match="factor is how much faster"):
        StaleDynamicNTK(0.5)


def test_a_wrapper_keeps_true_distances_for_its_own_part() -> None:
    a = call(range(TESTED))
    around = ScaleInvariant(RoPE(WIDTH, BASE))
    plan = DPE(WINDOW, RATIOS).apply(around, TRAINED, TESTED).encode(a)
    assert isinstance(plan, Regions)
    d = a.distance(slice(0, TESTED))[:, None].clamp(min=0).double()
    spread = 2 * torch.log1p(d / 10.0)
    same(plan.logits(slice(0, TESTED)), (1 + spread).sqrt() * turned_by(a, grouped_angle) - spread)


# -- the search ------------------------------------------------------------------------------------


@oracle("dpe_search", "identity: every candidate is one band from a better one")
def test_the_search_changes_one_band_of_the_best_so_far() -> None:
    """A loss that each band lowers by itself is found band by band."""
    wanted, tried = (0.5, 1.0, 4.0, 8.0, 1.0, 0.5, 4.0, 32.0), []

    def far(ratios: Sequence[float]) -> float:
        return sum(abs(math.log(a / b)) for a, b in zip(ratios, wanted, strict=True))

    def loss(extension: Extension) -> float:
        assert isinstance(extension, DPE)
        tried.append(extension.ratios)
        return far(extension.ratios)

    stack = EncodingStack([RoPE(16)])
    found = DPESearch(5, budget=400).trials(stack, 40, np.random.default_rng(0), loss)
    assert found[0].settings == {"ratios": list(wanted)} and found[0].loss == 0
    assert len(found) == len(tried) == 400
    assert tried[0] == DPE(5).ratios and tried[1] == (2.0,) * 8
    best, bands = tried[1], []
    for each in tried[2:26]:
        [band] = [b for b in range(8) if each[b] != best[b]]
        bands.append(band)
        assert each[band] in DPESearch.RATIOS
        best = min(best, each, key=far)
    for start in (0, 8, 16):
        assert sorted(bands[start : start + 8]) == list(range(8))
    for budget in (1, 2, 3, 24):
        counted = DPESearch(5, budget).trials(stack, 40, np.random.default_rng(1), lambda _: 1.0)
        assert len(counted) == budget
    assert [t.loss for t in found] == sorted(t.loss for t in found)
