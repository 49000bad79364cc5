"""CABLE: a context-aware bias, a forget gate that starts elsewhere."""

from __future__ import annotations

import torch.nn.functional as F
from torch import Tensor, nn

from posbench.encodings.fox import FoX


class Cable(FoX):
    r"""A bias adds up what every token between key and query contributes, which is computed from
    that token.

    $B_{ij} = -\sum_{s=j+1}^{i} \ln\left(1 + e^{w_h^\top x_s + b_h}\right)$, added after the
    scale: context-aware biases (CABLE, arXiv 2503.08067).

    Because $-\ln(1 + e^u) = \ln \sigma(-u)$, this is `FoX` with the sign of the gate's input
    turned, and only the start differs: $w_h$ from N(0, 0.02) and $b_h = 0$, which makes it near
    ALiBi with slope ln 2 in every head: none sees further than some ten tokens at first, and what
    has to be fetched from further away is learned late or not at all in a short training (from $b_h
    = -5$, where `FoX` starts, it is learned). The published code does not scale $\langle q, k
    \rangle$ at all; here it is scaled as for every encoding. Beyond the training length as `FoX`.
    """

    def __init__(self, model_width: int, num_heads: int) -> None:
        super().__init__(model_width, num_heads, bias_init=0.0)
        nn.init.normal_(self.gate.weight, std=0.02)

    def log_gate(self, logits: Tensor) -> Tensor:
        return -F.softplus(logits)
