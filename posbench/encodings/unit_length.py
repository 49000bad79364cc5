"""Queries and keys of length one, before the host turns them."""

from __future__ import annotations

from dataclasses import replace

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from posbench.base.errors import ConfigError
from posbench.core.attention import Attention, Plan
from posbench.core.encoding import PositionEncoding, Wrapper


class UnitLength(Wrapper):
    r"""The host gets queries and keys of length one, times a learned scale on every channel.

    $q \leftarrow s \odot q / \lVert q \rVert$, $k \leftarrow s \odot k / \lVert k \rVert$ and
    $c = \sqrt{d_h}$ in place of $1/\sqrt{d_h}$, and then the host: normalised transformer (nGPT,
    arXiv 2410.01131), except that there the norm follows the rotation, as in `UnitLengthAfter`.

    s [heads, head width] is learned in each layer, one for q and k, and starts at 1. Scores are
    cosines, at most $\sqrt{d_h} \max_c s_c^2$ in size, and random ones start at the size 1. The
    model's `qk_norm` is $q \leftarrow g^q \odot \sqrt{d_h}\, q / \lVert q \rVert$ with one scale of
    all heads for q and another for k: the same at the start. A host that turns q and k keeps their
    lengths, so scores stay functions of the distance, and a scale that all channels share could as
    well come after. A bound on scores bounds how much of a softmax one key can have among many, at
    any length. A model that normalises queries and keys before is refused: only this norm counts.
    """

    def __init__(
        self, host: PositionEncoding, num_heads: int, head_width: int, qk_norm: bool = False
    ) -> None:
        if qk_norm:
            raise ConfigError(
                "queries and keys get length one here, and a norm before that changes nothing: "
                "leave model.qk_norm at false, got true"
            )
        if num_heads < 1:
            raise ConfigError(
                f"a scale is learned for each head: there must be at least one, got {num_heads}"
            )
        super().__init__(host)
        self.channel_scale = nn.Parameter(torch.ones(num_heads, head_width))

    def encode(self, a: Attention) -> Plan:
        return self.host.encode(self.unit(a, slice(0, a.num_heads)))

    def unit(self, a: Attention, heads: slice) -> Attention:
        """The call with queries and keys of length one, times the scales of these `heads`."""
        s = self.channel_scale[heads, None]

        def unit(x: Tensor) -> Tensor:
            exact = x.to(torch.promote_types(x.dtype, s.dtype))  # a length in bfloat16 is 1% off
            return (s * F.normalize(exact, dim=-1)).to(x.dtype)

        return replace(a, q=unit(a.q), k=unit(a.k), scale=a.scale * a.q.shape[-1])
