"""Beam's temperature: scores grow with a small power of the query's position."""

from __future__ import annotations

import torch

from posbench.base.errors import ConfigError
from posbench.core.attention import Attention, Plan
from posbench.core.encoding import PositionEncoding, Wrapper


class BeamTemperature(Wrapper):
    r"""Content scores grow with a power of the query's position.

    $\tau_p = \bigl(1 + \frac{p+1}{n_0}\bigr)^{\beta}$ on the content scores of a query at
    position p (Beam as in transformers; no paper).

    $\beta$ is 0.1, as published, and $n_0$, here `length`, a quarter of the positions of training:
    2,048 of 8,192. It is trained with and has no parameters: 1.17 at the end of training, whose
    queries it sharpens little by little. Beyond it goes on growing, by $2^{0.1}$, 7 %, for twice
    the length in the end, as a logarithm would over such spans. Beam has it in its layers without
    rotation alone, which is why the host is NoPE unless another is chosen. Negative positions count
    as 0. A bias of the host is not multiplied. It describes a place and not a distance, so the
    encoding is not relative.
    """

    relative = False

    def __init__(self, host: PositionEncoding, length: float, beta: float = 0.1) -> None:
        super().__init__(host)
        if not length > 0:
            raise ConfigError(f"length is a number of positions and must exceed 0, got {length}")
        if not beta > 0:
            raise ConfigError(
                f"beta is the power of the position and must exceed 0, as it grows; got {beta}"
            )
        self.length, self.beta = length, beta

    def encode(self, a: Attention) -> Plan:
        dtype = torch.promote_types(a.q.dtype, torch.float32)
        place = (a.q_pos.clamp(min=0) + 1).to(dtype) / self.length
        return self.host.encode(a.heated((1 + place)[:, None, :, None] ** self.beta))
