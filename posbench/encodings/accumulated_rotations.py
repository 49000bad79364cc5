"""Accumulated rotations: queries, keys and values turn by a sum of angles read from the tokens."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor, nn

from posbench.base.errors import ConfigError
from posbench.core.attention import Attention
from posbench.core.frequencies import Frequencies
from posbench.encodings.accumulated_angles import AccumulatedAngles, turned


class AccumulatedRotations(AccumulatedAngles):
    r"""RoPE whose angles grow with what the tokens say, on the values as well as on queries and
    keys.

    $z_{ij} = c\,\mathrm{Re}\sum_m
    q_{i,m}\,\overline{k_{j,m}}\;e^{\,\mathrm{i}\,\theta_m(\Phi_i-\Phi_j)}$ and $o_{i,m} = \sum_j
    w_{ij}\,e^{\,\mathrm{i}\,\theta_m(\Phi_j-\Phi_i)}\,v_{j,m}$ with $\Phi_i = p_0 + \sum_{1 \le s
    \le i} \varphi_s\,(p_s - p_{s-1})$ and $\varphi = w_h^\top x + b_h$, for every head (arXiv
    2606.24975; JoFormer's code).

    x is the normalised input of the layer, $\theta_m = b^{-2m/d_h}$ is not trained. $w_h$ starts at
    $N(0, 1/D)$, for model width D, and $b_h$ at `drift`: with 0 sums walk at random from the start,
    and two tokens with many between them are turned against each other as by chance, at any
    distance. That is what the paper has far keys fade by beyond the training length, in the score
    and, as values turn too, in the sum; it also finds that keys do not fade enough in the end. With
    $\varphi = 1$ this is `VORoPE`.

    The paper could be read in excerpts only, and its learned angles are one number a token and
    pair, looked up once by the token in JoFormer's code; here they are one number a token and head,
    read in every layer, times $\theta_m$. That code weighs values by $\ln(1 + e^{z})$ and divides
    by no sum, and its angle between two tokens has the key's own step in place of the query's.
    There every token is one position, $p_s - p_{s-1} = 1$. A factor on cosine and sine, as YaRN has
    it, scales scores alone.
    """

    def __init__(
        self,
        num_heads: int,
        head_width: int,
        model_width: int,
        drift: float = 0.0,
        base: float = 10000.0,
    ) -> None:
        super().__init__()
        if num_heads < 1:
            raise ConfigError(
                f"every head has a step of its own: there must be at least one, got {num_heads}"
            )
        if head_width % 2:
            raise ConfigError(
                f"rotations turn channels in pairs: head_width must be even, got {head_width}"
            )
        self.frequencies = Frequencies(head_width // 2, base)
        self.step = nn.Linear(model_width, num_heads)
        nn.init.normal_(self.step.weight, std=model_width**-0.5)
        nn.init.constant_(self.step.bias, drift)

    def encode(self, a: Attention) -> Attention:
        q_angles, k_angles = self.angles(a)

        def back(out: Tensor, rows: slice) -> Tensor:
            angles = -q_angles[:, :, rows]
            return turned(out, (angles.cos(), angles.sin()))

        return replace(
            a,
            q=turned(a.q, self.tables(q_angles)),
            k=turned(a.k, self.tables(k_angles)),
            v=turned(a.v, (k_angles.cos(), k_angles.sin())),
            finish=back,
        )

    def steps(self, x: Tensor) -> Tensor:
        # Not in bfloat16, whatever the precision of training: errors of steps add up along the
        # sequence.
        with torch.autocast(x.device.type, enabled=False):
            x = x.to(torch.promote_types(x.dtype, self.step.weight.dtype))
            return self.step(x).mT[..., None]
