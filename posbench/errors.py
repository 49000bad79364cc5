"""The public place of `posbench.base.errors`."""

from posbench.base.errors import *  # noqa: F403
