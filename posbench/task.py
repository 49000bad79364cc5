"""The public place of `posbench.core.task`."""

from posbench.core.task import *  # noqa: F403
