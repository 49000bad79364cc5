"""The part of the pairs, the slowest, that an extension cuts."""

from __future__ import annotations

from posbench.base.errors import ConfigError


def share_of_pairs(share: float) -> float:
    if not 0 < share <= 1:
        raise ConfigError(
            "share is the part of the pairs, the slowest, that is cut: above 0 and at most 1, got "
            f"{share}"
        )
    return share
