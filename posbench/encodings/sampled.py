"""Wrappers that draw the positions a host is given: random subsets, random numbers, shifts and
jitter.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from posbench.encoding import Draw, PositionEncoding, Wrapper
from posbench.errors import ConfigError


class Sampled(Wrapper):
    """What they share: in training positions occur that sequences of the training length do not
    have.
    """

    method_class = "trained beyond"

    def __init__(self, host: PositionEncoding) -> None:
        super().__init__(host)
        self.method_class = type(self).method_class


class RandomPositions(Sampled):
    r"""Positions $p_0 < p_1 < \dots$, a random subset of $\{0, \dots, N-1\}$ in order, N =
    `largest` (arXiv 2305.16843).

    One subset is drawn for a batch, in training and at evaluation. Every position that the longest
    test can use has been trained, and so has every distance below N: no test is beyond training,
    only denser. The price is that training shows few pairs of neighbouring positions. N must cover
    the longest test and is known before training; the published N is 2048, the default is just what
    the tests need. Ids of a task are mapped, $p_{id}$, so that those which are equal stay equal.
    All layers see the same draw (the authors' code draws relative encodings anew in every layer).
    """

    def __init__(self, host: PositionEncoding, largest: int) -> None:
        super().__init__(host)
        if largest < 1:
            raise ConfigError(
                f"largest is the number of positions to draw from, at least 1, got {largest}"
            )
        self.largest = largest

    def positions(self, ids: Tensor, draw: Draw) -> Tensor:
        count = self._fits(int(ids.max()) + 1)
        drawn = torch.randperm(self.largest, generator=draw.generator)[:count].sort().values
        return self.host.positions(drawn[ids], draw)

    def span(self, length: int, training: bool = False) -> int:
        self._fits(length)
        return self.host.span(self.largest, training)

    def _fits(self, count: int) -> int:
        if count > self.largest:
            raise ConfigError(
                f"{count} positions cannot be drawn from largest={self.largest}: raise it to the "
                "longest test, or shorten evaluation.multiples and evaluation.further"
            )
        return count


class RandomFloats(Sampled):
    r"""Positions $p_0 \le p_1 \le \dots$, uniform real numbers from $[0, N)$ in order, N =
    `largest` (random float sampling, arXiv 2602.14050).

    One draw for a batch, in training and at evaluation. Any number of tokens fits into the same
    range; what changes with length is how densely, and training has shown gaps of all sizes. Ids of
    a task are mapped, $p_{id}$, so that those which are equal stay equal. The host must accept
    positions that are not whole numbers.
    """

    def __init__(self, host: PositionEncoding, largest: int) -> None:
        super().__init__(host)
        if largest < 1:
            raise ConfigError(
                f"largest is the end of the range of positions, at least 1, got {largest}"
            )
        require_floats(host, "random_floats")
        self.largest = largest

    def positions(self, ids: Tensor, draw: Draw) -> Tensor:
        drawn = (
            self.largest * torch.rand(int(ids.max()) + 1, generator=draw.generator).sort().values
        )
        return self.host.positions(drawn[ids], draw)

    def span(self, length: int, training: bool = False) -> int:
        return self.host.span(self.largest, training)


class SHAPE(Sampled):
    r"""$p_i = i + k$ with k uniform in $\{0, \dots, K\}$, K = `max_shift`, one k for each sequence
    (arXiv 2109.05644). In training only.

    A model with absolute positions cannot then rely on where a sequence begins, and has been shown
    positions up to L + K. The published K is 500, the default as many as the longest test has
    positions. Distances beyond the training length stay unseen. A relative host would not notice a
    shift and is refused.
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


class CAPE(Sampled):
    r"""$p_i = \lambda\,(i + \Delta + \epsilon_i)$ with $\Delta \sim U(-\Delta_m, \Delta_m)$,
    $\epsilon_i \sim U(-\epsilon_m, \epsilon_m)$ and $\ln\lambda \sim U(-\ln\lambda_m,
    \ln\lambda_m)$ (continuous augmented positional embeddings, arXiv 2106.03143). In training only.

    $\Delta$ = shift and $\lambda$ = scaling are one for a sequence, $\epsilon$ = jitter one for a
    token, which up to `max_jitter` 0.5 keeps the order. The published settings for text are 5, 0.5
    and 1.03; the shift scales with the training length here, about the same share of a sentence.
    Positions may be negative. At evaluation nothing is random and positions beyond L + $\Delta_m$
    are as new as to the host: the method makes absolute encodings robust, it does not show them
    long sequences. The host must accept positions that are not whole numbers.
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


def require_floats(host: PositionEncoding, name: str) -> None:
    if not host.float_positions:
        raise ConfigError(
            f"{name} gives positions that are not whole numbers, and {type(host).__name__} has a "
            "row for each whole one: choose another host, such as sinusoidal or rope"
        )
