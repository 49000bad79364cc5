"""Wall attention: every channel of a key fades at its own rate, which the content says."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from posbench.base.errors import ConfigError
from posbench.core.attention import Attention
from posbench.core.encoding import PositionEncoding

CHUNK = 32
"""Queries whose keys are faded together; what it is changes no result."""


class Wall(PositionEncoding):
    r"""Each channel of a key fades by a factor that every later token computes.

    $z_{ij} = c \sum_n q_{in}\, k_{jn}\, e^{P_{in} - P_{jn}}$ with $P_i = \sum_{s \le i} \ln
    \sigma(W x_s + b)$, for every head and channel n: Wall attention (Tilde Research,
    blog.tilderesearch.com/blog/wall-attn, June 2026; `fla.ops.wall_attn` of fla-core 0.6).

    What a key says in channel n is multiplied by the gates of every token after it, so a head can
    keep one part of a key and forget another. FoX has one gate a head and adds its logarithm to the
    score: there a faded key loses its weight, here its score goes to 0, which other keys may have
    too. W [head widths of all heads, model width] and b are learned in each layer; open gates are
    NoPE. Token positions are not used.

    Beyond the training length nothing is undefined: the model goes on forgetting at the rates it
    has learned. All gates start at `memory`, the number of tokens after which a channel is down to
    $1/e$: $b = -\ln(e^{1/\text{memory}} - 1)$. b is 8 in the source, 2,981 of 4,096 tokens, and the
    default is the same share of the training length. The source's gate for a whole head, its sink
    and its window are options there and wrappers here; its bound on the gates serves kernels that
    divide by $e^{P_j}$, as nothing here does: see `faded`. A later key, which causality hides,
    scores 0.
    """

    def __init__(self, model_width: int, num_heads: int, head_width: int, memory: float) -> None:
        super().__init__()
        if num_heads < 1 or head_width < 1:
            raise ConfigError(
                "every channel of every head has a gate: there must be at least one, got "
                f"{num_heads} heads of width {head_width}"
            )
        if not memory > 0:
            raise ConfigError(
                "memory is the number of tokens after which a channel has faded to 1/e, more than "
                f"0, got {memory}"
            )
        self.heads_and_width = (num_heads, head_width)
        self.gate = nn.Linear(model_width, num_heads * head_width)
        nn.init.constant_(self.gate.bias, -math.log(math.expm1(1 / memory)))

    def encode(self, a: Attention) -> Attention:
        # Not in bfloat16, whatever the precision of training: a sum of hundreds of logarithms would
        # lose single ones.
        with torch.autocast(a.q.device.type, enabled=False):
            logits = self.gate(a.x.to(self.gate.weight.dtype))
        dtype = torch.promote_types(torch.promote_types(a.q.dtype, logits.dtype), torch.float32)
        gates = F.logsigmoid(logits.to(dtype)).unflatten(-1, self.heads_and_width).transpose(1, 2)
        product = faded(a.q.to(dtype), a.k.to(dtype), gates)
        return replace(a, content=lambda rows: a.scale * product(rows))


def faded(q: Tensor, k: Tensor, gates: Tensor) -> Callable[[slice], Tensor]:
    r"""A function: rows -> $\sum_n q_{in} k_{jn} \exp \sum_{s=j+1}^{i} g_{sn}$ for those i and all
    j <= i, 0 for later j, [batch, heads, rows, keys].

    q, k, gates (g, at most 0): [batch, heads, n, width].

    For keys before a few queries the sum is cut at the first of them, t: $e^{g_{t+1} + \dots + g_i}
    \cdot e^{g_{j+1} + \dots + g_t}$. Neither part exceeds 1, so one matrix product cannot overflow,
    and nothing vanishes that the result would keep. The keys among the queries are faded pair by
    pair. Sums start anew at each t: differences of sums over the whole sequence would be rounded as
    these are.
    """
    n = q.shape[-2]

    def block(first: int, stop: int) -> Tensor:
        here, before = slice(first, stop), slice(0, first)
        since = F.pad(gates[..., first + 1 : stop, :], (0, 0, 1, 0)).cumsum(-2)
        until = gates[..., 1 : first + 1, :].flip(-2).cumsum(-2).flip(-2)
        past = (q[..., here, :] * since.exp()) @ (k[..., before, :] * until.exp()).mT
        fade = since[..., :, None, :] - since[..., None, :, :]
        pairs = q[..., here, None, :] * k[..., None, here, :] * fade.clamp(max=0).exp()
        return F.pad(torch.cat((past, pairs.sum(-1).tril()), -1), (0, n - stop))

    def product(rows: slice) -> Tensor:
        with torch.autocast(q.device.type, enabled=False):
            start, stop, _ = rows.indices(n)
            return torch.cat(
                [block(i, min(i + CHUNK, stop)) for i in range(start, stop, CHUNK)], -2
            )

    return product
