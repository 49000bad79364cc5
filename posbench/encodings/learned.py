"""Learned rows, one a position, added to the token embeddings."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from posbench.base.errors import ConfigError
from posbench.core.encoding import PositionEncoding


class Learned(PositionEncoding):
    r"""Every position has a learned row, which is added to the embedding.

    A learned row a position: $x_i \leftarrow x_i + P_i$ (BERT, arXiv 1810.04805; GPT).

    Rows are drawn from $N(0, \sigma^2)$ with the standard deviation of the token embeddings, as in
    BERT and GPT. Beyond the training length the rows exist (`num_rows` covers the longest test) but
    were never trained: that failure is this method's result. Positions beyond `num_rows` raise
    `IndexError`.
    """

    shared = ("table",)
    handles = PositionEncoding.handles | {"rows"}
    relative = False
    float_positions = False

    def __init__(self, model_width: int, num_rows: int, init_std: float = 1.0) -> None:
        super().__init__()
        if num_rows < 1:
            raise ConfigError(
                f"num_rows is the number of positions that have a row, at least 1, got {num_rows}"
            )
        self.table = nn.Parameter(init_std * torch.randn(num_rows, model_width))
        self.max_positions = num_rows

    def embed(self, x: Tensor, pos: Tensor) -> Tensor:
        return x + F.embedding(pos, self.table)
