"""Per-row data-dependent ALiBi: the query alone sets how fast keys fade."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from posbench.base.errors import ConfigError
from posbench.core.attention import Attention
from posbench.core.encoding import PositionEncoding


class PerRowForgetting(PositionEncoding):
    r"""A forget gate whose amounts depend on the query that looks back as well as on the keys.

    $B_{ij} = \sum_{s=j}^{i-1} \ln \sigma\!\left(\langle q'_i, k'_s \rangle / \sqrt{d'}\right)$,
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
