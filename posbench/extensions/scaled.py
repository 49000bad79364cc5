"""What extensions with a factor share that do not act on frequencies."""

from __future__ import annotations

from posbench.errors import ConfigError
from posbench.extension import Extension


class Scaled(Extension):
    """An extension by a factor s: `scale`, or left out (null) one for each test length, as in `FrequencyExtension`."""

    def __init__(self, scale: float | None = None) -> None:
        if scale is not None and scale < 1:
            raise ConfigError(f"scale is the factor of extension, at least 1 (or null for one a length), got {scale}")
        self.scale = scale

    @property
    def is_identity(self) -> bool:
        return self.scale is None or self.scale == 1
