"""Softmax-off-by-one: an attention sink whose logit is 0."""

from __future__ import annotations

import torch

from posbench.core.attention import Attention, Plan
from posbench.core.encoding import Wrapper
from posbench.encodings.sink import normalised, with_sink


class OffByOne(Wrapper):
    r"""The softmax with one more in its denominator: attention may go nowhere.

    $w_{ij} = \frac{e^{z_{ij}}}{1 + \sum_k e^{z_{ik}}}$, softmax-off-by-one (E. Miller,
    "Attention is off by one", 2023): `Sink` with its logit fixed at 0. No parameters.
    """

    def encode(self, a: Attention) -> Plan:
        zero = torch.zeros(1, device=a.q.device)
        return self.host.encode(a).each(lambda part, _: normalised(part, with_sink(zero)))
