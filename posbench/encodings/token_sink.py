"""A sink read from the token, and queries and keys of bounded length, as Inkling 2 has them."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor, nn

from posbench.base.errors import ConfigError
from posbench.core.attention import Attention, Normaliser, Plan
from posbench.core.encoding import PositionEncoding, Wrapper
from posbench.encodings.sink import normalised

LARGEST = 512 / 128**0.5
"""The largest score, c T^2: Inkling 2 has T = sqrt(512) in heads of 128 channels."""


class TokenSink(Wrapper):
    r"""Each token computes the logit of its own sink, and long queries and keys are shortened.

    $w_{ij} = \frac{e^{z_{ij}}}{e^{s_i} + \sum_k e^{z_{ik}}}$ with $s_i = w_h^\top x_i$, and
    z of the host from $q' = \min\bigl(1, \frac{T}{|g \circ q|}\bigr)\,g \circ q$ and
    $k' = \min\bigl(1, \frac{T}{|k|}\bigr)\,k$ (Inkling 2 as in transformers; no paper).

    x is the normalised input of the layer: a token may say for itself how much of its weight goes
    to no key, where `sink` has one number a head. $w_h$ starts as torch's linear layers, the gains
    g of each channel at 1. T bounds the scores by $c\,T^2$, whatever weights grow to; it is
    $\sqrt{512}$ for the 128 channels of Inkling 2, and here what gives heads of any width the same
    bound of 45. Published with projected relative logits, which are clipped there too and here are
    not.

    The logit is that of the normaliser, so no temperature and no bias reaches it. Beyond the
    training length sums grow with the number of keys and the sink's share falls. The host must end
    in a softmax.
    """

    def __init__(
        self, host: PositionEncoding, num_heads: int, head_width: int, model_width: int
    ) -> None:
        super().__init__(host)
        if num_heads < 1:
            raise ConfigError(
                f"a sink is read for each head: there must be at least one, got {num_heads}"
            )
        self.gain = nn.Parameter(torch.ones(num_heads, head_width))
        self.read = nn.Linear(model_width, num_heads, bias=False)

    def encode(self, a: Attention) -> Plan:
        # Not in bfloat16, whatever the precision of training: the sink is compared with a sum.
        with torch.autocast(a.x.device.type, enabled=False):
            sinks = self.read(a.x.to(self.read.weight.dtype)).mT  # [batch, heads, n]
        longest = (LARGEST / a.scale) ** 0.5
        q = clipped(a.q * self.gain[:, None].to(a.q.dtype), longest)
        return self.host.encode(replace(a, q=q, k=clipped(a.k, longest))).each(
            lambda part, heads: normalised(part, with_sinks(sinks[:, heads]))
        )


def clipped(x: Tensor, longest: float) -> Tensor:
    exact = x.to(torch.promote_types(x.dtype, torch.float32))
    length = torch.linalg.vector_norm(exact, dim=-1, keepdim=True)
    return (exact * (longest / length.clamp(min=longest))).to(x.dtype)


def with_sinks(sinks: Tensor) -> Normaliser:
    """The softmax over the keys and one more logit of each query, [batch, heads, n], which is then
    dropped.
    """

    def normalise(logits: Tensor, allowed: Tensor) -> Tensor:
        index = torch.arange(logits.shape[-1], device=logits.device)
        own = (allowed * index).amax(-1).expand(logits.shape[:-1])  # the last that a query may see
        exact = logits.to(torch.promote_types(logits.dtype, torch.float32))
        exact = exact.masked_fill(~allowed, -torch.inf)
        extra = sinks.to(exact.dtype).gather(-1, own)[..., None]
        return torch.cat((exact, extra), -1).softmax(-1)[..., :-1]

    return normalise
