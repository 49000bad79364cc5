"""Wall attention computed by halves: the scores of `Wall`, at about half of a training step."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import torch
import torch.nn.functional as F
from torch import Tensor

from posbench.core.attention import Attention
from posbench.encodings.wall import Wall

LEAF = 4
"""Tokens that are faded pair by pair, at most; what it is changes no result."""


class BlockedWall(Wall):
    r"""Wall attention computed by halves: the same function and parameters as `wall`, for new
    trainings.

    $z_{ij} = c \sum_n q_{in}\, k_{jn}\, e^{P_{in} - P_{jn}}$ with $P_i = \sum_{s \le i} \ln
    \sigma(W x_s + b)$, as in `Wall` (Tilde Research, blog.tilderesearch.com/blog/wall-attn). For
    queries in the second half of a block and keys in the first, the sum is cut at the last token t
    of the first half:

    $z = c\,(Q \odot e^{P - P_t})\,(K \odot e^{P_t - P})^\top$, neither factor of which exceeds 1.

    Each half is halved again, down to four tokens. This is the secondary chunking of gated linear
    attention (arXiv 2312.06635) over all levels: O(n log n) exponentials a channel, where `wall`
    takes 32 n of them and keeps as many for the backward pass.

    Take `wall` to compare with its published records, and this one to train anew. Scores and
    gradients agree up to rounding. A later key, which causality hides, scores 0.
    """

    def encode(self, a: Attention) -> Attention:
        with torch.autocast(a.q.device.type, enabled=False):  # as in Wall
            logits = self.gate(a.x.to(self.gate.weight.dtype))
            dtype = torch.promote_types(torch.promote_types(a.q.dtype, logits.dtype), torch.float32)
            gates = F.logsigmoid(logits.to(dtype)).unflatten(-1, self.heads_and_width)
            product = faded_by_halves(a.scale * a.q.to(dtype), a.k.to(dtype), gates.transpose(1, 2))
        return replace(a, content=product)


def faded_by_halves(q: Tensor, k: Tensor, gates: Tensor) -> Callable[[slice], Tensor]:
    r"""A function: rows -> $\sum_n q_{in} k_{jn} \exp \sum_{s=j+1}^{i} g_{sn}$ for those i and all
    j <= i, 0 for later j, [batch, heads, rows, keys].

    q, k, gates (g, at most 0): [batch, heads, n, width]. Keys before the rows are faded up to the
    first row and from there, as in `faded`; those among the rows by halves.
    """
    n = q.shape[-2]

    def product(rows: slice) -> Tensor:
        with torch.autocast(q.device.type, enabled=False):
            start, stop, _ = rows.indices(n)
            here, before = slice(start, stop), slice(0, start)
            found = among(q[..., here, :], k[..., here, :], gates[..., here, :])
            if start:
                since = F.pad(gates[..., start + 1 : stop, :], (0, 0, 1, 0)).cumsum(-2)
                until = gates[..., 1 : start + 1, :].flip(-2).cumsum(-2).flip(-2)
                past = (q[..., here, :] * since.exp()) @ (k[..., before, :] * until.exp()).mT
                found = torch.cat((past, found), -1)
            return F.pad(found, (0, n - stop))

    return product


def among(q: Tensor, k: Tensor, gates: Tensor) -> Tensor:
    """The scores of the tokens among each other, [batch, heads, n, n], 0 for later keys."""
    n = q.shape[-2]
    halvings = (-(-n // LEAF) - 1).bit_length()
    size = -(-n // 2**halvings)
    filled = (0, 0, 0, size * 2**halvings - n)
    q, k, gates = (F.pad(t, filled).unflatten(-2, (-1, size)) for t in (q, k, gates))
    # [.., blocks, size, width]: from the start of a block to a token, and from after it to the end
    since = gates.cumsum(-2)
    until = F.pad(gates[..., 1:, :], (0, 0, 0, 1)).flip(-2).cumsum(-2).flip(-2)
    fade = (since[..., :, None, :] - since[..., None, :, :]).clamp(max=0).exp()
    scores = (q[..., :, None, :] * k[..., None, :, :] * fade).sum(-1).tril()
    for _ in range(halvings):
        (_, late_q), (early_k, _), (early_since, late_since), (early_until, late_until) = (
            halves(t) for t in (q, k, since, until)
        )
        early, late = halves(scores)
        across = (late_q * late_since.exp()) @ (early_k * early_until.exp()).mT
        scores = torch.cat((F.pad(early, (0, size)), torch.cat((across, late), -1)), -2)
        q, k = (t.unflatten(-3, (-1, 2)).flatten(-3, -2) for t in (q, k))
        whole = late_since[..., -1:, :]
        since = torch.cat((early_since, early_since[..., -1:, :] + late_since), -2)
        until = torch.cat((early_until + whole, late_until), -2)
        size *= 2
    return scores[..., 0, :n, :n]


def halves(t: Tensor) -> tuple[Tensor, ...]:
    """Every other block, and those after them."""
    return t.unflatten(-3, (-1, 2)).unbind(-3)
