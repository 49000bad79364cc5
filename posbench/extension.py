"""The public place of `posbench.core.extension`."""

from posbench.core.extension import *  # noqa: F403
