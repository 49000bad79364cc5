"""Abacus embeddings: a learned row for the place of a symbol in its number."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from posbench.base.errors import ConfigError
from posbench.core.encoding import Draw, PositionEncoding
from posbench.encodings.supplied_ids import room


class Abacus(PositionEncoding):
    r"""A digit gets the learned row of its place in the number; in training the places begin at
    random.

    $x_t \leftarrow x_t + P_{k + c_t}$ for the $c_t$-th symbol of a number (from 1), $x_t + P_0$
    for all other tokens; k is a random offset in training and 0 at evaluation (Abacus embeddings,
    arXiv 2405.17399).

    The task says which symbol of its number a token is; numbers are written least significant digit
    first where it matters. One offset is drawn for a batch, from 0 to the largest that the
    `num_rows` rows of P allow, so that every row is trained (published: at most 99 with 20 digits
    in training and 100 in the test, in 1024 rows, most of which never occur). Rows are drawn as
    those of `Learned`. The structure of the task is given, not learned: rows of this method compare
    with those that are given it as well.
    """

    shared = ("table",)
    relative = False
    float_positions = False
    ids = "within"
    method_class = "task-supplied ids"

    def __init__(self, model_width: int, num_rows: int, init_std: float = 1.0) -> None:
        super().__init__()
        if num_rows < 2:
            raise ConfigError(
                "num_rows holds a row for other tokens and one a symbol, at least 2, got "
                f"{num_rows}"
            )
        self.table = nn.Parameter(init_std * torch.randn(num_rows, model_width))
        self.max_positions = num_rows

    def positions(self, ids: Tensor, draw: Draw) -> Tensor:
        offsets = room(ids, len(self.table), "num_rows")
        if draw.training:
            ids = torch.where(
                ids > 0, ids + torch.randint(offsets, (), generator=draw.generator), ids
            )
        return ids

    def span(self, length: int, training: bool = False) -> int:
        return len(self.table)

    def embed(self, x: Tensor, pos: Tensor) -> Tensor:
        return x + F.embedding(pos, self.table)
