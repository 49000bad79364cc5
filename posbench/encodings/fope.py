"""FoPE: every pair of channels turns by a Fourier series instead of one frequency."""

from __future__ import annotations

import math
from dataclasses import replace

import torch
from torch import Tensor

from posbench.base.errors import ConfigError
from posbench.core.attention import Attention
from posbench.core.encoding import PositionEncoding
from posbench.core.frequencies import Frequencies
from posbench.encodings.partial_rotation import fastest, padded, turning_pairs
from posbench.encodings.rotation import halves, rotate


class FoPE(PositionEncoding):
    r"""RoPE in which every pair turns by a sum of waves; those too slow for the training length do
    not turn.

    $z_{ij} = c\,\mathrm{Re}\sum_m q_{i,m} f_m(i)\,\overline{k_{j,m} f_m(j)}$ with $f_m(p) = 1$
    for $\theta_m < 2\pi/L$ and otherwise $f_m(p) = e^{\,\mathrm{i}p\theta_m} + \sum_n
    \bigl(a_{nm}\cos p\theta_n + \mathrm{i}\,b_{nm}\sin p\theta_n\bigr)$ (Fourier position
    embedding, arXiv 2412.17739, eq. 13).

    $\theta_m = b^{-2m/d_h}$, L are the positions seen in training, and n runs over the D
    frequencies that complete a turn in them. a and b are drawn once for each head and layer, from
    $N(0, \sigma^2/D)$, and not trained: with `sigma` = 0.3 a pair's own frequency keeps ten times
    the power of all others together. Neither a rotation, since lengths of queries and keys change,
    nor relative: cosine and sine of $i$ and $j$ no longer combine to $i - j$.

    The published code draws a and b with the gain 0.3 of Xavier's rule for a tensor of all heads,
    which depends on their number; here the rule is that of one head's matrix. It keeps at most half
    of the pairs, to fit its tables, and pads the rest with cosine *and* sine 1, a turn by 45
    degrees and a factor of $\sqrt 2$; the paper has f = 1, and so has this. Its listing divides a
    and b by their sums, its experiments and eq. 13 do not. The text of the paper draws a and b with
    $\sigma$ and no D, and may add frequencies between 0 and $\pi$ to those that pairs have.

    Beyond the training length no frequency is undertrained, which is the purpose. Frequency
    extensions act on the frequencies kept, before they are mixed; which are kept stays as in
    training.
    """

    handles = PositionEncoding.handles | {"frequencies", "positions"}
    relative = False
    cos_mix: Tensor
    sin_mix: Tensor

    def __init__(
        self,
        num_heads: int,
        head_width: int,
        train_positions: int,
        base: float = 10000.0,
        sigma: float = 0.3,
    ) -> None:
        super().__init__()
        if num_heads < 1:
            raise ConfigError(f"FoPE needs at least one head, got {num_heads}")
        if head_width % 2:
            raise ConfigError(
                f"FoPE turns channels in pairs: head_width must be even, got {head_width}"
            )
        if sigma < 0:
            raise ConfigError(
                f"sigma is a standard deviation and must not be negative, got {sigma}"
            )
        pairs = head_width // 2
        whole = Frequencies(pairs, base)
        count = turning_pairs(whole, train_positions)
        self.still = pairs - count
        self.frequencies = fastest(whole, count)
        for name in ("cos_mix", "sin_mix"):
            mix = torch.eye(pairs).repeat(num_heads, 1, 1)
            mix[:, :count, :count] += (
                sigma / math.sqrt(count) * torch.randn(num_heads, count, count)
            )
            self.register_buffer(name, mix)  # [heads, frequencies, pairs]

    def encode(self, a: Attention) -> Attention:
        dtype = torch.promote_types(a.q.dtype, torch.float32)
        cos_mix, sin_mix = self.cos_mix.to(dtype), self.sin_mix.to(dtype)

        def turned(x: Tensor, pos: Tensor) -> Tensor:
            cos, sin = (
                table[:, None] for table in padded(self.frequencies, self.still, pos, dtype)
            )
            real, imaginary = (
                part[:, None] for part in halves(x)
            )  # tables here have heads, where `rotate` adds one
            # Autocast would mix the tables in bfloat16, which holds no angle.
            with torch.autocast(x.device.type, enabled=False):
                mixed = cos @ cos_mix, sin @ sin_mix
            return rotate(real, imaginary, *mixed).squeeze(1)

        return replace(a, q=turned(a.q, a.q_pos), k=turned(a.k, a.k_pos))
