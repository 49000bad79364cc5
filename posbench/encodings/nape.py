"""NAPE: heads without positions beside heads with ALiBi."""

from __future__ import annotations

from posbench.base.errors import ConfigError
from posbench.core.attention import Attention, Heads
from posbench.core.encoding import PositionEncoding
from posbench.encodings.alibi import ALiBi
from posbench.encodings.nope import NoPE


class NAPE(PositionEncoding):
    r"""Half of the heads have a linear bias of ALiBi's kind; the other half have no positions.

    $B_{ij} = -\frac{1}{h}\,(i - j)$ in the heads h = 1..H/2, NoPE in the other half (arXiv
    2506.16640).

    Slopes are $1/h$, not ALiBi's powers of two; of an odd number of heads the smaller half is
    biased. The first half always looks near; the second has no preference and reaches any distance.
    Beyond the training length nothing is undefined: biased heads keep their window, unbiased ones
    spread over more keys. The paper combines this with entmax, as `entmax` and `asentmax` do; here
    the weights are those of the softmax.
    """

    handles = PositionEncoding.handles | {"positions"}

    def __init__(self, num_heads: int) -> None:
        super().__init__()
        if num_heads < 2:
            raise ConfigError(
                f"NAPE gives half of the heads a bias and needs at least 2 heads, got {num_heads}"
            )
        self.num_near = num_heads // 2
        self.near, self.far = ALiBi(self.num_near), NoPE()
        self.near.slopes = tuple(1 / h for h in range(1, self.num_near + 1))

    def encode(self, a: Attention) -> Heads:
        near, far = a.heads(slice(0, self.num_near)), a.heads(slice(self.num_near, None))
        return Heads((self.near.encode(near), self.far.encode(far)))
