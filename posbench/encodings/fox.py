"""FoX: a distance is the sum of what gates between the key and the query let fade."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from posbench.base.errors import ConfigError
from posbench.core.attention import Attention
from posbench.core.encoding import PositionEncoding


class FoX(PositionEncoding):
    r"""A forget gate: every token lowers by its own amount the scores of all keys before it.

    $B_{ij} = \sum_{s=j+1}^{i} \ln f_s$ with $f_s = \sigma(w_h^\top x_s + b_h)$, added after the
    scale: the forget gate of the Forgetting Transformer (arXiv 2503.02130), known as data-dependent
    ALiBi as well.

    A weight is multiplied by the gates of every token after its key, so constant gates f are ALiBi
    with slopes $-\ln f$, and open ones NoPE. $w_h$ [model width] and $b_h$ are learned in each
    layer. The bias is exact in two extra channels, $c_i \cdot 1 + 1 \cdot (-c_j)$ with $c_i =
    \sum_{s \le i} \ln f_s$. Beyond the training length nothing is undefined: the model goes on
    forgetting at the rate it has learned. Token positions are not used.

    The paper's gates start at $b_h = 0$, which halves a weight with every token. Here they start at
    `bias_init` = 5, as in x-transformers: a memory of about 150 tokens, so that every token of a
    short training is seen at first. The paper's "Pro" layer is `FoXPro`.
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
