"""Whether a difference may be chance: randomisation tests of paired scores, and Holm's correction.

Both tests are two-sided. They compare a sum of independent parts with what it would be if the two
sides of every part could be exchanged, and p is the share of all exchanges whose sum is at least as
far from 0 as the one found (Fisher 1935; Pitman 1937). All exchanges are counted, by halves, as
long as neither half has more than EXACT of them; beyond that, DRAWS of them are drawn from a fixed
seed, and p is (hits + 1) / (DRAWS + 1) (Phipson and Smyth 2010). The same values in the same order
give the same p to the last bit.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Sequence

import numpy as np

EXACT = 2**20
DRAWS = 100_000
ROUNDING = 1e-9
"""Sums that differ by less than this share of the largest possible sum are the same sum."""


def sign_flip(differences: Sequence[float]) -> float:
    """The p of a mean difference, where each difference might as well have the other sign.

    It fits sides that share their weights: p = #{s in {-1, 1}^n: |s . d| >= |sum d|} / 2^n, without
    unit. NaN if there is no difference.
    """
    values = np.asarray(differences, float)
    if not len(values):
        return math.nan
    observed, largest = float(values.sum()), float(np.abs(values).sum())
    sizes = [2] * len(values)
    if _countable(sizes):
        return _counted([np.array([-value, value]) for value in values], observed, largest)
    signs = np.random.default_rng(0).choice((-1.0, 1.0), size=(DRAWS, len(values)))
    return _drawn(signs @ values, observed, largest)


def exchange(strata: Sequence[Sequence[Sequence[float]]]) -> float:
    """The p of a mean difference, where within each stratum a score might be of either side:
    [stratum][side][score].

    It fits sides that do not share their weights, so that the two scores of a seed have nothing in
    common. With n scores of one side and m of the other, a stratum has C(n + m, n) ways of handing
    them to the two sides, and the statistic is the sum over strata of min(n, m) times the
    difference of the means. Without unit; NaN if there is no score.
    """
    pooled = [
        (np.concatenate([np.asarray(side, float) for side in sides]), len(sides[0]))
        for sides in strata
        if min(map(len, sides))
    ]
    if not pooled:
        return math.nan
    observed = sum(float(_differences(scores[None], size)[0]) for scores, size in pooled)
    largest = float(sum(np.abs(scores).sum() for scores, _ in pooled))
    if _countable([math.comb(len(scores), size) for scores, size in pooled]):
        return _counted([_every_way(*each) for each in pooled], observed, largest)
    random = np.random.default_rng(0)
    sums = np.zeros(DRAWS)
    for scores, size in pooled:
        sums += _differences(random.permuted(np.tile(scores, (DRAWS, 1)), axis=1), size)
    return _drawn(sums, observed, largest)


def least_sign_flip(num_pairs: int) -> float:
    """The least p that `sign_flip` can give of so many differences: 2 / 2^n, NaN of none."""
    return _least([2] * num_pairs, 2)


def least_exchange(sizes: Sequence[tuple[int, int]]) -> float:
    """The least p that `exchange` can give of strata with so many scores of either side.

    One of all ways is the one found. Where both sides have as many scores in every stratum, handing
    all of them over to the other side is as extreme.
    """
    mirrored = all(one == other for one, other in sizes)
    return _least([math.comb(one + other, one) for one, other in sizes], 1 + mirrored)


def _least(ways: Sequence[int], extreme: int) -> float:
    if not ways:
        return math.nan
    least = extreme / math.prod(ways)
    return least if _countable(ways) else max(least, 1 / (DRAWS + 1))


def holm(p: Sequence[float]) -> list[float]:
    """Holm's adjusted p, in the order given: max over j <= i of min(1, (m - j + 1) p_(j)).

    S. Holm, "A simple sequentially rejective multiple test procedure", Scandinavian Journal of
    Statistics 6, 1979. A test that could not be made counts in m: give it NaN, which is taken as 1
    and stays NaN.
    """
    adjusted = [math.nan] * len(p)
    highest = 0.0
    made = sorted((value, index) for index, value in enumerate(p) if not math.isnan(value))
    for rank, (value, index) in enumerate(made):
        highest = max(highest, min(1.0, (len(p) - rank) * value))
        adjusted[index] = highest
    return adjusted


def _differences(scores: np.ndarray, size: int) -> np.ndarray:
    """The difference between the first `size` scores of each row and the others, by weight."""
    weight = min(size, scores.shape[1] - size)
    return weight * (scores[:, :size].mean(axis=1) - scores[:, size:].mean(axis=1))


def _every_way(scores: np.ndarray, size: int) -> np.ndarray:
    """The same for each way of choosing the first side."""
    chosen = np.array(list(itertools.combinations(range(len(scores)), size)))
    others = len(scores) - size
    first = scores[chosen].sum(axis=1)
    return min(size, others) * (first / size - (scores.sum() - first) / others)


def _halves(sizes: Sequence[int]) -> list[list[int]]:
    """The parts, by index, in two halves of nearly the same number of combinations."""
    halves: list[list[int]] = [[], []]
    for index in sorted(range(len(sizes)), key=lambda index: -sizes[index]):
        min(halves, key=lambda half: math.prod(sizes[part] for part in half)).append(index)
    return halves


def _countable(sizes: Sequence[int]) -> bool:
    return all(math.prod(sizes[part] for part in half) <= EXACT for half in _halves(sizes))


def _counted(parts: Sequence[np.ndarray], observed: float, largest: float) -> float:
    """The share of all sums of one value of each part that are as extreme as the one observed.

    A sum is one of the first half plus one of the second, so that for each of the first a search
    among the sorted second says how many reach the limit.
    """
    first, second = (
        _sums([parts[index] for index in half]) for half in _halves([len(part) for part in parts])
    )
    second.sort()
    limit = abs(observed) - ROUNDING * largest
    if limit <= 0:
        return 1.0
    above = len(second) - np.searchsorted(second, limit - first, side="left")
    below = np.searchsorted(second, -limit - first, side="right")
    return float((above + below).sum() / (len(first) * len(second)))


def _sums(parts: Iterable[np.ndarray]) -> np.ndarray:
    sums = np.zeros(1)
    for part in parts:
        sums = np.add.outer(sums, part).ravel()
    return sums


def _drawn(sums: np.ndarray, observed: float, largest: float) -> float:
    hits = int((np.abs(sums) >= abs(observed) - ROUNDING * largest).sum())
    return (hits + 1) / (len(sums) + 1)
