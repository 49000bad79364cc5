"""TUPE: positions meet positions in projections of their own."""

from __future__ import annotations

import math
from dataclasses import replace

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from posbench.base.errors import ConfigError
from posbench.core.attention import Attention, Plan
from posbench.core.encoding import PositionEncoding, Wrapper


class TUPE(Wrapper):
    r"""Scores of positions with each other, from learned rows, are added to scores of contents.

    $z_{ij} = \frac{c}{\sqrt 2}\big(\langle q_i, k_j\rangle + \langle U_h \bar P_i, W_h \bar
    P_j\rangle\big) + B_{ij}$ with $\bar P = \mathrm{LayerNorm}(P)$ (arXiv 2006.15595, section 3.1).

    B is the host's: T5 makes it TUPE-R, NoPE TUPE-A. P is [rows, D]; U and W are [heads, head
    width, D]. They and the norm, which the authors' code has and the paper leaves out, are shared
    by all layers. The code has biases beside U and W, which the paper and this have not. The paper
    unties the first token, which represents the sentence there, from positions; here it is a token
    like any other.

    As with `Learned`, rows beyond the training length exist (`num_rows` covers the longest test)
    but were never trained, and positions beyond them raise `IndexError`. The second term is an
    exact product in d_h extra channels.
    """

    shared = ("rows", "rows_norm", "rows_to_q", "rows_to_k")
    relative = False
    float_positions = False

    def __init__(
        self,
        host: PositionEncoding,
        num_heads: int,
        head_width: int,
        model_width: int,
        num_rows: int,
    ) -> None:
        super().__init__(host)
        if num_heads < 1:
            raise ConfigError(f"TUPE needs at least one head, got {num_heads}")
        if num_rows < 1:
            raise ConfigError(
                f"num_rows is the number of positions that have a row, at least 1, got {num_rows}"
            )
        # Every position is looked up for itself: it can be no fraction, and a pair has no distance
        # to be changed.
        self.handles = host.handles - {"distance", "positions", "rows"}
        self.max_positions = (
            num_rows if host.max_positions is None else min(num_rows, host.max_positions)
        )
        self.rows = nn.Parameter(torch.randn(num_rows, model_width))
        self.rows_norm = nn.LayerNorm(model_width)
        self.rows_to_q, self.rows_to_k = (
            nn.Parameter(model_width**-0.5 * torch.randn(num_heads, head_width, model_width))
            for _ in range(2)
        )

    def encode(self, a: Attention) -> Plan:
        a = replace(a, scale=a.scale / math.sqrt(2))
        bias_q, bias_k = (
            a.scale * self.seen(a.q_pos, self.rows_to_q),
            self.seen(a.k_pos, self.rows_to_k),
        )
        return self.host.encode(a.factored(bias_q.to(a.q.dtype), bias_k.to(a.q.dtype)))

    def seen(self, pos: Tensor, projection: Tensor) -> Tensor:
        """The projected rows [batch|1, heads, n, head width] of the positions [batch|1, n]."""
        return self.rows_norm(F.embedding(pos, self.rows))[:, None] @ projection.mT
