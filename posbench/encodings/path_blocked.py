"""PaTH computed in small blocks: the scores of `PaTH`, at about two thirds of a training step."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import torch
import torch.nn.functional as F
from torch import Tensor

from posbench.core.attention import Attention
from posbench.encodings.path import PaTH

SHORT, LONG = 16, 64
"""Tokens of a block up to `SHORT_UP_TO` tokens, and beyond; what they are changes no result."""
SHORT_UP_TO = 128


class BlockedPaTH(PaTH):
    r"""PaTH computed in blocks: the same function and parameters as `path`, for new trainings.

    $z_{ij} = c\; q_i^\top H_i H_{i-1} \cdots H_{j+1}\, k_j$ with $H_s = I - \beta_s w_s
    w_s^\top$, as in `PaTH` (arXiv 2505.16381). In a block with rows $Q, K, W$ and $V =
    \mathrm{diag}(\beta) W$, the UT transform (arXiv 2406.06484) turns products of reflections into
    $D = (I + \mathrm{tril}(W V^\top, -1))^{-1}$. With $\alpha = \mathrm{tril}(Q V^\top)\, D$ and $O
    = \mathrm{tril}(W K^\top, -1)$,

    $z = c\,(\mathrm{tril}(Q K^\top) - \alpha O)$ inside the block, and
    $z = c\,\bar{Q}\, P \cdots P\, \bar{K}^\top$ between two, with
    $\bar{Q} = Q - \alpha W$, $\bar{K} = K - O^\top U$, $P = I - U^\top W$, $U = D^\top V$,

    with one P for each block between the two. That is the blockwise algorithm of the paper without
    its fused kernel. `path` has one block of 64, and inverts there a matrix four times as wide.

    Take `path` to compare with its published records, and this one to train anew. Scores and
    gradients agree up to rounding; a later key, which causality hides, scores 0 here.
    """

    def encode(self, a: Attention) -> Attention:
        with torch.autocast(a.q.device.type, enabled=False):  # as in PaTH
            w, beta = self.directions(a.x.to(self.strength.weight.dtype))
            dtype = torch.promote_types(torch.promote_types(a.q.dtype, w.dtype), torch.float32)
            q, k, w, beta = (t.to(dtype) for t in (a.q, a.k, w, beta))
            return replace(a, content=reflected_in_blocks(a.scale * q, k, w, beta))

    def directions(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """As in `PaTH`, in the layout in which they are multiplied: [batch, heads, n, width]."""
        channels = F.pad(self.up(self.down(x)), (0, 0, self.kernel - 1, 0)).mT
        # In two dimensions a CPU takes channels last, as they are; in one it transposes them.
        weight = self.conv.weight[:, :, None]
        w = F.conv2d(channels[:, :, None], weight, groups=len(weight)).squeeze(2).mT
        w = F.silu(w).unflatten(-1, self.heads_and_width).transpose(1, 2).contiguous()
        # The bound of F.normalize on a length, 1e-12, squared.
        w = w * w.square().sum(-1, keepdim=True).clamp(min=1e-24).rsqrt()
        return w, 2 * self.strength(x).sigmoid().mT


def reflected_in_blocks(q: Tensor, k: Tensor, w: Tensor, beta: Tensor) -> Callable[[slice], Tensor]:
    r"""A function: rows -> $q_i^\top H_i \cdots H_{j+1} k_j$ for those i and all j <= i, 0 for
    later j, [batch, heads, rows, keys].

    q, k, w: [batch, heads, n, width], beta: [batch, heads, n]. The formula is that of
    `BlockedPaTH`; nothing depends on how rows are asked for.
    """
    n, width = q.shape[-2:]
    count = -(-n // (SHORT if n <= SHORT_UP_TO else LONG))
    size = -(-n // count)

    def cut(t: Tensor) -> Tensor:  # [.., blocks, size, width]; what is filled up reflects nothing
        # Where heads are interleaved, each product would take several times as long.
        return F.pad(t.contiguous(), (0, 0, 0, count * size - n)).unflatten(-2, (count, size))

    q, k, w = cut(q), cut(k), cut(w)
    v = cut(beta[..., None]) * w
    ones = q.new_ones(size, size)
    system = w @ v.mT  # of which the solver reads what is below the diagonal
    eye = torch.eye(size, dtype=q.dtype, device=q.device).expand_as(system)
    inverse = torch.linalg.solve_triangular(system, eye, upper=False, unitriangular=True)
    alpha = ((q @ v.mT) * ones.tril()) @ inverse
    overlap = (w @ k.mT) * ones.tril(-1)
    inside = ((q @ k.mT) * ones.tril() - alpha @ overlap).unbind(-3)
    carried_q = (q - alpha @ w).unbind(-3)
    passed = inverse.mT @ v
    carried_k = (k - overlap.mT @ passed).unbind(-3)
    between = slice(1, count - 1)
    carry = passed[..., between, :, :].mT @ w[..., between, :, :]
    carry = (torch.eye(width, dtype=q.dtype, device=q.device) - carry).unbind(-3)

    def product(rows: slice) -> Tensor:
        with torch.autocast(q.device.type, enabled=False):
            start, stop, _ = rows.indices(n)
            first, last = start // size, (stop - 1) // size
            columns, r = [], q[..., 0, :0, :]  # r: the queries of all blocks passed so far
            for block in range(last, -1, -1):
                column = r @ carried_k[block].mT
                if block >= first:
                    column = torch.cat((inside[block], column), -2)
                    column = F.pad(column, (0, 0, (block - first) * size, 0))
                columns.append(column)
                if block:
                    r = r @ carry[block - 1] if block < last else r
                    r = torch.cat((carried_q[block], r), -2) if block >= first else r
            found = torch.cat(columns[::-1], -1)[..., start - first * size : stop - first * size, :]
            return F.pad(found, (0, n - found.shape[-1]))

    return product
