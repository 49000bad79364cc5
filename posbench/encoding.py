"""The public place of `posbench.core.encoding`."""

from posbench.core.encoding import *  # noqa: F403
