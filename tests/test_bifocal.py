"""Jet-Long by frequencies: pair by pair at the angles that a loop gives, and on every host at those
of a frequency of its own for each distance.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import pytest
import torch
from loops import HEADS, WIDTH, by_pairs, call, same, shaken
from rotations import grid
from torch import Tensor

from posbench.base.errors import ConfigError, IllegalExtension
from posbench.core.attention import Attention, Regions, attend, dense
from posbench.core.encoding import EncodingStack, PositionEncoding
from posbench.encodings.lerope import LeRoPE
from posbench.encodings.p_rope import PRoPE
from posbench.encodings.partial_rope import PartialRoPE
from posbench.encodings.pope import PoPE
from posbench.encodings.rope import RoPE
from posbench.encodings.sinusoidal import Sinusoidal
from posbench.encodings.ssmax import SSMax
from posbench.encodings.tener import TENER
from posbench.encodings.transformer_xl import TransformerXL
from posbench.encodings.xpos import XPos
from posbench.extensions.jet_long_freq import JetLongFreq
from posbench.extensions.ntk import NTK
from posbench.extensions.rerope import ReRoPE
from posbench.extensions.yarn import YaRN

oracle = pytest.mark.oracle
TRAINED, TESTED, WINDOW = 8, 20, 3
BASE, FAST, SLOW = 100.0, 1.2, 0.05  # pairs of 1.3, 0.4, 0.13 and 0.04 turns: a ramp of 3 steps
RAMP = (0, 1 / 3, 2 / 3, 1)
S = 17 / 5  # (TESTED - WINDOW) / (TRAINED - WINDOW)
TAU = 0.1 * math.log(S) + 1

POSITIONS: dict[str, Sequence[float]] = {
    "counted": list(range(TESTED)),
    "with gaps": [3 * i - i % 3 + (40 if i > 14 else 0) for i in range(TESTED)],
    "running back": [12, 11, 7, 7, 5, 2, 0, 1, 9, 30, 4, 4, 3, 25, 26, 1, 8, 10, 18, 6],
    "fractional": [0.25 * i**2 + 0.5 for i in range(TESTED)],
}
positions = pytest.mark.parametrize("positions", POSITIONS.values(), ids=list(POSITIONS))


def extended(host: PositionEncoding, scale: float | None = None) -> PositionEncoding:
    return JetLongFreq(WINDOW, FAST, SLOW, scale).apply(host, TRAINED, TESTED)


def scores(encoding: PositionEncoding, a: Attention) -> Tensor:
    plan = encoding.encode(a)
    return torch.cat([plan.logits(slice(0, 9)), plan.logits(slice(9, TESTED))], -2)


@oracle("jet_long_freq", "double loop")
@positions
def test_angles_go_on_from_the_edge_of_the_window_more_slowly(positions: Sequence[float]) -> None:
    a = call(positions)
    q, k, i_pos, j_pos = (each.tolist() for each in (a.q, a.k, a.q_pos, a.k_pos))

    def score(b: int, h: int, i: int, j: int) -> float:
        d, total = i_pos[b][i] - j_pos[b][j], 0.0
        for m, (theta, ramp) in enumerate(zip(grid(4, BASE), RAMP, strict=True)):
            angle = theta * d
            if d > WINDOW:
                slower = theta * (1 - ramp) + theta / S * ramp
                angle = theta * WINDOW + slower * (d - WINDOW)
            x, y = (complex(t[m], t[m + 4]) for t in (q[b][h][i], k[b][h][j]))
            total += (x * y.conjugate() * complex(math.cos(angle), math.sin(angle))).real
        return TAU * a.scale * total

    same(scores(extended(RoPE(WIDTH, BASE)), a), by_pairs(a, score), 1e-9)


@oracle("jet_long_freq", "identity: the phases of the authors' code")
def test_phases_are_those_that_the_code_corrects_to() -> None:
    """It turns queries and keys at their positions, then keys by j delta and queries by
    max(i - w_0, 0) delta, with delta = -theta ramp (1 - 1/s).
    """
    a, host = call(range(TESTED)), RoPE(2, BASE)
    for m, (theta, ramp) in enumerate(zip(grid(4, BASE), RAMP, strict=True)):
        delta = -theta * ramp * (1 - 1 / S)
        pair = [m, m + 4]
        alone = Attention(*(t[..., pair] for t in (a.q, a.k, a.v)), a.x, a.q_pos, a.k_pos, a.scale)
        moved = torch.arange(TESTED).double()
        q_phase = (
            a.q_pos[0].double() * theta + (moved - WINDOW).clamp(min=0) * delta
        ) / host.frequencies.theta()
        k_phase = (a.k_pos[0].double() * theta + moved * delta) / host.frequencies.theta()
        far = host.encode(alone.at(q_phase[None], k_phase[None])).logits(slice(0, TESTED))
        near = RoPE(2, BASE).variant(frequencies=host.frequencies.stretched((1 / theta,)))
        near = near.encode(alone).logits(slice(0, TESTED))
        is_far = (moved[:, None] - WINDOW) > moved
        if m == 0:
            total = torch.zeros_like(far)
        total = total + torch.where(is_far, far, near)
    same(scores(extended(RoPE(WIDTH, BASE)), a)[0], TAU * total[0], 1e-9)


HOSTS: dict[str, Callable[[], PositionEncoding]] = {
    "rope": lambda: RoPE(WIDTH, BASE),
    "rope after ntk": lambda: NTK(2.0).apply(RoPE(WIDTH, BASE), TRAINED, TRAINED),
    "rope after yarn": lambda: YaRN(FAST, SLOW, 2.0).apply(RoPE(WIDTH, BASE), TRAINED, TRAINED),
    "p_rope": lambda: PRoPE(WIDTH, 0.75, BASE),
    "partial_rope": lambda: PartialRoPE(WIDTH, 0.5, BASE),
    "xpos": lambda: XPos(WIDTH, 30.0, base=BASE),
    "pope": lambda: PoPE(HEADS, WIDTH, BASE),
    "lerope": lambda: LeRoPE(WIDTH, BASE),
    "transformer_xl": lambda: TransformerXL(HEADS, WIDTH, HEADS * WIDTH),
    "tener": lambda: TENER(HEADS, WIDTH),
    "ssmax": lambda: SSMax(RoPE(WIDTH, BASE), HEADS, TRAINED),
}
hosts = pytest.mark.parametrize("make", HOSTS.values(), ids=list(HOSTS))


@oracle("jet_long_freq", "identity: a frequency for each distance")
@hosts
@pytest.mark.parametrize("name", ["counted", "with gaps"])
def test_at_every_distance_a_host_is_itself_at_the_mean_frequency_so_far(
    make: Callable[[], PositionEncoding], name: str
) -> None:
    """At d, theta is as large as would come to the same angle without a window."""
    a, host = call(POSITIONS[name]), shaken(make(), 0.3)
    frequencies = host.frequencies
    stretch = YaRN(FAST, SLOW).stretch(frequencies, TRAINED, S)
    actual, distance = scores(extended(host), a), a.distance(slice(0, TESTED))[:, None]
    for d in range(1, int(distance.max()) + 1):
        way = [d if d <= WINDOW else WINDOW + (d - WINDOW) / each for each in stretch]
        mean = frequencies.stretched(tuple(d / each for each in way))
        heated = a.heated(torch.full((1, 1, 1, 1), TAU, dtype=torch.float64))
        expected = scores(host.variant(frequencies=mean), heated)
        same(torch.where(distance == d, actual, 0), torch.where(distance == d, expected, 0), 1e-8)


@hosts
def test_nothing_changes_at_the_training_length_and_weights_are_shared(
    make: Callable[[], PositionEncoding],
) -> None:
    a, host = call(range(TRAINED)), shaken(make(), 0.3)
    extension = JetLongFreq(WINDOW, FAST, SLOW)
    for test in (TRAINED, 5):
        same(dense(extension.apply(host, TRAINED, test).encode(a)), dense(host.encode(a)), 1e-12)
    new = extension.apply(host, TRAINED, TESTED)
    assert {*new.parameters()} == {*host.parameters()}
    assert not torch.allclose(dense(new.encode(a)), dense(host.encode(a)))
    assert extension.is_identity and not JetLongFreq(WINDOW, scale=2.0).is_identity


def test_the_largest_angle_of_interpolated_pairs_is_that_of_the_training_length() -> None:
    """Distance L' would come to L; that of the last token to the first is one shorter."""
    for test in (9, 20, 400):
        scale = JetLongFreq(WINDOW).scale_at(TRAINED, test)
        furthest = WINDOW + (test - 1 - WINDOW) / scale
        assert furthest == pytest.approx(TRAINED - 1 / scale, abs=1e-12)
    assert JetLongFreq(WINDOW, scale=3.0).scale_at(TRAINED, 400) == 3.0


def test_it_works_in_blocks_and_leaves_temperature_and_mask_alone() -> None:
    a, new = call(range(TESTED)), extended(RoPE(WIDTH, BASE))
    plan = new.encode(a)
    assert isinstance(plan, Regions)
    for block in (1, 7):
        same(attend(plan, block), dense(plan), 1e-12)
    assert {"mask", "temperature"} <= new.handles
    assert not {"frequencies", "distance"} & new.handles


def test_a_host_with_one_of_the_two_handles_is_refused() -> None:
    extension = JetLongFreq(WINDOW)
    for host in (Sinusoidal(8), ReRoPE(4).apply(RoPE(WIDTH), TRAINED, TESTED)):
        assert "frequencies" in host.handles
        with pytest.raises(IllegalExtension, match="needs frequencies and distance"):
            extension.extend(EncodingStack([host]), TRAINED, TESTED)
    first, second = extension.extend(
        EncodingStack([Sinusoidal(8), RoPE(WIDTH)], 2), TRAINED, TESTED
    )
    assert isinstance(first, Sinusoidal) and "frequencies" not in second.handles


def test_a_window_as_long_as_the_training_is_refused() -> None:
    with pytest.raises(ConfigError, match="window=8 leaves no trained distance"):
        JetLongFreq(TRAINED).apply(RoPE(WIDTH), TRAINED, TESTED)


def test_scores_that_are_no_product_are_refused_with_a_sentence() -> None:
    """Over very many scale bases xPos has its scores formed in parts."""
    a = call(range(0, 40 * TESTED, 40))
    small = Attention(a.q.float(), a.k.float(), a.v.float(), a.x.float(), a.q_pos, a.k_pos, a.scale)
    with pytest.raises(IllegalExtension, match="no product of a query and a key"):
        extended(XPos(WIDTH, 1.0)).encode(small)
