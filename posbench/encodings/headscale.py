"""HeadScale: a learned factor on the scores of each head."""

from __future__ import annotations

import torch
from torch import nn

from posbench.core.attention import Attention, Plan
from posbench.core.encoding import PositionEncoding, Wrapper


class HeadScale(Wrapper):
    r"""The content scores of each head are multiplied by a learned factor.

    $\tau = \tau_h$, one learned factor on the content scores of each head and layer (arXiv
    2404.12224).

    It starts at 1, and a bias of the host is not multiplied. The paper finds $\tau_h$ of a trained
    NoPE model by tuning it alone at the longer length, where heads spread too far; here it is
    trained with the rest from the start, at the training length, so that heads may differ but
    nothing adapts to a length.
    """

    def __init__(self, host: PositionEncoding, num_heads: int) -> None:
        super().__init__(host)
        self.tau = nn.Parameter(torch.ones(num_heads))

    def encode(self, a: Attention) -> Plan:
        return self.host.encode(a.heated(self.tau[None, :, None, None]))
