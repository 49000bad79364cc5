"""Adaptive-scalable entmax: how sharply entmax chooses is read from the query and the length."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from posbench.base.errors import ConfigError
from posbench.core.attention import Attention, Plan
from posbench.core.encoding import PositionEncoding
from posbench.encodings.entmax import Entmax


class ASEntmax(Entmax):
    r"""Entmax in place of the softmax, at a temperature that each query computes from itself and
    its place.

    1.5-entmax at the temperature $\tau_i = \delta + \beta_i\,(\ln (n_i + 1))^{\gamma_i}$ with
    $\beta_i = \ln (1 + e^{u_h^\top x_i})$, $\gamma_i = g \tanh(v_h^\top x_i)$ and $n_i = i + 1$,
    the number of keys: adaptive-scalable entmax (arXiv 2506.16640 and its code).

    $u_h$ and $v_h$ are learned in every head and layer, x is the input of the layer. Each query so
    chooses by its content whether it sharpens or softens as keys become more; with $\gamma$ near 0
    the length has no effect. $\delta$ is `delta` and g is `reach`, 1 and 2 in the code. Keys are
    counted by index, and from 2, as in the code: the logarithm of one key, 0, has no negative
    power. Beyond the training length $(\ln n)^\gamma$ goes on slowly: from 40 keys to 320 it grows
    by $1.55^\gamma$.

    As published, heads to which the host adds a bias keep their scale: those of NAPE, the default
    and the paper's host, that look near. A host without any other head is refused.
    """

    def __init__(
        self,
        host: PositionEncoding,
        num_heads: int,
        model_width: int,
        delta: float = 1.0,
        reach: float = 2.0,
    ) -> None:
        super().__init__(host)
        if num_heads < 1:
            raise ConfigError(
                f"a temperature is learned for each head: there must be one, got {num_heads}"
            )
        self.delta, self.reach = delta, reach
        self.beta = nn.Linear(model_width, num_heads, bias=False)
        self.gamma = nn.Linear(model_width, num_heads, bias=False)

    def encode(self, a: Attention) -> Plan:
        tau = self.temperature(a.x)
        scaled: list[slice] = []

        def scale(part: Attention, heads: slice) -> Attention:
            if part.terms or part.bias_q is not None:
                return part
            scaled.append(heads)
            return part.heated(tau[:, heads])

        plan = super().encode(a).each(scale)
        if not scaled:
            raise ConfigError(
                "heads with a bias keep their scale, and this host adds one to all of them: choose "
                "a host with heads that have none, as nape, rope or nope"
            )
        return plan

    def temperature(self, x: Tensor) -> Tensor:
        """tau, [batch, heads, n, 1], in float32 or better."""
        with torch.autocast(x.device.type, enabled=False):
            x = x.to(torch.promote_types(x.dtype, self.beta.weight.dtype))
            beta, gamma = F.softplus(self.beta(x)), self.reach * self.gamma(x).tanh()
            count = torch.arange(2, x.shape[1] + 2, dtype=x.dtype, device=x.device)[:, None]
            return (self.delta + beta * count.log() ** gamma).mT[..., None]
