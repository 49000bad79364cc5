"""Rotations by a sum over tokens: every token turns all that follow by an angle of its own."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import replace

import torch
import torch.nn.functional as F
from torch import Tensor

from posbench.core.attention import Attention
from posbench.core.encoding import PositionEncoding
from posbench.core.frequencies import Frequencies
from posbench.encodings.rotation import halves, rotate

Tables = tuple[Tensor, Tensor]
"""Cosine and sine, [batch, heads, n, pairs]."""


class AccumulatedAngles(PositionEncoding):
    r"""$z_{ij} = c\,\mathrm{Re}\sum_m
    q_{i,m}\,\overline{k_{j,m}}\;e^{\,\mathrm{i}\,\theta_m(\Phi_{i,m}-\Phi_{j,m})}$ with $\Phi_i =
    p_0 + \sum_{1 \le s \le i} \varphi_s\,(p_s - p_{s-1})$, where `steps` gives $\varphi$.

    With $\varphi = 1$ it is RoPE. Where every token is one position on, as in papers, $\Phi_i$ is
    the sum of $\varphi$; written with positions, ids that jump, run back or repeat keep the meaning
    that they have in RoPE. Two tokens have no distance without those between them, so none is
    offered.
    """

    handles = PositionEncoding.handles | {"frequencies", "positions"}
    frequencies: Frequencies

    @abstractmethod
    def steps(self, x: Tensor) -> Tensor:
        """The steps phi(x) of the input, [batch, heads, n, pairs|1], in float32 or better."""

    def encode(self, a: Attention) -> Attention:
        q_angles, k_angles = self.angles(a)
        return replace(
            a, q=turned(a.q, self.tables(q_angles)), k=turned(a.k, self.tables(k_angles))
        )

    def angles(self, a: Attention) -> tuple[Tensor, Tensor]:
        """The sums, times theta, of queries and of keys, each [batch, heads, n, pairs]."""
        theta = self.frequencies.theta(a.q.device)
        steps = self.steps(a.x).to(theta.dtype)

        def summed(pos: Tensor) -> Tensor:
            pos = pos.to(theta.dtype)[:, None, :, None]  # [batch|1, 1, n, 1]
            moved = (steps[:, :, 1:] * pos.diff(dim=2)).cumsum(2)
            return (pos[:, :, :1] + F.pad(moved, (0, 0, 1, 0))) * theta

        angles = summed(a.q_pos)
        return angles, angles if a.k_pos is a.q_pos else summed(a.k_pos)

    def tables(self, angles: Tensor) -> Tables:
        magnitude = self.frequencies.magnitude
        return magnitude * angles.cos(), magnitude * angles.sin()


def turned(x: Tensor, tables: Tables) -> Tensor:
    """Turns x [batch, heads, n, width] by tables that have heads, where `rotate` adds one."""
    dtype = torch.promote_types(x.dtype, torch.float32)
    real, imaginary = (part[:, None] for part in halves(x))
    return rotate(real, imaginary, *(table.to(dtype) for table in tables)).squeeze(1)
