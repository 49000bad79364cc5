"""Inkling's temperature, on content scores and bias alike."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from posbench.core.attention import Attention, Plan
from posbench.extensions.temperature import Growing, Heated


class AllHeated(Heated):
    """The host, with content scores and bias of every query times a temperature.

    The bias is multiplied itself, once the host has made it: a temperature of the host's own, or of
    an extension around this one, goes on acting on the content alone.
    """

    def encode(self, a: Attention) -> Plan:
        tau = self.tau(a)

        def hot(part: Attention, _: slice) -> Attention:
            if part.scales_bias:
                return part.heated(tau)
            bias_q = None if part.bias_q is None else tau * part.bias_q
            terms = tuple(
                lambda rows, term=term: tau[..., rows, :] * term(rows) for term in part.terms
            )
            return replace(part.heated(tau), terms=terms, bias_q=bias_q)

        return self.host.encode(a).each(hot)


class InklingTemperature(Growing):
    r"""Beyond the training length, scores and bias grow with the logarithm of the query's position.

    $\tau_p = 1 + \beta\,\ln\max\bigl(1, \frac{p+1}{L}\bigr)$ for a query at position p, on
    content scores *and* bias: $z_{ij} = \tau_i\,(c\,\langle q_i, k_j\rangle + B_{ij})$ (Inkling as
    in transformers; no paper).

    It grows without steps, from position L on: at the last trained one it is 1. $\beta$ is 0.1, as
    published. A bias by distance is sharper the later the query:
    ALiBi's slope grows by $\tau$. Without a bias it multiplies the scores alone. Inkling is trained
    with it; here it is put on afterwards.
    """

    around = AllHeated

    def tau(self, a: Attention, length: int) -> Tensor:
        dtype = torch.promote_types(a.q.dtype, torch.float32)
        return 1 + self.beta * ((a.q_pos + 1).to(dtype) / length).clamp(min=1).log()
