"""The public place of `posbench.core.attention`."""

from posbench.core.attention import *  # noqa: F403
