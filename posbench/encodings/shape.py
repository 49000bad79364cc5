"""SHAPE: all positions of a sequence shifted by a random number."""

from __future__ import annotations

import torch
from torch import Tensor

from posbench.base.errors import ConfigError
from posbench.core.encoding import Draw, PositionEncoding
from posbench.encodings.sampled import Sampled


class SHAPE(Sampled):
    r"""In training the host's positions are shifted by one random number a sequence.

    $p_i = i + k$ with k uniform in $\{0, \dots, K\}$, K = `max_shift`, one k for each sequence
    (arXiv 2109.05644). In training only.

    A model with absolute positions cannot then rely on where a sequence begins, and has been shown
    positions up to L + K. The published K is 500, the default as many as the longest test has
    positions. Distances beyond the training length stay unseen. At tests positions begin at 0, so
    that up to L + K all have been seen; in the authors' code they begin at K, and none beyond the
    training length has been. A relative host would not notice a shift and is refused.
    """

    def __init__(self, host: PositionEncoding, max_shift: int) -> None:
        super().__init__(host)
        if max_shift < 1:
            raise ConfigError(
                f"max_shift is the largest shift in training, at least 1, got {max_shift}"
            )
        if host.relative:
            raise ConfigError(
                f"{type(host).__name__} is relative, so a shift of all positions changes nothing: "
                "choose an absolute host, such as sinusoidal"
            )
        self.max_shift = max_shift

    def positions(self, ids: Tensor, draw: Draw) -> Tensor:
        if draw.training:
            ids = ids + torch.randint(
                self.max_shift + 1, (draw.batch_size, 1), generator=draw.generator
            )
        return self.host.positions(ids, draw)

    def span(self, length: int, training: bool = False) -> int:
        return self.host.span(length + self.max_shift if training else length, training)
