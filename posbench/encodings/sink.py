"""Attention sinks: a share of the weight that goes to no key."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor, nn

from posbench.base.errors import ConfigError
from posbench.core.attention import Attention, Normaliser, Plan, softmax
from posbench.core.encoding import PositionEncoding, Wrapper


class Sink(Wrapper):
    r"""A learned logit in every head takes part in the softmax and gives nothing: attention may go
    nowhere.

    $w_{ij} = \frac{e^{z_{ij}}}{e^{s_h} + \sum_k e^{z_{ik}}}$: one more logit $s_h$ in the
    denominator, whose value is zero (gpt-oss, arXiv 2508.10925).

    $s_h$ is learned in every head and layer, and starts at 0. A head that finds nothing can give
    its weight to the sink instead of some key. It is compared with a sum over all keys: beyond the
    training length the sum grows with the number of keys and the sink's share falls. The logit is
    that of the normaliser, so no temperature and no bias reaches it. The host must end in a
    softmax; one that splits heads or regions keeps each head's own sink.
    """

    def __init__(self, host: PositionEncoding, num_heads: int) -> None:
        super().__init__(host)
        if num_heads < 1:
            raise ConfigError(
                f"a sink is learned for each head: there must be at least one, got {num_heads}"
            )
        self.logits = nn.Parameter(torch.zeros(num_heads))

    def encode(self, a: Attention) -> Plan:
        return self.host.encode(a).each(
            lambda part, heads: normalised(part, with_sink(self.logits[heads]))
        )


def normalised(a: Attention, normalise: Normaliser) -> Attention:
    if a.normalise is not softmax:
        raise ConfigError(
            "what changes the softmax needs one, and this host normalises its weights in its own "
            "way: choose a host that ends in a softmax"
        )
    return replace(a, normalise=normalise)


def with_sink(sink: Tensor) -> Normaliser:
    """The softmax over the keys and one more logit [heads|1], which is then dropped."""

    def normalise(logits: Tensor, allowed: Tensor) -> Tensor:
        logits = logits.to(torch.promote_types(logits.dtype, torch.float32)).masked_fill(
            ~allowed, -torch.inf
        )
        extra = sink.to(logits.dtype)[:, None, None].expand(*logits.shape[:-1], 1)
        return torch.cat((logits, extra), -1).softmax(-1)[..., :-1]

    return normalise
