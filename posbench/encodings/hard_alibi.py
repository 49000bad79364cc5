"""Hard-ALiBi: some heads see a few tokens back and no further, the others everything."""

from __future__ import annotations

import torch
from torch import Tensor

from posbench.base.errors import ConfigError
from posbench.core.attention import Attention
from posbench.core.encoding import PositionEncoding


class HardALiBi(PositionEncoding):
    r"""Some heads see a window of their own width and nothing else; the other heads have no
    positions.

    $B_{ij} = 0$ for $i - j \le r_h$, else $-\infty$, in the first M heads; NoPE in the rest
    (arXiv 2402.01032).

    The reach of the masked head h = 0..M-1 is $r_h = r_0 + h$ with `shortest` $r_0$; offsets are
    counted by index. A head with reach r is a lookup of the last r + 1 tokens; a head without a
    mask finds an earlier occurrence of that run, whatever the distance. `num_masked` M left out
    (null) is two thirds of the heads rounded down, at least 1 (published: 8 of 16, and 8 of 12 in
    an earlier revision of the code). The published $r_0$ is 0, a head that sees only its own token;
    with the two heads of a small model that would be the only masked one and no head could tell the
    previous token from any other, so the default is 1. Beyond the training length masked heads do
    exactly what they did, the others spread as NoPE does. Positions are not read at all. (The
    authors' code also concatenates three quarters of the channels of q and k with themselves; that
    is left out.)
    """

    def __init__(self, num_heads: int, num_masked: int | None = None, shortest: int = 1) -> None:
        super().__init__()
        masked = max(1, 2 * num_heads // 3) if num_masked is None else num_masked
        if not 1 <= masked <= num_heads:
            raise ConfigError(
                f"num_masked is a number of heads, from 1 to {num_heads}, or null, got {num_masked}"
            )
        if shortest < 0:
            raise ConfigError(
                f"shortest is the reach of the first head and must be 0 or more, got {shortest}"
            )
        self.num_heads = num_heads
        self.reach = tuple(range(shortest, shortest + masked))

    def encode(self, a: Attention) -> Attention:
        everything = (a.num_queries,) * (self.num_heads - len(self.reach))

        def mask(rows: slice) -> Tensor:
            reach = torch.tensor(self.reach + everything, device=a.q.device)[:, None, None]
            return (a.offset(rows) <= reach)[None]  # [1, heads, rows, keys]

        return a.where(mask)
