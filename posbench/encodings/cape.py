"""CAPE: positions shifted, jittered and stretched at random."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from posbench.base.errors import ConfigError
from posbench.core.encoding import Draw, PositionEncoding
from posbench.encodings.sampled import Sampled, require_floats


class CAPE(Sampled):
    r"""In training the host's positions are shifted, jittered and stretched at random.

    $p_i = \lambda\,(i + \Delta + \epsilon_i)$ with $\Delta \sim U(-\Delta_m, \Delta_m)$,
    $\epsilon_i \sim U(-\epsilon_m, \epsilon_m)$ and $\ln\lambda \sim U(-\ln\lambda_m,
    \ln\lambda_m)$ (continuous augmented positional embeddings, arXiv 2106.03143). In training only.

    $\Delta$ = shift and $\lambda$ = scaling are one for a sequence, $\epsilon$ = jitter one for a
    token, which up to `max_jitter` 0.5 keeps the order. The published settings for text are 5, 0.5
    and 1.03; the shift scales with the training length here, to 5 of 40 positions. Positions may be
    negative. At evaluation nothing is random and positions beyond L + $\Delta_m$ are as new as to
    the host: the method makes absolute encodings robust, it does not show them long sequences. The
    host must accept positions that are not whole numbers.
    """

    def __init__(
        self,
        host: PositionEncoding,
        max_shift: float,
        max_jitter: float = 0.5,
        max_scaling: float = 1.03,
    ) -> None:
        super().__init__(host)
        if max_shift < 0 or max_jitter < 0:
            raise ConfigError(
                f"max_shift and max_jitter must not be negative, got {max_shift} and {max_jitter}"
            )
        if max_scaling < 1:
            raise ConfigError(
                "max_scaling is a factor and its own inverse the smallest, at least 1: "
                f"{max_scaling}"
            )
        require_floats(host, "cape")
        self.max_shift = max_shift
        self.max_jitter = max_jitter
        self.max_scaling = max_scaling

    def positions(self, ids: Tensor, draw: Draw) -> Tensor:
        if draw.training:
            shift = self.max_shift * symmetric((draw.batch_size, 1), draw)
            jitter = self.max_jitter * symmetric((draw.batch_size, ids.shape[1]), draw)
            scaling = (math.log(self.max_scaling) * symmetric((draw.batch_size, 1), draw)).exp()
            ids = scaling * (ids + shift + jitter)
        return self.host.positions(ids, draw)

    def span(self, length: int, training: bool = False) -> int:
        furthest = math.ceil(self.max_scaling * (length - 1 + self.max_shift + self.max_jitter))
        return self.host.span(furthest + 1 if training else length, training)


def symmetric(shape: tuple[int, ...], draw: Draw) -> Tensor:
    """Uniform in [-1, 1)."""
    return 2 * torch.rand(shape, generator=draw.generator) - 1
