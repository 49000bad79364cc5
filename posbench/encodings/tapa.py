"""TAPA: content sets how fast a score swings with the distance."""

from __future__ import annotations

import math
from dataclasses import replace

import torch
from torch import Tensor

from posbench.base.errors import ConfigError
from posbench.core.attention import Attention
from posbench.core.encoding import PositionEncoding


class TAPA(PositionEncoding):
    r"""A score is a product of contents times the cosine of an angle that content and distance
    give.

    $z_{ij} = \frac{c}{\sqrt s}\,\langle q^A_i, k^A_j \rangle\, \cos\left(2\pi\,|i - j|^{\alpha}
    \frac{c}{\sqrt{1 - s}}\,\langle q^P_i, k^P_j \rangle\right)$: token-aware phase attention (arXiv
    2509.12635, equation 12).

    A, the amplitude, is the first s d_h channels of a head, P, the phase, the rest; s is `share`
    and $\alpha$ is `power`, 0.5 and 0.1 in the paper. No parameters beyond a transformer's own. A
    pair whose phases are orthogonal keeps its score at any distance; another swings about 0, the
    faster the better its phases agree, and on average over all contents far keys score 0 without
    any one of them being lost, where RoPE prefers some distances whatever the content.

    Beyond the training length nothing is undefined: $d^{0.1}$ grows by a quarter from 40 positions
    to 320, so phases go hardly further than in training. A later key has its distance, as in the
    paper; causality hides it. The paper trains it at a fifth of RoPE's learning rate; protocols
    here have one rate for all. With $c = 1/\sqrt{d_h}$ both products are divided by the root of
    their own widths, as in the paper.
    """

    handles = PositionEncoding.handles | {"distance", "positions"}

    def __init__(self, head_width: int, share: float = 0.5, power: float = 0.1) -> None:
        super().__init__()
        self.amplitudes = round(share * head_width)
        if not 0 < self.amplitudes < head_width:
            raise ConfigError(
                "share is that of the channels for the amplitude, and the phase needs one too: of "
                f"{head_width} channels it would have {head_width - self.amplitudes}"
            )
        if not power > 0:
            raise ConfigError(f"power is that of the distance, above 0, got {power}")
        self.power = power

    def encode(self, a: Attention) -> Attention:
        # Not in bfloat16, whatever the precision of training: phases are several turns.
        dtype = torch.promote_types(a.q.dtype, torch.float32)
        widths = (self.amplitudes, a.q.shape[-1] - self.amplitudes)
        queries, keys = (t.to(dtype).split(widths, -1) for t in (a.q, a.k))
        scales = [a.scale * math.sqrt(a.q.shape[-1] / width) for width in widths]

        def content(rows: slice) -> Tensor:
            with torch.autocast(a.q.device.type, enabled=False):
                amplitude, phase = (
                    scale * (q[..., rows, :] @ k.mT)
                    for scale, q, k in zip(scales, queries, keys, strict=True)
                )
                reach = a.distance(rows).abs().to(dtype)[:, None] ** self.power
                return amplitude * (2 * math.pi * reach * phase).cos()

        return replace(a, content=content)
