"""Sinusoidal rows times one learned number."""

from __future__ import annotations

import torch
from torch import nn

from posbench.encodings.sinusoidal import Sinusoidal


class ScaledSinusoidal(Sinusoidal):
    r"""Sinusoidal embeddings times one learned number.

    `Sinusoidal` times one learned number: $x_i \leftarrow x_i + g\,P_i$ (the scaled sinusoidal
    embedding of x-transformers; no paper).

    g starts at `init_scale`. Published: $1/\sqrt D$, next to token embeddings of about that size;
    the default starts at the size of the token embeddings here. Beyond the training length as
    `Sinusoidal`.
    """

    shared = ("scale",)

    def __init__(
        self,
        model_width: int,
        base: float = 10000.0,
        init_scale: float = 1.0,
        layout: str = "interleaved",
        spacing: str = "paper",
    ) -> None:
        super().__init__(model_width, base, layout=layout, spacing=spacing)
        self.scale = nn.Parameter(torch.tensor(float(init_scale)))
