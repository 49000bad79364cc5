"""Mamba-2's form: a state that fades by one factor a head, written to and never corrected."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from posbench.encodings.linear_attention import Decay, LinearAttention, Scores, faded


class Mamba2(LinearAttention):
    r"""A state that fades by one factor a head and token, which also says how much is written.

    $S_t = a_t S_{t-1} + \Delta_t\, v_t k_t^\top$, $o_t = S_t q_t + D\, v_t$ with $\ln a_t =
    -A \Delta_t$ and $\Delta_t = \mathrm{softplus}(w_h^\top x_t + b_h)$, so $z_{ij} = \Delta_j\,
    \langle q_i, k_j \rangle \prod_{s=j+1}^{i} a_s + D\,[i = j]$: Mamba-2 (arXiv 2405.21060),
    with $C, B, x$ for q, k, v.

    A token that writes much also makes the state fade much. A, w, b and D, from 1, are learned in
    every head and layer; `LinearAttention` has the convolution before and the norm and the gate
    after. Beyond the training length nothing is undefined: the state fades as it has learned to,
    and content from further away is lost. Departures: each head has its own q and k, where
    published groups of heads share them; a value is as wide as a key, where states of 64 to 256
    are published; the gate is a sigmoid after the norm, where a SiLU comes before it; the norm is
    of each head, where that of all heads together is published, and the convolution has no bias.
    """

    def __init__(self, model_width: int, num_heads: int, head_width: int, kernel: int) -> None:
        super().__init__(model_width, num_heads, head_width, kernel)
        self.decay = Decay(nn.Linear(model_width, num_heads, bias=False), num_heads)
        self.skip = nn.Parameter(torch.ones(num_heads, 1, 1))

    def scores(self, q: Tensor, k: Tensor, x: Tensor) -> Scores:
        log_decay, step = self.decay(x)
        written = (step * k).mT
        state = faded(log_decay[..., 0], lambda rows: q[..., rows, :] @ written)
        index = torch.arange(q.shape[-2], device=q.device)
        return lambda rows: state(rows) + self.skip * (index[rows, None] == index)
