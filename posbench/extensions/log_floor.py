"""A temperature that takes a step at every multiple of the training length."""

from __future__ import annotations

import torch
from torch import Tensor

from posbench.core.attention import Attention
from posbench.extensions.temperature import Growing


class LogFloor(Growing):
    r"""Scores take a step up at every whole multiple of the training length.

    $\tau_p = 1 + \beta\,\ln\bigl(1 + \lfloor p / L \rfloor\bigr)$ for a query at position p
    (Ministral 3 as in transformers; Llama 4, in its layers without rotation).

    A step at every multiple of L: 1 for the trained positions 0 to L - 1, $1 + \beta \ln 2$ from
    position L on. Llama 4 floors (p + 1)/8192 and so steps one position earlier, which with its
    8192 replaced by L would change the last trained query; the form of Ministral 3 does not.
    $\beta$ is 0.1 in both. They are trained with it, at lengths where it acts; here it is put on
    afterwards. Negative positions count as 0. A bias is not multiplied.
    """

    def tau(self, a: Attention, length: int) -> Tensor:
        dtype = torch.promote_types(a.q.dtype, torch.float32)
        return 1 + self.beta * (a.q_pos // length).clamp(min=0).to(dtype).log1p()
