"""Scalable softmax with an offset: a part of the scores grows with the number of keys."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from posbench.core.encoding import PositionEncoding
from posbench.encodings.ssmax import SSMax


class SSMaxBias(SSMax):
    r"""Scalable softmax with a learned constant added to its temperature.

    $\tau_i = s_h \ln n_i + b_h$ with $n_i = i + 1$, the number of keys: scalable softmax with a
    bias (Mistral Large 4 as in transformers; arXiv 2501.19399).

    A variant of the paper on scalable softmax. Both are learned in every head and layer: a head may
    let its scores grow with the number of keys ($b_h = 0$: SSMax), leave them as they are
    ($s_h = 0$), or anything between. It starts as SSMax, $s_h = 1/\ln L$ with L = `length` and
    $b_h = 0$; from what the published models start is not known (transformers starts at $s_h = 0$,
    $b_h = 1$, until weights are loaded). Mistral counts keys by position, p + 1, and here they are
    counted by index, which is the same where positions count up. A bias of the host is not
    multiplied.
    """

    def __init__(self, host: PositionEncoding, num_heads: int, length: int) -> None:
        super().__init__(host, num_heads, length)
        self.b = nn.Parameter(torch.zeros(num_heads))

    def tau(self, growth: Tensor) -> Tensor:
        return super().tau(growth) + self.b[:, None]
