"""Turning channels: which two make a pair, and the product with cosine and sine."""

from __future__ import annotations

import torch
from torch import Tensor


def rotate(real: Tensor, imaginary: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """(real + i imaginary) e^{i angle} as [..., real parts | imaginary parts].

    real, imaginary: [batch, heads, n, pairs]; cos, sin: [batch|1, n, pairs], in float32 or better,
    in which the products are formed: rounded to bfloat16 before, a rotation no longer keeps the
    length of what it turns. Scores do not depend on the order of channels, so both layouts come
    back in halves.
    """
    # One complex product instead of four real ones: on a CPU the rotation is a quarter of
    # evaluation otherwise.
    turned = (
        torch.complex(real.to(cos.dtype), imaginary.to(cos.dtype))
        * torch.complex(cos, sin)[:, None]
    )
    return torch.cat((turned.real, turned.imag), -1).to(real.dtype)


def halves(x: Tensor) -> tuple[Tensor, Tensor]:
    real, imaginary = x.chunk(2, -1)
    return real, imaginary


def neighbours(x: Tensor) -> tuple[Tensor, Tensor]:
    return x[..., 0::2], x[..., 1::2]
