"""Selective RoPE: how far a token turns what follows is read from its content."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from posbench.base.errors import ConfigError
from posbench.core.frequencies import Frequencies
from posbench.encodings.accumulated_angles import AccumulatedAngles


class SelectiveRoPE(AccumulatedAngles):
    r"""RoPE whose angles add up steps that each token computes for each pair.

    $z_{ij} = c\,\mathrm{Re}\sum_m
    q_{i,m}\,\overline{k_{j,m}}\;e^{\,\mathrm{i}\,\theta_m(\Phi_{i,m}-\Phi_{j,m})}$ with $\Phi_i =
    p_0 + \sum_{1 \le s \le i} \varphi_s\,(p_s - p_{s-1})$ and $\varphi = e^{\beta} +
    \mathrm{conv}(W_2 W_1 \hat x)$, for every head and pair m (selective rotary position embedding,
    arXiv 2511.17388).

    $\hat x$ is the input of the layer, each head's part of its channels brought to length 1. The
    convolution sees `kernel` tokens, up to the present one, channel by channel; $W_1$ has `rank`
    outputs. Matrices start as torch's linear layers and convolutions, $\beta$ at 0: at the start
    $\varphi$ is near 1, and with $\varphi = 1$ this is RoPE.

    $\theta_m = b^{-2m/d_h}$ is not trained; b is 500,000 in the authors' code. $e^\beta$ is an
    option of that code which its configurations leave off; without it the first steps here are
    about 0.03 positions a token and order is all but invisible. Another option, a gate on
    $\varphi$, is left out. The paper reads steps from the query of each head, without a rank, and
    has the gate and a bias; its later code reads them as here, with a rank of 32 in its
    configurations and matrices that start at $N(0, 0.02^2)$. The paper counts every token as one
    position, $p_s - p_{s-1} = 1$; written so, ids that jump, run back or repeat keep the meaning
    that they have in RoPE. Two tokens have no distance without those between them, so none is
    offered.

    Beyond the training length sums grow as positions do, and slow pairs reach angles never seen.
    """

    def __init__(
        self,
        num_heads: int,
        head_width: int,
        model_width: int,
        rank: int = 16,
        kernel: int = 4,
        base: float = 10000.0,
    ) -> None:
        super().__init__()
        if num_heads < 1 or model_width % num_heads:
            raise ConfigError(
                f"model_width must be a multiple of num_heads, got {model_width} and {num_heads}"
            )
        if head_width % 2:
            raise ConfigError(
                f"Selective RoPE turns channels in pairs: head_width must be even, got {head_width}"
            )
        if rank < 1 or kernel < 1:
            raise ConfigError(f"rank and kernel are counts of at least 1, got {rank} and {kernel}")
        self.frequencies = Frequencies(head_width // 2, base)
        channels = num_heads * head_width // 2
        self.down = nn.Linear(model_width, rank, bias=False)
        self.up = nn.Linear(rank, channels, bias=False)
        self.conv = nn.Conv1d(channels, channels, kernel, groups=channels, bias=False)
        self.log_step = nn.Parameter(torch.zeros(num_heads, head_width // 2))

    def steps(self, x: Tensor) -> Tensor:
        """phi, [batch, heads, n, pairs]."""
        num_heads = len(self.log_step)
        # Not in bfloat16, whatever the precision of training: errors of steps add up along the
        # sequence.
        with torch.autocast(x.device.type, enabled=False):
            x = x.to(torch.promote_types(x.dtype, self.log_step.dtype))
            unit = F.normalize(x.unflatten(-1, (num_heads, -1)), dim=-1).flatten(-2)
            steps = self.up(self.down(unit)).mT  # [batch, heads * pairs, n]
            steps = self.conv(F.pad(steps, (self.conv.kernel_size[0] - 1, 0)))
            return self.log_step.exp()[:, None] + steps.unflatten(1, (num_heads, -1)).mT
