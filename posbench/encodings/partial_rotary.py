"""Rotary encodings that leave a part of every head unrotated."""

from __future__ import annotations

from dataclasses import replace

import torch
import torch.nn.functional as F
from torch import Tensor

from posbench.attention import Attention
from posbench.encoding import PositionEncoding
from posbench.encodings.rotary import halves, rotate
from posbench.errors import ConfigError
from posbench.frequencies import Frequencies


class PartialRoPE(PositionEncoding):
    r"""RoPE on the first $r = \rho d_h$ channels of a head, the rest as they are: $z_{ij} =
    c\,\bigl(\mathrm{Re}\sum_{m<r/2} q_{i,m}\,\overline{k_{j,m}}\;e^{\,\mathrm{i}(i-j)\theta_m} +
    \sum_{c \ge r} q_{i,c}\,k_{j,c}\bigr)$ with $\theta_m = b^{-2m/r}$ (GPT-NeoX, arXiv 2204.06745,
    where $\rho$, here `share`, is 0.25; GPT-J has 64 channels of 256).

    The whole range of frequencies is spread over the few pairs, unlike in `PRoPE`. Pair m is
    channels m and m + r/2, as in GPT-NeoX. Beyond the training length the slow pairs reach angles
    never seen, as in RoPE, but the unrotated channels match content at any distance. A factor on
    cosine and sine, as YaRN has it, leaves the unrotated channels alone, as in transformers.
    """

    handles = PositionEncoding.handles | {"frequencies", "distance", "positions"}

    def __init__(self, head_width: int, share: float = 0.25, base: float = 10000.0) -> None:
        super().__init__()
        self.frequencies = Frequencies(rotated_pairs(head_width, share), base)

    def encode(self, a: Attention) -> Attention:
        dtype, r = torch.promote_types(a.q.dtype, torch.float32), 2 * self.frequencies.count

        def turned(x: Tensor, pos: Tensor) -> Tensor:
            return torch.cat(
                (rotate(*halves(x[..., :r]), *self.frequencies.tables(pos, dtype)), x[..., r:]), -1
            )

        return replace(a, q=turned(a.q, a.q_pos), k=turned(a.k, a.k_pos))


class PRoPE(PositionEncoding):
    r"""RoPE with its slowest pairs switched off: $z_{ij} = c\,\mathrm{Re}\sum_m
    q_{i,m}\,\overline{k_{j,m}}\;e^{\,\mathrm{i}(i-j)\theta_m}$ with $\theta_m = b^{-2m/d_h}$ for $m
    < \lfloor p\,d_h/2 \rfloor$ and 0 for the rest (p-RoPE, arXiv 2410.06205, where $p$, here
    `share`, is 0.75 at its best; Gemma 4 has 0.25, "proportional" in transformers).

    The frequencies kept are those RoPE has for the full width, unlike in `PartialRoPE`. Pair m is
    channels m and m + d_h/2. The pairs that would pass the fewest angles in training, and the most
    new ones beyond it, carry content alone. A frequency extension acts on the grid of the
    frequencies kept: under NTK the slowest of them is stretched by all of s. A factor on cosine and
    sine is one on every pair, for the cosine of 0 is 1.
    """

    handles = PositionEncoding.handles | {"frequencies", "distance", "positions"}

    def __init__(self, head_width: int, share: float = 0.75, base: float = 10000.0) -> None:
        super().__init__()
        count = rotated_pairs(head_width, share)
        self.still = head_width // 2 - count
        self.frequencies = fastest(Frequencies(head_width // 2, base), count)

    def encode(self, a: Attention) -> Attention:
        dtype = torch.promote_types(a.q.dtype, torch.float32)

        def turned(x: Tensor, pos: Tensor) -> Tensor:
            return rotate(*halves(x), *padded(self.frequencies, self.still, pos, dtype))

        return replace(a, q=turned(a.q, a.q_pos), k=turned(a.k, a.k_pos))


def fastest(frequencies: Frequencies, count: int) -> Frequencies:
    """The first `count` of an unstretched grid, as a grid of their own: $b^{-m/K} =
    (b^{count/K})^{-m/count}$.
    """
    return Frequencies(count, frequencies.base ** (count / frequencies.count))


def padded(
    frequencies: Frequencies, still: int, pos: Tensor, dtype: torch.dtype
) -> tuple[Tensor, Tensor]:
    """Cosine and sine with `still` further pairs of frequency 0, [*pos.shape, count + still]."""
    cos, sin = frequencies.tables(pos, dtype)
    return F.pad(cos, (0, still), value=frequencies.magnitude), F.pad(sin, (0, still))


def rotated_pairs(head_width: int, share: float) -> int:
    """How many pairs of a head turn."""
    if head_width % 2:
        raise ConfigError(
            f"rotations turn channels in pairs: head_width must be even, got {head_width}"
        )
    if not 0 < share <= 1:
        raise ConfigError(
            f"share is the part of a head that turns, above 0 and at most 1, got {share}"
        )
    count = int(share * head_width // 2)
    if count < 1:
        raise ConfigError(
            f"share={share} of head_width={head_width} leaves no pair to turn: raise either"
        )
    return count
