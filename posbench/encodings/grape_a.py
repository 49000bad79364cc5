"""GRAPE-A: a linear bias whose slope the content sets."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from posbench.base.errors import ConfigError
from posbench.core.attention import Attention
from posbench.core.encoding import PositionEncoding
from posbench.encodings.alibi import alibi_slopes

GATES = {"key": ("key",), "query": ("query",), "both": ("query", "key")}


class GRAPEA(PositionEncoding):
    r"""ALiBi whose slope is gated by what the query and the key say.

    $B_{ij} = -m_h\,\omega_h\,g_{ij}\,(i - j)$, added after the scale: the additive, gated form
    of group representational position encoding (GRAPE-A, arXiv 2512.07805). $m_h$ are ALiBi's
    slopes.

    The gate g is $\ln\left(1 + e^{\langle u_h, k_j \rangle / \sqrt{d_h}}\right)$ of the key, the
    same of the query with a direction $v_h$ of its own, or the sum of `both`, as `gate` says;
    directions count by their orientation alone. They start at N(0, 1), and so Adam turns them more
    slowly than the authors', which start at length 1. $\omega_h = \ln(1 + e^{o_h}) \ge 0$ starts at
    1. u, v [heads, head width] and o [heads] are learned in each layer. A constant gate is ALiBi. A
    token's content says how fast it fades (key) or how far a query looks (query). Beyond the
    training length the bias goes on linearly. Linear in i and in j, it is exact in two extra
    channels a gate. Gates start around ln 2. The authors form gates from normalised queries and
    keys; here from q and k as they are.
    """

    handles = PositionEncoding.handles | {"distance", "positions"}

    def __init__(
        self, num_heads: int, head_width: int, gate: str = "key", steepness: float = 8.0
    ) -> None:
        super().__init__()
        if gate not in GATES:
            raise ConfigError(f"gate must be one of {', '.join(GATES)}, got {gate!r}")
        self.slopes = alibi_slopes(num_heads, steepness)
        self.omega = nn.Parameter(torch.full((num_heads,), math.log(math.e - 1)))
        self.directions = nn.ParameterDict(
            {side: torch.randn(num_heads, head_width) for side in GATES[gate]}
        )

    def encode(self, a: Attention) -> Attention:
        dtype = torch.promote_types(a.q.dtype, torch.float32)
        slopes = torch.tensor(self.slopes, dtype=dtype, device=a.q.device) * F.softplus(self.omega)
        # Only differences matter, so count from the middle: large products lose the small
        # differences.
        middle = a.k_pos[:, a.k_pos.shape[1] // 2, None]
        i, j = ((pos - middle).to(dtype)[:, None, :] for pos in (a.q_pos, a.k_pos))
        for side, direction in self.directions.items():
            rate = slopes[:, None] * self.rate(
                (a.q if side == "query" else a.k).to(dtype), direction
            )
            one = torch.ones_like(rate)
            if side == "query":
                a = a.factored(torch.stack((-rate * i, rate), -1), torch.stack((one, j * one), -1))
            else:
                a = a.factored(torch.stack((-i * one, one), -1), torch.stack((rate, rate * j), -1))
        return a

    def rate(self, t: Tensor, direction: Tensor) -> Tensor:
        """The gate of queries or keys t, [batch, heads, n]."""
        along = (t * F.normalize(direction, dim=-1)[:, None]).sum(-1)
        return F.softplus(along / math.sqrt(t.shape[-1]))
