"""Forgetting: a distance is the sum of what gates between the key and the query let fade."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from posbench.attention import Attention
from posbench.encoding import PositionEncoding
from posbench.errors import ConfigError


class FoX(PositionEncoding):
    r"""$B_{ij} = \sum_{s=j+1}^{i} \ln f_s$ with $f_s = \sigma(w_h^\top x_s + b_h)$, added after the
    scale: the forget gate of the Forgetting Transformer (arXiv 2503.02130), known as data-dependent
    ALiBi as well.

    A weight is multiplied by the gates of every token after its key, so constant gates f are ALiBi
    with slopes $-\ln f$, and open ones NoPE. $w_h$ [model width] and $b_h$ are learned in each
    layer. The bias is exact in two extra channels, $c_i \cdot 1 + 1 \cdot (-c_j)$ with $c_i =
    \sum_{s \le i} \ln f_s$. Beyond the training length nothing is undefined: the model goes on
    forgetting at the rate it has learned. Token positions are not used.

    The paper's gates start at $b_h = 0$, which halves a weight with every token. Here they start at
    `bias_init` = 5, as in x-transformers: a memory of about 150 tokens, so that every token of a
    short training is seen at first. The paper's "Pro" layer (normalised keys, output gate, shifted
    keys) is no matter of position and not included.
    """

    def __init__(self, model_width: int, num_heads: int, bias_init: float = 5.0) -> None:
        super().__init__()
        if num_heads < 1:
            raise ConfigError(
                f"every head has a forget gate: there must be at least one, got {num_heads}"
            )
        self.gate = nn.Linear(model_width, num_heads)
        nn.init.constant_(self.gate.bias, bias_init)

    def encode(self, a: Attention) -> Attention:
        # Not in bfloat16, whatever the precision of training: a sum of hundreds of logarithms would
        # lose single ones.
        with torch.autocast(a.q.device.type, enabled=False):
            logits = self.gate(a.x.to(self.gate.weight.dtype))
        c = self.log_gate(logits.to(torch.promote_types(logits.dtype, torch.float32))).cumsum(1).mT
        # Only differences matter, so count from the middle: large sums lose the small differences.
        c = (c - c[..., c.shape[-1] // 2, None].detach())[..., None]  # [batch, heads, n, 1]
        one = torch.ones_like(c)
        return a.factored(torch.cat((c, one), -1), torch.cat((one, -c), -1))

    def log_gate(self, logits: Tensor) -> Tensor:
        return F.logsigmoid(logits)


class Cable(FoX):
    r"""$B_{ij} = -\sum_{s=j+1}^{i} \ln\left(1 + e^{w_h^\top x_s + b_h}\right)$, added after the
    scale: context-aware biases (CABLE, arXiv 2503.08067).

    Because $-\ln(1 + e^u) = \ln \sigma(-u)$, this is `FoX` with the sign of the gate's input
    turned, and only the start differs: $w_h$ from N(0, 0.02) and $b_h = 0$, which makes it near
    ALiBi with slope ln 2 in every head: none sees further than some ten tokens at first, and what
    has to be fetched from further away is learned late or not at all in a short training (from $b_h
    = -5$, where `FoX` starts, it is learned). The published code does not scale $\langle q, k
    \rangle$ at all; here it is scaled as for every encoding. Beyond the training length as `FoX`.
    """

    def __init__(self, model_width: int, num_heads: int) -> None:
        super().__init__(model_width, num_heads, bias_init=0.0)
        nn.init.normal_(self.gate.weight, std=0.02)

    def log_gate(self, logits: Tensor) -> Tensor:
        return -F.softplus(logits)


class PerRowForgetting(PositionEncoding):
    r"""$B_{ij} = \sum_{s=j}^{i-1} \ln \sigma\!\left(\langle q'_i, k'_s \rangle / \sqrt{d'}\right)$,
    added after the scale: per-row data-dependent ALiBi. There is no paper; it is x-transformers'
    variant of the forget gate of arXiv 2503.02130 (`PerRowDataDependentAlibi`).

    Where the gates of `FoX` belong to tokens alone, here every query has gates of its own for the
    tokens before it. $q'$ and $k'$ are projections of x to $d'$ channels a head (`gate_width`),
    without a bias, learned in each layer; gates start around one half. The sum includes the key and
    not the query, so a query always sees itself in full. Beyond the training length nothing is
    undefined. Sums over all pairs cannot be factored: a block of rows at a time. Token positions
    are not used.
    """

    def __init__(self, model_width: int, num_heads: int, gate_width: int) -> None:
        super().__init__()
        if num_heads < 1 or gate_width < 1:
            raise ConfigError(
                f"gates need at least one head and one channel, got {num_heads} and {gate_width}"
            )
        self.num_heads = num_heads
        self.gate_width = gate_width
        self.gates = nn.Linear(model_width, 2 * num_heads * gate_width, bias=False)

    def encode(self, a: Attention) -> Attention:
        with torch.autocast(a.q.device.type, enabled=False):  # as in FoX
            both = self.gates(a.x.to(self.gates.weight.dtype)).unflatten(
                -1, (2, self.num_heads, self.gate_width)
            )
        q, k = both.to(torch.promote_types(both.dtype, torch.float32)).permute(2, 0, 3, 1, 4)

        def term(rows: slice) -> Tensor:
            with torch.autocast(a.q.device.type, enabled=False):
                logits = self.gate_width**-0.5 * (q[..., rows, :] @ k.mT)
            faded = F.logsigmoid(logits) * (a.offset(rows) > 0)
            return faded.flip(-1).cumsum(-1).flip(-1)  # [batch, heads, rows, keys]

        return a.plus(term)
