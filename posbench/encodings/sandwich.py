"""Sandwich: the product of two sinusoidal rows as a bias."""

from __future__ import annotations

import torch

from posbench.base.errors import ConfigError
from posbench.core.attention import Attention
from posbench.core.encoding import PositionEncoding
from posbench.core.frequencies import Frequencies


class Sandwich(PositionEncoding):
    r"""A bias falls as the product of two sinusoidal embeddings does.

    $B_{ij} = \frac{H}{8h} \sum_{m=1}^{W/2} \cos\big((i - j)\, b^{-2m/W}\big)$ for head h =
    1..H, added after the scale (arXiv 2212.10356).

    W is `width` and the 8 is `compression`; no parameters. It is the inner product of two
    sinusoidal rows of W channels, and as such exact in W extra channels. The paper subtracts W/2
    from the sum, so that the bias is 0 at distance 0; softmax does not see what is equal for all
    keys of a query, and it is left out here. W is the paper's 128 whatever the width of the model.
    On average the sum falls with the logarithm of the distance, with ripples; beyond the training
    length it goes on falling, with the published base of 10,000 to some 15,000 tokens, and then
    returns. That is 29 times its training length of 512, and the base scales so that it is here.
    """

    handles = PositionEncoding.handles | {"distance", "positions"}

    def __init__(
        self, num_heads: int, width: int = 128, base: float = 10000.0, compression: float = 8.0
    ) -> None:
        super().__init__()
        if num_heads < 1:
            raise ConfigError(f"Sandwich needs at least one head, got {num_heads}")
        if width < 2 or width % 2:
            raise ConfigError(
                "width counts sines and cosines in pairs: it must be even and at least 2, got "
                f"{width}"
            )
        if not compression > 0:
            raise ConfigError(f"compression must exceed 0, got {compression}")
        pairs = width // 2
        # m counts from 1: every frequency is the next slower one of the usual series.
        self.frequencies = Frequencies(pairs, base).stretched((base ** (1 / pairs),) * pairs)
        self.strengths = tuple(num_heads / (compression * h) for h in range(1, num_heads + 1))

    def encode(self, a: Attention) -> Attention:
        dtype = torch.promote_types(a.q.dtype, torch.float32)
        strengths = torch.tensor(self.strengths, dtype=dtype, device=a.q.device)[:, None, None]
        i, j = (
            torch.cat(self.frequencies.tables(pos, dtype), -1)[:, None]
            for pos in (a.q_pos, a.k_pos)
        )
        return a.factored(strengths * i, j.expand(-1, len(self.strengths), -1, -1))
