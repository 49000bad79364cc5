"""HoPE: RoPE without the frequencies that do not complete a turn in training."""

from __future__ import annotations

from posbench.base.errors import ConfigError
from posbench.core.frequencies import Frequencies
from posbench.encodings.partial_rotation import FastestPairs, turning_pairs


class HoPE(FastestPairs):
    r"""RoPE of which only pairs turn that complete a turn in training.

    $z_{ij} = c\,\mathrm{Re}\sum_m q_{i,m}\,\overline{k_{j,m}}\;e^{\,\mathrm{i}(i-j)\theta_m}$
    with $\theta_m = b^{-2m/d_h}$ where that is at least $2\pi/L$, and 0 for the rest
    (high-frequency rotary position encoding, arXiv 2410.21216).

    L, here `train_positions`, are the positions seen in training. The pairs switched off carry
    content alone, and no long-term decay is left: beyond the training length every angle has been
    seen. It is FoPE without the spread of its frequencies, and p-RoPE with the share that L gives
    (0.2 at base 10,000 and L = 40, 0.48 at the paper's 512). In the paper the last channels do not
    turn; pair m here is channels m and m + d_h/2, which a model trained from scratch does not
    notice.
    """

    def __init__(self, head_width: int, train_positions: int, base: float = 10000.0) -> None:
        if head_width < 2 or head_width % 2:
            raise ConfigError(
                f"rotations turn channels in pairs: head_width must be even, got {head_width}"
            )
        whole = Frequencies(head_width // 2, base)
        super().__init__(head_width, turning_pairs(whole, train_positions), base)
