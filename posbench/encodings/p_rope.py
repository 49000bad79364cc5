"""p-RoPE: RoPE without its slowest frequencies."""

from __future__ import annotations

from posbench.encodings.partial_rotation import FastestPairs, rotated_pairs


class PRoPE(FastestPairs):
    r"""RoPE with its slowest pairs switched off.

    $z_{ij} = c\,\mathrm{Re}\sum_m q_{i,m}\,\overline{k_{j,m}}\;e^{\,\mathrm{i}(i-j)\theta_m}$
    with $\theta_m = b^{-2m/d_h}$ for $m < \lfloor p\,d_h/2 \rfloor$ and 0 for the rest (p-RoPE,
    arXiv 2410.06205, where $p$, here `share`, is 0.75 at its best; Gemma 4 has 0.25,
    "proportional" in transformers).

    The frequencies kept are those RoPE has for the full width, unlike in `PartialRoPE`. Pair m is
    channels m and m + d_h/2. The pairs that would pass the fewest angles in training, and the most
    new ones beyond it, carry content alone. A frequency extension acts on the grid of the
    frequencies kept: under NTK the slowest of them is stretched by all of s. A factor on cosine and
    sine is one on every pair, for the cosine of 0 is 1.
    """

    def __init__(self, head_width: int, share: float = 0.75, base: float = 10000.0) -> None:
        super().__init__(head_width, rotated_pairs(head_width, share), base)
