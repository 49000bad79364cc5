"""What encodings share that draw the positions a host is given."""

from __future__ import annotations

from posbench.encoding import PositionEncoding, Wrapper
from posbench.errors import ConfigError


class Sampled(Wrapper):
    """What they share: in training positions occur that sequences of the training length do not
    have.
    """

    method_class = "trained beyond"

    def __init__(self, host: PositionEncoding) -> None:
        super().__init__(host)
        self.method_class = type(self).method_class


def require_floats(host: PositionEncoding, name: str) -> None:
    if not host.float_positions:
        raise ConfigError(
            f"{name} gives positions that are not whole numbers, and {type(host).__name__} has a "
            "row for each whole one: choose another host, such as sinusoidal or rope"
        )
