"""What layers of linear attention share: a short convolution before, a norm and a gate after, and
weights that are the scores themselves.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable
from dataclasses import replace

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from posbench.base.errors import ConfigError
from posbench.core.attention import Attention
from posbench.core.encoding import PositionEncoding
from posbench.core.layers import OutputGate, ShortConv
from posbench.encodings.short_conv import by_channel

Scores = Callable[[slice], Tensor]
"""rows -> [batch, heads, rows, keys]"""

A_INIT = (1.0, 16.0)
STEP_INIT = (0.001, 0.1)
"""Where decays start: A uniform, the step uniform in its logarithm (Mamba-2, arXiv 2405.21060). The
authors of Gated DeltaNet draw A from 0 on.
"""


class LinearAttention(PositionEncoding):
    r"""A layer whose state is a matrix: $S_t = S_{t-1} M_t + \beta_t\, v_t k_t^\top$ and $o_t =
    S_t\, q_t$, so $o_i = \sum_{j \le i} z_{ij} v_j$ with $z_{ij} = \beta_j\, k_j^\top M_{j+1}
    \cdots M_i\, q_i$.

    A subclass gives z, which replaces the content score, and nothing normalises it. Around that
    is what the published layers have. Before: q, k and v are $\mathrm{SiLU}(C(x))$ with a causal
    convolution C of each channel over `kernel` tokens, which `ShortConv` computes. Its input is
    added, so that C starts nearer to the identity than as published. After: $o
    \leftarrow g \odot o / \mathrm{rms}(o)$ in every head, g [head width] from 1, and $o \leftarrow
    o \odot \sigma(W_g x)$, `OutputGate`. The state is that of the whole sequence, and masks cut
    it: with keys of earlier parts hidden, it begins anew. Token positions are not used.

    Computed as scores, block by block, and so in quadratic time: memory is bounded, and masks and
    the room that shows weights work as for attention. One query needs all keys, where a scan
    would keep S alone. No extension has a handle here. A temperature would be undone by the norm.
    """

    handles = frozenset()
    counts_tokens = True

    def __init__(self, model_width: int, num_heads: int, head_width: int, kernel: int) -> None:
        super().__init__()
        if num_heads < 1:
            raise ConfigError(
                f"every head has a state: there must be at least one, got {num_heads}"
            )
        if kernel < 1:
            raise ConfigError(
                f"kernel counts the tokens of a convolution, its own too: at least 1, got {kernel}"
            )
        channels = num_heads * head_width
        self.convolutions = nn.ModuleDict({part: ShortConv(channels, kernel) for part in "qkv"})
        for weight in self.convolutions.parameters():
            nn.init.normal_(weight, std=kernel**-0.5)
        self.norm = nn.RMSNorm(head_width, eps=1e-5)
        self.output_gate = OutputGate(model_width, channels)

    @abstractmethod
    def scores(self, q: Tensor, k: Tensor, x: Tensor) -> Scores:
        """Scores of q and k [batch, heads, n, width], scaled by nothing yet, with x [batch, n,
        model width]; what it is for a later key does not matter.
        """

    def encode(self, a: Attention) -> Attention:
        # Not in bfloat16, whatever the precision of training: a state sums over hundreds of tokens.
        exact = self.norm.weight.dtype
        with torch.autocast(a.q.device.type, enabled=False):
            q, k, v = (
                F.silu(by_channel(self.convolutions[part], getattr(a, part).to(exact)))
                for part in "qkv"
            )
            x = a.x.to(exact)
            z = self.scores(q, k, x)

        def finish(out: Tensor, rows: slice) -> Tensor:
            normed = self.norm(out.to(exact)).transpose(1, 2)
            gated = self.output_gate(normed.flatten(-2), x[:, rows])
            return gated.unflatten(-1, normed.shape[-2:]).transpose(1, 2).to(out.dtype)

        v = v.to(a.v.dtype)
        return replace(a, q=q, k=k, v=v, content=z, normalise=as_they_are, finish=finish)


def as_they_are(logits: Tensor, allowed: Tensor) -> Tensor:
    """The normaliser: scores are weights, of keys that are seen."""
    return logits.masked_fill(~allowed, 0)


class Decay(nn.Module):
    r"""$\ln a_t = -A\, \Delta_t$ with $\Delta_t = \mathrm{softplus}(W x_t + b)$: how much of the
    state is left after a token, for each of `heads` times `channels` (Mamba-2, arXiv 2405.21060).

    $A > 0$ is learned for each head as its logarithm and starts at $U(1, 16)$. b starts such that
    softplus(b) is between .001 and .1, uniform in its logarithm.
    """

    def __init__(self, project: nn.Module, heads: int, channels: int = 1) -> None:
        super().__init__()
        self.project = project
        self.log_a = nn.Parameter(torch.empty(heads, 1).uniform_(*A_INIT).log())
        low, high = (math.log(step) for step in STEP_INIT)
        step = torch.empty(heads, channels).uniform_(low, high).exp()
        self.step_bias = nn.Parameter(step + (-torch.expm1(-step)).log())  # softplus gives step

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        r"""$\ln a$ and $\Delta$, [batch, heads, n, channels] each."""
        shape = self.step_bias.shape
        step = F.softplus(self.project(x).unflatten(-1, shape) + self.step_bias).transpose(1, 2)
        return -self.log_a.exp()[:, None] * step, step


def faded(log_decay: Tensor, scores: Scores) -> Scores:
    r"""$z_{ij} \prod_{s=j+1}^{i} a_s$ with $\ln a$ [batch, heads, n]."""
    total = log_decay.cumsum(-1)

    def fading(rows: slice) -> Tensor:
        # A later key, which causality hides, would grow beyond all bounds.
        between = (total[..., rows, None] - total[..., None, :]).clamp(max=0)
        return between.exp() * scores(rows)

    return fading
