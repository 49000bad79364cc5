"""DAPE: the bias of another encoding, adapted to what the scores say."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from posbench.base.errors import ConfigError
from posbench.core.attention import Attention, Plan
from posbench.core.encoding import PositionEncoding, Wrapper

ROWS = 16
"""Query rows put through the network at once: its hidden layer holds `hidden_width` numbers a pair.
"""


class DAPE(Wrapper):
    r"""A small network corrects the host's bias by looking at the scores of all heads.

    $z_{ij} = s_{ij} + b_{ij} + f(s_{ij}, b_{ij})$, where s are the content scores and b the
    host's bias of all heads, added after the scale: data-adaptive position encoding (arXiv
    2405.14722).

    f is a network 2 heads -> `hidden_width` -> heads with one layer of LeakyReLU(0.01), learned in
    each layer. It sees each pair (i, j) alone, but all its heads, and so can strengthen or weaken
    the bias by content and mix heads. The paper's hosts are ALiBi, FIRE and, the strongest,
    KERPLE's logarithm; a host without a bias gives b = 0. Beyond the training length b takes new
    values and f continues linearly. Pairs cannot be factored: a block of rows at a time. The scores
    that f reads are those before any temperature. The host must be one attention call, because f
    reads all heads and one bias. The later "DAPE V2", a convolution over keys, is another method.
    """

    def __init__(self, host: PositionEncoding, num_heads: int, hidden_width: int) -> None:
        super().__init__(host)
        if num_heads < 1 or hidden_width < 1:
            raise ConfigError(
                f"DAPE needs at least one head and one hidden unit, got {num_heads} and "
                f"{hidden_width}"
            )
        self.mlp = nn.Sequential(
            nn.Linear(2 * num_heads, hidden_width),
            nn.LeakyReLU(),
            nn.Linear(hidden_width, num_heads),
        )

    def encode(self, a: Attention) -> Plan:
        plan = self.host.encode(a)
        if not isinstance(plan, Attention):
            raise ConfigError(
                "DAPE reads the scores of all heads at once, and this host splits them by head or "
                "region: choose a host that makes one attention call"
            )

        def term(rows: slice) -> Tensor:
            chosen = range(plan.num_queries)[rows]
            starts = range(chosen.start, chosen.stop, ROWS)
            return torch.cat(
                [self.adapted(plan, slice(i, min(i + ROWS, chosen.stop))) for i in starts], -2
            )

        return plan.plus(term)

    def adapted(self, host: Attention, rows: slice) -> Tensor:
        """The network's output for the rows, [batch, heads, rows, keys], in float32 or better."""
        dtype = next(self.mlp.parameters()).dtype
        with torch.autocast(host.q.device.type, enabled=False):
            if host.content is not None:
                content = host.content(rows).to(dtype)
            else:
                content = host.scale * (host.q[..., rows, :].to(dtype) @ host.k.to(dtype).mT)
            bias = host.bias(rows)
            bias = torch.zeros_like(content) if bias is None else bias.to(dtype).expand_as(content)
            return self.mlp(torch.cat((content, bias), 1).movedim(1, -1)).movedim(-1, 1)
