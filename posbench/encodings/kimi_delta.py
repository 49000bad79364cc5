"""Kimi Delta Attention: Gated DeltaNet whose channels fade each at its own rate."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from posbench.encodings.gated_deltanet import Writing
from posbench.encodings.linear_attention import Decay, LinearAttention, Scores

SHORT, LONG = 16, 32
"""Tokens of a block up to `SHORT_UP_TO` tokens, and beyond; what they are changes no result."""
SHORT_UP_TO = 128


class KimiDelta(LinearAttention):
    r"""A state in which each token replaces what its key held, and whose channels fade each at its
    own rate.

    $S_t = S_{t-1}\, \mathrm{diag}(a_t) (I - \beta_t k_t k_t^\top) + \beta_t\, v_t k_t^\top$, $o_t =
    c\, S_t q_t$: Kimi Delta Attention (arXiv 2510.26692), which is `GatedDeltaNet` with $a_t$ a
    vector over the channels of a key in place of a number.

    $\ln a_t = -A_h\, \mathrm{softplus}(U D x_t + b)$ over a rank of the head width, all of it
    learned in each layer; $\beta$ is that of `GatedDeltaNet` with strength 1, and
    `LinearAttention` has the convolution before and the norm and the gate after. A state can so
    keep some channels for long and others for a few tokens, as the frequencies of RoPE do. Beyond
    the training length nothing is undefined. Departure: the gate has full rank, where it goes
    through the head width in the paper. `delta_rule` is exact and divides by no decay.
    """

    def __init__(self, model_width: int, num_heads: int, head_width: int, kernel: int) -> None:
        super().__init__(model_width, num_heads, head_width, kernel)
        project = nn.Sequential(
            nn.Linear(model_width, head_width, bias=False),
            nn.Linear(head_width, num_heads * head_width, bias=False),
        )
        self.decay = Decay(project, num_heads, head_width)
        self.writing = Writing(model_width, num_heads, 1.0)

    def scores(self, q: Tensor, k: Tensor, x: Tensor) -> Scores:
        q, k = F.normalize(q, dim=-1), F.normalize(k, dim=-1)
        log_decay, _ = self.decay(x)
        return delta_rule(q.shape[-1] ** -0.5 * q, k, self.writing(x), log_decay)


def delta_rule(q: Tensor, k: Tensor, beta: Tensor, log_decay: Tensor) -> Scores:
    r"""A function: rows -> $\beta_j\, k_j^\top M_{j+1} \cdots M_i\, q_i$ with $M_s =
    \mathrm{diag}(a_s) (I - \beta_s k_s k_s^\top)$ for those i and all j <= i, 0 for later j.

    q, k, log_decay: [batch, heads, n, width], beta: [batch, heads, n].

    In a block, let $C_t = \sum_{s \le t} \ln a_s$ from its start, and $[X, Y]_{ts} = \sum_c
    X_{tc} Y_{sc} e^{C_{tc} - C_{sc}}$. What token t writes is $u = T (V - \bar{K} S_0^\top)$ with
    $T = (I + \mathrm{diag}(\beta)\, \mathrm{tril}([K, K], -1))^{-1} \mathrm{diag}(\beta)$ and
    $\bar{K} = K e^{C}$, as in arXiv 2510.26692. With $P = \mathrm{tril}([Q, K])\, T$, scores
    inside the block are P, and between two blocks $\bar{Q}\, M \cdots M\, \bar{U}^\top$ with
    $\bar{Q} = Q e^{C} - P \bar{K}$, $\bar{U} = T^\top (K e^{C_{end} - C})$ and $M =
    \mathrm{diag}(e^{C_{end}}) - \bar{U}^\top \bar{K}$. No exponent is above 0, however fast a
    channel fades.
    """
    n = q.shape[-2]
    count = -(-n // (SHORT if n <= SHORT_UP_TO else LONG))
    size = -(-n // count)

    def cut(t: Tensor) -> Tensor:  # [.., blocks, size, width]; what is filled up writes nothing
        return F.pad(t, (0, 0, 0, count * size - n)).unflatten(-2, (count, size))

    q, k, beta = cut(q), cut(k), cut(beta[..., None])
    total = cut(log_decay).cumsum(-2)
    ones = q.new_ones(size, size)
    fading = (total[..., :, None, :] - total[..., None, :, :]).clamp(max=0).exp()
    of_keys = k[..., None, :, :] * fading
    overlap = (k[..., None, :] * of_keys).sum(-1) * ones.tril(-1)
    written = torch.linalg.solve_triangular(
        beta * overlap, torch.diag_embed(beta[..., 0]), upper=False, unitriangular=True
    )
    inside = ((q[..., None, :] * of_keys).sum(-1) * ones.tril()) @ written
    faded_k = k * total.exp()
    carried_q = q * total.exp() - inside @ faded_k
    end = total[..., -1:, :]
    carried_k = written.mT @ (k * (end - total).exp())
    carry = torch.diag_embed(end[..., 0, :].exp()) - carried_k.mT @ faded_k
    return between_blocks(inside, carried_q, carried_k, carry, n)


def between_blocks(inside: Tensor, q: Tensor, k: Tensor, carry: Tensor, n: int) -> Scores:
    """Scores from those inside blocks [.., blocks, size, size], queries carried to the start of
    their block and keys to the end of theirs [.., blocks, size, width], and what carries a query
    over a block [.., blocks, width, width].
    """
    size = q.shape[-2]
    insides, queries, keys, carries = (t.unbind(-3) for t in (inside, q, k, carry))

    def product(rows: slice) -> Tensor:
        with torch.autocast(q.device.type, enabled=False):
            start, stop, _ = rows.indices(n)
            first, last = start // size, (stop - 1) // size
            columns, r = [], q[..., 0, :0, :]  # r: the queries of all blocks passed so far
            for block in range(last, -1, -1):
                column = r @ keys[block].mT
                r = r @ carries[block] if block < last else r
                if block >= first:
                    column = torch.cat((insides[block], column), -2)
                    column = F.pad(column, (0, 0, (block - first) * size, 0))
                    r = torch.cat((queries[block], r), -2)
                columns.append(column)
            found = torch.cat(columns[::-1], -1)[..., start - first * size : stop - first * size, :]
            return F.pad(found, (0, max(0, n - found.shape[-1])))[..., :n]

    return product
