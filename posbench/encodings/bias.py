"""Encodings that add a function of the distance to the attention scores."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from posbench.attention import Attention
from posbench.encoding import PositionEncoding
from posbench.errors import ConfigError


class ALiBi(PositionEncoding):
    r"""$B_{ij} = -m_h\,(i - j)$, added after the scale (arXiv 2108.12409).

    With H heads a power of two, $m_h = 2^{-e h/H}$ for h = 1..H, where `steepness` e is 8. For
    other H: the slopes of the power of two below, then every second slope of the power of two
    above. No parameters. Weights fall as $\exp(-m_h d)$, a soft window of about $1/m_h$ tokens at
    any length, so nothing is undefined beyond training. The bias is exact in two extra channels:
    $(-m_h i)\cdot 1 + 1\cdot(m_h j)$.
    """

    handles = PositionEncoding.handles | {"distance", "positions"}

    def __init__(self, num_heads: int, steepness: float = 8.0) -> None:
        super().__init__()
        self.slopes = alibi_slopes(num_heads, steepness)

    def encode(self, a: Attention) -> Attention:
        dtype = torch.promote_types(a.q.dtype, torch.float32)
        slopes = torch.tensor(self.slopes, dtype=dtype, device=a.q.device)[:, None]
        # Only differences matter, so count from the middle: large products lose the small
        # differences.
        middle = a.k_pos[:, a.k_pos.shape[1] // 2, None]
        i, j = ((pos - middle).to(dtype)[:, None, :] for pos in (a.q_pos, a.k_pos))
        one = torch.ones_like(slopes * i)
        return a.factored(torch.stack((-slopes * i, one), -1), torch.stack((one, slopes * j), -1))


def alibi_slopes(num_heads: int, steepness: float = 8.0) -> tuple[float, ...]:
    """The slopes m_1..m_H; see `ALiBi`."""
    if num_heads < 1:
        raise ConfigError(f"ALiBi needs at least one head, got {num_heads}")
    power = 2 ** int(math.log2(num_heads))
    below = [2 ** (-steepness * h / power) for h in range(1, power + 1)]
    above = [2 ** (-steepness * h / (2 * power)) for h in range(1, 2 * power + 1)]
    return tuple(below + above[::2][: num_heads - power])


class T5(PositionEncoding):
    r"""$B_{ij} = E[\text{bucket}(i - j), h]$, a learned bias for each bucket of distances and head
    (arXiv 1910.10683, section 2.1).

    Half of the buckets hold one distance each, the rest grow logarithmically up to `max_distance`;
    the last one holds everything further and begins before `max_distance` (at 113 of 128). One
    table serves all layers. E starts at $N(0, 1/D)$, as in T5. T5 itself leaves out the scale
    $1/\sqrt{d_h}$; here scores are scaled for every encoding alike and the bias is added after the
    scale. Beyond the training length all new distances fall into the last bucket. The published
    `max_distance` of 128 leaves buckets untrained in a shorter model, so the default is the number
    of trained positions.
    """

    shared = ("table",)
    handles = PositionEncoding.handles | {"distance", "positions"}

    def __init__(
        self, num_heads: int, model_width: int, num_buckets: int, max_distance: int
    ) -> None:
        super().__init__()
        if num_buckets < 2:
            raise ConfigError(f"T5 needs at least 2 buckets, got num_buckets={num_buckets}")
        if max_distance <= num_buckets // 2:
            raise ConfigError(
                f"max_distance={max_distance} must exceed the {num_buckets // 2} distances that "
                f"have a bucket of their own: raise it or lower num_buckets={num_buckets}"
            )
        self.num_buckets = num_buckets
        self.max_distance = max_distance
        self.table = nn.Parameter(model_width**-0.5 * torch.randn(num_buckets, num_heads))

    def encode(self, a: Attention) -> Attention:
        def term(rows: slice) -> Tensor:
            return self.table[self.bucket(a.distance(rows))].movedim(
                -1, 1
            )  # [batch|1, heads, rows, keys]

        return a.plus(term)

    def bucket(self, distance: Tensor) -> Tensor:
        return t5_bucket(distance, self.num_buckets, self.max_distance)


class BidirectionalT5(T5):
    r"""`T5` with buckets of their own for later keys, as in T5's encoder (arXiv 1910.10683):
    $B_{ij} = E[\text{bucket}(|i - j|) + N\,[i < j], h]$.

    Attention stays causal: what is later here is a key seen already whose position lies beyond the
    query's, as ids supplied by a task may have it. Where positions count up, the second half of the
    table is never used and the rest is `T5`. `num_buckets` N counts those of one direction (T5's
    own 32 count both). Beyond the training length as T5.
    """

    def __init__(
        self, num_heads: int, model_width: int, num_buckets: int, max_distance: int
    ) -> None:
        super().__init__(num_heads, model_width, num_buckets, max_distance)
        self.table = nn.Parameter(model_width**-0.5 * torch.randn(2 * num_buckets, num_heads))

    def bucket(self, distance: Tensor) -> Tensor:
        return t5_bucket(distance, 2 * self.num_buckets, self.max_distance, bidirectional=True)


def t5_bucket(
    distance: Tensor, num_buckets: int, max_distance: int, bidirectional: bool = False
) -> Tensor:
    r"""The bucket of d = i - j, an integer tensor of the shape of `distance`.

    With e = `num_buckets` / 2: d for d < e, else $e + \lfloor (N - e)\ln(d/e) / \ln(M/e) \rfloor$,
    at most N - 1; negative d counts as 0. `bidirectional` halves the buckets and uses the second
    half for d < 0.
    """
    offset = torch.zeros_like(distance, dtype=torch.long)
    if bidirectional:
        num_buckets //= 2
        offset = (distance < 0).long() * num_buckets
        distance = distance.abs()
    distance = distance.clamp(min=0)
    exact = num_buckets // 2
    # The logarithm in float32, as the published models have it: it fixes which side of an edge a
    # distance falls.
    ratio = distance.clamp(min=exact).float() / exact
    far = exact + (ratio.log() / math.log(max_distance / exact) * (num_buckets - exact)).long()
    return offset + torch.where(distance < exact, distance.long(), far.clamp(max=num_buckets - 1))
