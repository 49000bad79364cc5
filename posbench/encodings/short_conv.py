"""A short convolution of queries, keys or values, before the host sees them."""

from __future__ import annotations

from dataclasses import replace

from torch import Tensor, nn

from posbench.base.errors import ConfigError
from posbench.core.attention import Attention, Plan
from posbench.core.encoding import PositionEncoding, Wrapper
from posbench.core.layers import ShortConv

PARTS = ("qkv", "qk", "qv", "kv", "q", "k", "v")


class Convolved(Wrapper):
    r"""Each token's query, key or value also takes in those of the few tokens before it.

    $y_{t,c} = x_{t,c} + \sum_{s=0}^{K-1} w_{c,s}\, x_{t-s,c}$ for every channel c of those among q,
    k and v that `of` names, and the host gets y: a causal depthwise convolution over `kernel` K
    tokens, its own included (Canon layer "B", arXiv 2512.17351, of q, k and v with K = 4; Inkling
    in transformers, of k and v).

    Before the first token there is nothing. w [channels, K] is learned in each layer, starts at
    $N(0, 1/K)$, and is another one for q, k and v. With `of` qkv it is the `short_conv` of the
    model, which rows of other encodings turn on; this one asks which of the three matters. Primer
    (arXiv 2109.08668, K = 3) has it on all three without the first term. H3 (arXiv 2212.14052)
    shifts keys alone, and Mamba (arXiv 2312.00752, K = 4) convolves its only input, with a SiLU
    after it. PaTH (arXiv 2505.16381, K = 3) does so inside, with what its reflections come from.

    A key that holds what came before it can be found by that: an induction head then needs one
    layer in place of two, and no positions. A convolution of v moves content and no score. Tokens
    are counted by index, and K is the same at every length. Where a model normalises q and k, it
    does so before this convolution, but after the `short_conv` of the model. A query that is
    convolved needs the queries before it: a cache of keys and values is then not enough.
    """

    def __init__(
        self,
        host: PositionEncoding,
        num_heads: int,
        head_width: int,
        kernel: int = 4,
        of: str = "qkv",
    ) -> None:
        super().__init__(host)
        if kernel < 1:
            raise ConfigError(
                f"kernel counts the tokens of a convolution, its own too: at least 1, got {kernel}"
            )
        if of not in PARTS:
            raise ConfigError(f"of names what is convolved, one of {', '.join(PARTS)}, got {of}")
        channels = num_heads * head_width
        self.kernel = kernel
        self.convolutions = nn.ModuleDict({part: ShortConv(channels, kernel) for part in of})
        for weight in self.convolutions.parameters():
            nn.init.normal_(weight, std=kernel**-0.5)

    def encode(self, a: Attention) -> Plan:
        def convolved(part: str) -> Tensor:
            x: Tensor = getattr(a, part)
            return by_channel(self.convolutions[part], x) if part in self.convolutions else x

        return self.host.encode(replace(a, q=convolved("q"), k=convolved("k"), v=convolved("v")))


def by_channel(conv: nn.Module, x: Tensor) -> Tensor:
    """`x` is [batch, heads, n, head width]; channels are numbered head by head."""
    y: Tensor = conv(x.transpose(1, 2).flatten(-2))
    return y.unflatten(-1, (x.shape[1], -1)).transpose(1, 2)
