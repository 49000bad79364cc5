"""What encodings share that draw the positions a host is given."""

from __future__ import annotations

from posbench.base.errors import ConfigError
from posbench.core.encoding import PositionEncoding, Wrapper


class Sampled(Wrapper):
    """Training shows positions that no sequence of the training length has."""

    method_class = "trained beyond"


def require_floats(host: PositionEncoding, name: str) -> None:
    if not host.float_positions:
        raise ConfigError(
            f"{name} gives positions that are not whole numbers, and {type(host).__name__} has a "
            "row for each whole one: choose another host, such as sinusoidal or rope"
        )
