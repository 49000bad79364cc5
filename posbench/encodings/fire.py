"""FIRE: a small network of the distance as a share of the query's position."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from posbench.base.errors import ConfigError
from posbench.core.attention import Attention
from posbench.core.encoding import PositionEncoding


class FIRE(PositionEncoding):
    r"""A small network turns the distance, as a share of the query's position, into a bias.

    $B_{ij} = f_h\!\left(\frac{\psi(i - j)}{\psi(\max(T, i)) + \epsilon}\right)$ with
    $\psi(x) = \ln(1 + |c|\,x)$, added after the scale (arXiv 2310.04418).

    f is a network 1 -> `hidden_width` -> heads with one ReLU layer. $c$, which starts at `init_c`,
    and the threshold $T = |t|\,T_0$, where t starts at 1, are learned as well, and $\epsilon =
    10^{-6}$. The input of f lies between 0 and 1 at any length, because $i - j \le i$: beyond the
    training length no distance is new as a share, but each covers more tokens. It depends on i,
    so the encoding is not relative. A later key counts as distance 0.

    All layers share one f, c and t: the paper's FIRE-S. Its FIRE has them in every layer, but where
    only answers at the end are scored, no query of a last layer is below T and its own t would
    never be trained. The published `threshold` $T_0$ of 512 is a quarter of the 2,048 positions of
    its training; in one of fewer than 512 inputs would stay below 1, and f would extrapolate at
    test. c starts at 0.1 there, $c\,L \approx 205$; in a short training it starts at 1, since
    positions are whole.
    """

    shared = ("mlp", "c", "multiplier")
    handles = PositionEncoding.handles | {"positions"}
    relative = False

    def __init__(
        self, num_heads: int, hidden_width: int, threshold: float, init_c: float = 0.1
    ) -> None:
        super().__init__()
        if num_heads < 1 or hidden_width < 1:
            raise ConfigError(
                f"FIRE needs at least one head and one hidden unit, got {num_heads} and "
                f"{hidden_width}"
            )
        if not threshold > 0:
            raise ConfigError(f"threshold is a position and must exceed 0, got {threshold}")
        if not init_c > 0:
            raise ConfigError(
                f"init_c must exceed 0, for with 0 all distances are alike; got {init_c}"
            )
        self.threshold = threshold
        self.c = nn.Parameter(torch.tensor(float(init_c)))
        self.multiplier = nn.Parameter(torch.tensor(1.0))
        self.mlp = nn.Sequential(
            nn.Linear(1, hidden_width), nn.ReLU(), nn.Linear(hidden_width, num_heads)
        )

    def encode(self, a: Attention) -> Attention:
        def term(rows: slice) -> Tensor:
            # Not in bfloat16, whatever the precision of training: it would merge neighbouring
            # distances.
            with torch.autocast(a.q.device.type, enabled=False):
                return self.mlp(self.share(a, rows)[..., None]).movedim(
                    -1, 1
                )  # [batch|1, heads, rows, keys]

        return a.plus(term)

    def share(self, a: Attention, rows: slice) -> Tensor:
        """The input of the network, between 0 and 1, [batch|1, rows, keys]."""
        d, i = (t.to(self.c.dtype) for t in (a.distance(rows).clamp(min=0), a.q_pos[:, rows, None]))
        whole = torch.maximum((self.multiplier * self.threshold).abs(), i)
        return self._psi(d) / (self._psi(whole) + 1e-6)

    def _psi(self, x: Tensor) -> Tensor:
        return torch.log1p(self.c.abs() * x)
