r"""Extensions that give keys other distances, each a few regions; see `regions`.

d = i - j is a distance of positions, d' the one that the host is told. L are the positions seen in
training, L' those of the test; distances up to L - 1 have been trained. A key at a later position
than its query (d < 0, where a task's ids run backwards) keeps its distance, unless it is said
otherwise.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import torch
from torch import Tensor

from posbench.attention import Attention
from posbench.errors import ConfigError
from posbench.extension import Scaled
from posbench.extensions.regions import Region, RegionExtension, at_least, from_the_first
from posbench.masks import Visible


def counted(name: str, value: int | None, low: int = 1) -> None:
    """Refuses what is no number of positions; null stands for one that lengths give."""
    if value is not None and value < low:
        raise ConfigError(f"{name} is a number of positions, at least {low}, got {value}")


def below(name: str, value: int, train_positions: int) -> None:
    """Refuses what leaves no trained distance to put far keys at."""
    if value >= train_positions:
        raise ConfigError(
            f"{name}={value} leaves no trained distance for keys further away: choose fewer than "
            f"the {train_positions} positions of training"
        )


def smallest(furthest: Callable[[int], int], train_positions: int) -> int:
    """The smallest whole factor with which the furthest distance d' is a trained one."""
    return next(factor for factor in itertools.count(1) if furthest(factor) < train_positions)


def real(pos: Tensor) -> Tensor:
    """Positions that may be divided, in float64 (float32 where the device has none)."""
    if pos.is_floating_point():
        return pos
    return pos.to(torch.float32 if pos.device.type == "mps" else torch.float64)


def divided(pos: Tensor, by: float | Fraction) -> Tensor:
    """Positions divided, to 2^-32. Differences are exact where they are whole: hosts may round down
    what they see.
    """
    factor = Fraction(by).limit_denominator(10**6)
    period, step = factor.numerator, factor.denominator  # period positions become step
    part = (real(pos % period) * (2**32 * step / period)).round() / 2**32
    return real(pos // period * step) + part


def grouped(pos: Tensor, size: int) -> Tensor:
    """The group of each position; groups of one leave fractions of positions as they are."""
    return pos // size if size > 1 else pos


def capped(distance: int) -> Region:
    """Keys at that distance or further, all seen at it: the query there, the keys at 0."""

    def places(a: Attention) -> tuple[Tensor, Tensor]:
        return torch.full_like(a.q_pos, distance), torch.zeros_like(a.k_pos)

    return Region(places, at_least(distance))


def first_and_recent(count: int, window: int) -> Visible:
    """The first keys of the sequence, and those of a sliding window: a query's own and the w - 1
    before it.
    """
    return lambda i, j: (j < count) | (i - j < window)


class ReRoPE(RegionExtension):
    r"""$d' = \min(d, w)$ (rectified RoPE, Su, kexue.fm/archives/9708, 2023).

    Nearer than `window` w nothing changes; all keys further away look equally far, so that no
    distance is new at any length, but their order is lost. w is fixed, 512 of 4,096 trained
    positions as published: also at the training length far keys are put together, unless w covers
    it. Published with a temperature that grows as the logarithm of the number of keys, which is an
    extension of its own and left out.
    """

    is_identity = False

    def __init__(self, window: int) -> None:
        counted("window", window)
        self.window = window

    def regions(self, train_positions: int, test_positions: int) -> list[Region]:
        return [Region(), capped(self.window)]


class Clamp(RegionExtension):
    r"""$d' = \min(d, c)$: `ReRoPE` at the largest trained distance (`clamp_len` of Transformer-XL,
    arXiv 1901.02860).

    c is `largest`, or L - 1 where it is left out (null): nothing changes at the training length,
    and beyond it no distance is new. Published for Transformer-XL with c = 400 to 1,000, beyond its
    training length. Encodings that clip distances below c themselves (T5, Shaw, DeBERTa) have this
    already, and it changes nothing.
    """

    def __init__(self, largest: int | None = None) -> None:
        counted("largest", largest)
        self.largest = largest

    @property
    def is_identity(self) -> bool:
        return self.largest is None

    def regions(self, train_positions: int, test_positions: int) -> list[Region]:
        return [Region(), capped(train_positions - 1 if self.largest is None else self.largest)]


class Shrinking(RegionExtension):
    """Regions with a factor of their own: left out (null), one for each test length."""

    factor: Any  # a number, whole for some, or None

    @property
    def is_identity(self) -> bool:
        return self.factor is None or self.factor == 1

    @property
    def scale_policy(self) -> str:  # type: ignore[override]
        return "per test length" if self.factor is None else "fixed"


class LeakyReRoPE(Shrinking):
    r"""$d' = d$ for $d < w$, else $w + (d - w)/k$ (Leaky ReRoPE, Su, kexue.fm/archives/9708, 2023).

    Beyond `window` w distances go on growing, `shrink` k times slower, and far keys keep their
    order. Published w = 512 and k = 16 at L = 4,096. Left out (null), k is the smallest with which
    no distance of the test is new, $\max\bigl(1, \frac{L' - 1 - w}{L - 1 - w}\bigr)$, for each test
    length its own, and nothing changes at the training length. Far keys are at $j/k$, queries at $w
    + (i - w)/k$, counted from the first token; a host that knows whole positions only is given the
    floor of both, which moves d' by less than 1. Published with a temperature, which is left out.
    """

    def __init__(self, window: int, shrink: float | None = None) -> None:
        counted("window", window)
        if shrink is not None and shrink < 1:
            raise ConfigError(
                f"shrink divides far distances, at least 1 (or null for one a length), got {shrink}"
            )
        self.window = window
        self.factor = shrink

    def regions(self, train_positions: int, test_positions: int) -> list[Region]:
        window = self.window
        shrink: float | Fraction
        if self.factor is not None:
            shrink = self.factor
        else:
            below("window", window, train_positions - 1)
            shrink = max(
                Fraction(1), Fraction(test_positions - 1 - window, train_positions - 1 - window)
            )

        def places(a: Attention) -> tuple[Tensor, Tensor]:
            i, j = from_the_first(a)
            return window + divided(i - window, shrink), divided(j, shrink)

        return [Region(), Region(places, at_least(window))]


class SelfExtend(Shrinking):
    r"""$d' = d$ for $d < W$, else $\lfloor i/G \rfloor - \lfloor j/G \rfloor + W - \lfloor W/G
    \rfloor$ (SelfExtend, arXiv 2401.01325).

    Beyond `window` W positions are grouped by `group` G, so that d' stays whole; which of G
    neighbouring keys it is, is lost. Published W = 512 to 1,024 and G = 4 to 32 at L = 4,096. Left
    out (null), G is the smallest with which no distance of the test is new, for each test length
    its own, and nothing changes at the training length. Groups are counted from the first token. d'
    depends on where in its group a query is, and may grow by G tokens at once.

    The floor of W/G is that of the paper, and of the authors' code when it decodes; its code for
    prompts has W/G as it is, and tells prompt and continuation different distances unless G divides
    W. That code leaves out $W - W/G$ as well for sequences of up to W positions, which have no far
    keys and where it changes nothing.
    """

    def __init__(self, window: int, group: int | None = None) -> None:
        counted("window", window)
        counted("group", group)
        self.window = window
        self.factor = group

    def regions(self, train_positions: int, test_positions: int) -> list[Region]:
        window, group = self.window, self.factor
        if group is None:
            below("window", window, train_positions)
            group = smallest(
                lambda g: (test_positions - 1) // g + window - window // g, train_positions
            )

        def places(a: Attention) -> tuple[Tensor, Tensor]:
            i, j = from_the_first(a)
            return grouped(i, group) + window - window // group, grouped(j, group)

        return [Region(), Region(places, at_least(window))]


class Mesa(Shrinking):
    r"""$d' = d$ for keys of the query's own chunk, else $(i - b) + \lceil b/E \rceil - \lfloor j/E
    \rfloor$, where b is the position at which its chunk begins (Stair PE of Mesa-Extrapolation,
    arXiv 2410.15859).

    Chunks are of `chunk` positions, counted from the first token. Keys of earlier chunks are
    grouped by `step` E, so that distances climb a stair; queries are not, unlike in `SelfExtend`.
    Published: steps of 20 to 200 and chunks of 512 up to the training length. Left out (null), E is
    the smallest with which no distance of the test is new, for each test length its own, and
    nothing changes at the training length.

    Where E divides b this is $N + \lceil (d - N)/E \rceil$ with N = i - b, the paper's formula as
    its authors' code computes it; with one N for all queries it would be no difference of
    positions, and no two maps could give it. The code cuts chunks from the end of the prompt and
    lets all but the last see only the first chunk and themselves, to save memory: here every query
    is treated as one of a last chunk and sees all keys. Its temperature is left out.
    """

    def __init__(self, chunk: int, step: int | None = None) -> None:
        counted("chunk", chunk)
        counted("step", step)
        self.chunk = chunk
        self.factor = step

    def regions(self, train_positions: int, test_positions: int) -> list[Region]:
        size, step = self.chunk, self.factor
        if step is None:
            below("chunk", size, train_positions)
            starts = range(0, test_positions, size)
            step = smallest(
                lambda e: max(min(size, test_positions - b) - 1 + -(-b // e) for b in starts[-2:]),
                train_positions,
            )

        def places(a: Attention) -> tuple[Tensor, Tensor]:
            i, j = from_the_first(a)
            begin = i - i % size
            return i - begin - (-begin) // step, grouped(j, step)

        return [Region(), Region(places, lambda a, rows: chunks_back(a, rows, size) >= 1)]


def chunks_back(a: Attention, rows: slice, size: int) -> Tensor:
    """How many chunks before the query's a key is, [batch|1, rows, keys]; chunks are counted from
    the first token.
    """
    i, j = (pos // size for pos in from_the_first(a))
    return i[:, rows, None] - j[:, None, :]


class DCA(RegionExtension):
    r"""$d' = q' - (j \bmod s)$ with $q' = i \bmod s$ for keys of the query's own chunk, $\min(i
    \bmod s + s,\, c - 1)$ for those of the one before, $c - 1$ for all earlier ones, and chunks of
    $s = c - w$ positions (dual chunk attention, ChunkLlama, arXiv 2402.17463).

    Distances up to `window` w are exact, none reaches `largest` c, and no distance is new at any
    length while c does not exceed L. Keys of earlier chunks keep their order within a chunk, but
    chunks are not told apart. The authors' code has c = 3 L/4 and w = L/8 (in another version
    L/16), and c and $\min(2s - 1, c)$ where the paper has c - 1: this is the paper, at those
    settings. So far keys are put together also at the training length, unless a chunk covers it.
    Chunks are counted from the first token. The code's temperature, 1 up to L, is left out.
    """

    is_identity = False

    def __init__(self, largest: int, window: int) -> None:
        counted("window", window)
        self.largest = largest
        self.window = window

    def regions(self, train_positions: int, test_positions: int) -> list[Region]:
        size, largest = self.largest - self.window, self.largest - 1
        if size < 1:
            raise ConfigError(
                f"chunks have largest - window positions: largest={self.largest} must exceed "
                f"window={self.window}"
            )

        def next_chunk(a: Attention) -> tuple[Tensor, Tensor]:
            i, j = from_the_first(a)
            return (i % size + size).clamp(max=largest), j % size

        def later_chunk(a: Attention) -> tuple[Tensor, Tensor]:
            return torch.full_like(a.q_pos, largest), from_the_first(a)[1] % size

        return [
            Region(),
            Region(next_chunk, lambda a, rows: chunks_back(a, rows, size) == 1),
            Region(later_chunk, lambda a, rows: chunks_back(a, rows, size) >= 2),
        ]


class STRING(RegionExtension):
    r"""$d' = d$ for $d < S$, else $d - S + W$ (STRING, arXiv 2410.18745).

    Distances from `shift` S on are told as those S - W smaller: what a model saw rarely, its
    largest distances, is replaced by what it saw often, also at the training length, and d' stays
    trained up to $L' = L + S - W$ only: further it extrapolates again. Two keys may share a
    distance, one nearer than S and one beyond. Published S = L/3 and W = 128, `window`, of 128,000.
    The authors' code multiplies logits by a power of $0.1\ln 2 + 1$ besides and counts d = S in
    both of its parts; neither is done here.
    """

    is_identity = False

    def __init__(self, shift: int, window: int) -> None:
        counted("window", window, low=0)
        self.shift = shift
        self.window = window

    def regions(self, train_positions: int, test_positions: int) -> list[Region]:
        if self.shift <= self.window:
            raise ConfigError(
                f"distances shrink by shift - window: shift={self.shift} must exceed "
                f"window={self.window}"
            )

        def places(a: Attention) -> tuple[Tensor, Tensor]:
            return a.q_pos - self.shift + self.window, a.k_pos

        return [Region(), Region(places, at_least(self.shift))]


class LMInfinite(RegionExtension):
    r"""$d' = \min(d, w)$, and only the first keys and the last w are seen (Lambda-shaped mask,
    LM-Infinite, arXiv 2308.16137).

    The mask counts keys: `first` n keys of the sequence by index, and of the others those at
    offsets below `window` w. The cap goes by positions. w left out (null) is L, as published, and
    nothing changes at the training length; the first keys are then at most one position further
    than in training. Published n = 10 to 100. Keys in between are not seen at all: what is there
    cannot be retrieved but through the layers. The optional logarithm of the number of keys as
    temperature is left out.
    """

    def __init__(self, first: int, window: int | None = None) -> None:
        counted("first", first, low=0)
        counted("window", window)
        self.first = first
        self.window = window

    @property
    def is_identity(self) -> bool:
        return self.window is None

    def regions(self, train_positions: int, test_positions: int) -> list[Region]:
        return [Region(), capped(self.window or train_positions)]

    def visible(self, train_positions: int) -> Visible:
        return first_and_recent(self.first, self.window or train_positions)


class StreamingLLM(RegionExtension):
    r"""Only the first S keys (sinks) and the last w are seen, at their places among these: a sink t
    at $d' = \min(i,\, S + w - 1) - t$, the others at d (StreamingLLM, arXiv 2309.17453).

    Counted positions are places in a cache of S + w keys, the query's own included. With positions
    that are not counted from 0 the same: those between the last sink and the first recent key are
    taken out of the query's, so that both are neighbours. Published S = 4, `sinks`, with w up to
    the training length. w, `window`, left out (null) is L - S: the cache holds L keys, nothing
    changes at the training length, and beyond it no distance is new. Keys in between are not seen
    at all: what is there cannot be retrieved but through the layers.
    """

    def __init__(self, sinks: int, window: int | None = None) -> None:
        counted("sinks", sinks)
        counted("window", window)
        self.sinks = sinks
        self.window = window

    @property
    def is_identity(self) -> bool:
        return self.window is None

    def recent(self, train_positions: int) -> int:
        if self.window is None:
            below("sinks", self.sinks, train_positions)
        return self.window or train_positions - self.sinks

    def regions(self, train_positions: int, test_positions: int) -> list[Region]:
        sinks, window = self.sinks, self.recent(train_positions)

        def places(a: Attention) -> tuple[Tensor, Tensor]:
            oldest = (torch.arange(a.num_queries, device=a.q.device) - window + 1).clamp(min=0)
            last = min(sinks, a.num_queries) - 1
            evicted = a.k_pos[:, oldest] - a.k_pos[:, last, None] - 1
            return a.q_pos - torch.where(oldest > sinks, evicted, 0), a.k_pos

        def first(a: Attention, rows: slice) -> Tensor:
            return (torch.arange(a.num_queries, device=a.q.device) < sinks)[None, None]

        return [Region(), Region(places, first)]

    def visible(self, train_positions: int) -> Visible:
        return first_and_recent(self.sinks, self.recent(train_positions))


class InterpolateDistance(RegionExtension, Scaled):
    r"""$d' = d / s$: position interpolation for any host with a distance (of ALiBi's slopes, arXiv
    2310.13017; of RoPE's angles, `PI`, arXiv 2306.15595).

    `scale` s is a fixed factor, or where it is left out (null) $\max(1, L'/L)$ for each test length
    L' of its own, and nothing changes at the training length. No distance is new, but neighbours
    are s times closer than in training. Positions are divided, which for ALiBi is the published
    $m_h \leftarrow m_h L/L'$. A host that knows whole positions only is given $\lfloor i/s \rfloor$
    and $\lfloor j/s \rfloor$, counted from the first token, which moves d' by less than 1 and tells
    some neighbours apart and others not.
    """

    def regions(self, train_positions: int, test_positions: int) -> list[Region]:
        scale = (
            self.scale
            if self.scale is not None
            else max(Fraction(1), Fraction(test_positions, train_positions))
        )

        def places(a: Attention) -> tuple[Tensor, Tensor]:
            i, j = from_the_first(a)
            return divided(i, scale), divided(j, scale)

        return [Region(places)]
