r"""Extensions that sharpen attention: a factor $\tau_i \ge 1$ on the scores of query i, against the
crowd of keys.

With more keys the same scores spread the weight over more of them. All but `YarnTemperature` act on
late queries alone: up to L, the positions seen in training, $\tau_i = 1$.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable

import torch
from torch import Tensor

from posbench.base.errors import ConfigError
from posbench.core.attention import Attention, Plan
from posbench.core.encoding import PositionEncoding, Wrapper
from posbench.core.extension import Extension

Tau = Callable[[Attention], Tensor]
"""call -> the temperature of its queries, [batch|1, 1, n|1, 1]"""


def constant(factor: float) -> Tau:
    """The same temperature for every query."""

    def tau(a: Attention) -> Tensor:
        dtype = torch.promote_types(a.q.dtype, torch.float32)
        return torch.full((1, 1, 1, 1), factor, dtype=dtype, device=a.q.device)

    return tau


class Heated(Wrapper):
    """The host with a temperature on the content scores of every query; a bias stays as it is."""

    def __init__(self, host: PositionEncoding, tau: Tau) -> None:
        super().__init__(host)
        self.tau = tau

    def encode(self, a: Attention) -> Plan:
        return self.host.encode(a.heated(self.tau(a)))


class Temperature(Extension):
    """A temperature that grows with the query's place from `length` on; null means L."""

    needs = "temperature"
    around: type[Heated] = Heated

    def __init__(self, length: int | None = None) -> None:
        if length is not None and length < 2:
            raise ConfigError(
                "length is where the temperature starts to grow, at least 2 (or null for the "
                f"trained length), got {length}"
            )
        self.length = length

    @property
    def is_identity(self) -> bool:
        return self.length is None

    @abstractmethod
    def tau(self, a: Attention, length: int) -> Tensor:
        """The temperature of the queries, [batch|1, n]."""

    def apply(
        self, encoding: PositionEncoding, train_positions: int, test_positions: int
    ) -> PositionEncoding:
        length = self.length if self.length is not None else train_positions
        return self.around(encoding, lambda a: self.tau(a, length)[:, None, :, None])


class Growing(Temperature):
    """With `beta`, the growth of the temperature for each factor e of length."""

    def __init__(self, beta: float = 0.1, length: int | None = None) -> None:
        super().__init__(length)
        if not beta > 0:
            raise ConfigError(
                "beta is the growth of the temperature with the logarithm and must exceed 0, got "
                f"{beta}"
            )
        self.beta = beta
