"""Gated DeltaNet: a state that fades, and in which a new value replaces what its key held."""

from __future__ import annotations

import torch.nn.functional as F
from torch import Tensor, nn

from posbench.base.errors import ConfigError
from posbench.encodings.linear_attention import Decay, LinearAttention, Scores, faded
from posbench.encodings.path_blocked import reflected_in_blocks


class GatedDeltaNet(LinearAttention):
    r"""A state in which each token replaces what its key held, and which fades by one factor a
    head.

    $S_t = a_t S_{t-1} (I - \beta_t k_t k_t^\top) + \beta_t\, v_t k_t^\top$, $o_t = c\, S_t q_t$:
    the gated delta rule (Gated DeltaNet, arXiv 2412.06464). So $z_{ij} = c\, q_i^\top H_i \cdots
    H_{j+1}\, \beta_j k_j \prod_{s=j+1}^{i} a_s$ with $H_s = I - \beta_s k_s k_s^\top$: the product
    of PaTH with the keys themselves for its directions, the gate of FoX, and no softmax.

    q and k have length 1. $\beta_t = \text{strength}\; \sigma(u_h^\top x_t)$ and $\ln a_t = -A
    \,\mathrm{softplus}(w_h^\top x_t + b_h)$, learned in every head and layer; `LinearAttention` has
    the convolution before and the norm and the gate after. With $\beta = 1$ the key's old value is
    gone. A `strength` of 2 (arXiv 2411.12537, OLMo Hybrid) can turn a direction round and so keep
    track of a state; Qwen3-Next has 1. Beyond the training length nothing is undefined: the state
    fades, overwrites and keeps as it has learned to. Departures: the gate is a sigmoid, where it is
    a SiLU in the paper, and values are as wide as keys, where they are twice as wide.
    """

    def __init__(
        self,
        model_width: int,
        num_heads: int,
        head_width: int,
        kernel: int,
        strength: float = 1.0,
    ) -> None:
        super().__init__(model_width, num_heads, head_width, kernel)
        self.decay = Decay(nn.Linear(model_width, num_heads, bias=False), num_heads)
        self.writing = Writing(model_width, num_heads, strength)

    def scores(self, q: Tensor, k: Tensor, x: Tensor) -> Scores:
        q, k, beta = F.normalize(q, dim=-1), F.normalize(k, dim=-1), self.writing(x)
        log_decay, _ = self.decay(x)
        scaled = q.shape[-1] ** -0.5 * q
        return faded(log_decay[..., 0], reflected_in_blocks(scaled, beta[..., None] * k, k, beta))


class Writing(nn.Module):
    r"""$\beta_t = \text{strength}\; \sigma(u_h^\top x_t)$, how much of a key's old value a new one
    replaces.
    """

    def __init__(self, model_width: int, num_heads: int, strength: float) -> None:
        super().__init__()
        if not 0 < strength <= 2:
            raise ConfigError(
                "strength is the largest beta, above 0 and at most 2, beyond which the state grows "
                f"without end, got {strength}"
            )
        self.strength = strength
        self.project = nn.Linear(model_width, num_heads, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        """[batch, n, model width] -> [batch, heads, n]."""
        beta: Tensor = self.strength * self.project(x).sigmoid().mT
        return beta
